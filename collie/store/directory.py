"""Names inside a campaign directory, and files that are either whole or absent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from collie.errors import StoreError, StoreUnwritable
from collie.files import Folder, read_bytes

LOCK_NAME = "campaign.lock"
ANOMALIES = "anomalies"

MAX_BYTES = 4 << 20
"""Of a file beside the record; the largest, a fingerprint, has some kilobytes."""


@dataclass(frozen=True, slots=True)
class CampaignDirectory:
    """Where things are in a campaign directory.

    Attributes:
        path: of the directory.
    """

    path: Path

    @property
    def database(self) -> Path:
        """The record."""
        return self.path / "campaign.sqlite"

    @property
    def unfinished(self) -> Path:
        """The record while it is made."""
        return self.path / "campaign.sqlite.new"

    @property
    def write_ahead_log(self) -> Path:
        """What SQLite has not yet moved into the record."""
        return self.path / "campaign.sqlite-wal"

    @property
    def results(self) -> Path:
        """Every run as a line of JSON, written from the record."""
        return self.path / "results.jsonl"

    @property
    def status(self) -> Path:
        """What the process that runs the campaign last said of itself."""
        return self.path / "status.json"

    @property
    def log(self) -> Path:
        """Logs, one per process that worked on the campaign."""
        return self.path / "log"

    @property
    def fingerprints(self) -> Path:
        """What the hosts were when the campaign ran on them."""
        return self.path / "fingerprint"

    def anomaly(self, identifier: str) -> Path:
        """Files of one anomaly."""
        return self.path / ANOMALIES / identifier

    def prepare(self) -> None:
        """Make the directory.

        Raises:
            StoreError: it cannot be made, holds a campaign, or holds something else.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            present = set(os.listdir(self.path))
        except OSError as error:
            raise StoreError(f"{self.path} cannot be made a campaign directory: {error.strerror}") from None
        if self.database.name in present:
            raise StoreError(
                f"{self.path} already holds a campaign; go on with it by --resume {self.path}, "
                "or name another directory"
            )
        # What a creation that was killed leaves behind, and what a caller may have put down before.
        journal = f"{self.unfinished.name}-journal"
        present -= {LOCK_NAME, self.unfinished.name, journal, "log", "fingerprint"}
        if present:
            raise StoreError(
                f"{self.path} is not empty ({', '.join(sorted(present)[:3])}); name a new directory for the campaign"
            )


def read_some(path: Path) -> str:
    """Read a small text file of a folder that others may have filled.

    Raises:
        OSError: it is no regular file or a link, is longer than any that Collie writes, or cannot be read.
        ValueError: it is no text.
    """
    return read_bytes(path, MAX_BYTES, follow=False).decode()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name a file or folder that turns out not to be writable.

    Raises:
        StoreUnwritable: the file system refuses.
    """
    try:
        yield
    except OSError as error:
        culprit = f"{error.filename}: " if error.filename not in (None, str(path)) else ""
        raise StoreUnwritable(f"{path} cannot be written: {culprit}{error.strerror}") from None


def write_whole(path: Path, parts: Iterable[str], mode: int = 0o600) -> None:
    """Write a text file that a reader sees either as it was or complete, never in between.

    Args:
        path: the file; a link in its place is replaced. Links on the way to its folder are the caller's own.
        parts: of its text.
        mode: of the file, as far as the umask allows; for its owner alone unless it is meant for others.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with Folder(path.parent) as folder:
        folder.write(path.name, parts, mode)


def private(path: Path, mode: int = 0o600) -> TextIO:
    """Open a new text file for its owner alone: what a campaign records names hosts and their addresses."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace")


def publish(unfinished: Path, path: Path) -> None:
    """Give a complete file its name, for good: the name survives the death of the machine too."""
    os.rename(unfinished, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
