"""Which campaigns there are, without locking or changing any."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from collie.errors import StoreError
from collie.ports import CampaignHeader
from collie.store.directory import CampaignDirectory
from collie.store.sqlite import SqliteStore


def is_campaign(path: Path) -> bool:
    """Whether a directory holds a campaign, readable or not."""
    return CampaignDirectory(path).database.is_file()


def peek_header(path: Path) -> CampaignHeader:
    """Return what fixes a campaign, which another process may be writing.

    Raises:
        StoreError: it is no campaign, or of a newer schema.
    """
    with SqliteStore.open(path, read_only=True) as store:
        return store.header


def list_campaigns(root: Path) -> Iterator[tuple[Path, CampaignHeader | StoreError]]:
    """Yield the campaigns directly under a directory by name; with the reason where one cannot be read."""
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if is_campaign(path):
            try:
                yield path, peek_header(path)
            except StoreError as error:
                yield path, error
