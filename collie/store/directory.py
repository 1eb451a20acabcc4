"""File names in a campaign directory, and the writing of files that are either complete or absent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collie.errors import StoreError, StoreUnwritable
from collie.store.vetting import RECORD

LOCK_NAME = "campaign.lock"
ANOMALIES = "anomalies"

MAX_BYTES = 4 << 20  # limit on a file beside the record. A fingerprint has some kilobytes


class CampaignDirectory:
    """Paths inside a campaign directory.

    Attributes:
        database, unfinished: the record, and its name during creation.
        results: every run as a line of JSON.
        status: last status of the process that runs the campaign.
        answer: the answer of a gate.
        log, fingerprints: folders.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / RECORD
        self.unfinished = path / f"{RECORD}.new"
        self.results = path / "results.jsonl"
        self.status = path / "status.json"
        self.answer = path / "gate.json"
        self.log = path / "log"
        self.fingerprints = path / "fingerprint"

    def prepare(self) -> None:
        """Create the directory. Raises `StoreError` if it holds a campaign or other files."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            present = set(os.listdir(self.path))
        except OSError as error:
            raise StoreError(f"{self.path} cannot become a campaign directory: {error.strerror}") from None
        if RECORD in present:
            raise StoreError(
                f"{self.path} already holds a campaign; continue it with --resume {self.path}, "
                "or name another directory"
            )
        # An interrupted creation can leave the first three. The caller can have created the two folders.
        present -= {LOCK_NAME, f"{RECORD}.new", f"{RECORD}.new-journal", self.log.name, self.fingerprints.name}
        if present:
            raise StoreError(
                f"{self.path} is not empty ({', '.join(sorted(present)[:3])}); name a new directory for the campaign"
            )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` into a `StoreUnwritable` that names the file or folder."""
    try:
        yield
    except OSError as error:
        culprit = f"{error.filename}: " if error.filename not in (None, str(path)) else ""
        raise StoreUnwritable(f"{path} cannot be written: {culprit}{error.strerror}") from None


def publish(unfinished: Path, path: Path) -> None:
    """Rename a complete file to `path`. The new name survives a crash of the machine."""
    os.rename(unfinished, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
