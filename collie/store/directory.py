"""File names of a campaign directory, and files that are either complete or absent."""

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
"""Largest file beside the record. The largest real one, a fingerprint, has some kilobytes."""


@dataclass(frozen=True, slots=True)
class CampaignDirectory:
    """Paths inside a campaign directory."""

    path: Path

    @property
    def database(self) -> Path:
        """The record."""
        return self.path / "campaign.sqlite"

    @property
    def unfinished(self) -> Path:
        """The record during its creation."""
        return self.path / "campaign.sqlite.new"

    @property
    def write_ahead_log(self) -> Path:
        """The part of the record that SQLite has not merged yet."""
        return self.path / "campaign.sqlite-wal"

    @property
    def results(self) -> Path:
        """Every run as a line of JSON, written from the record."""
        return self.path / "results.jsonl"

    @property
    def status(self) -> Path:
        """The last status of the process that runs the campaign."""
        return self.path / "status.json"

    @property
    def log(self) -> Path:
        """Logs, one per process that worked on the campaign."""
        return self.path / "log"

    @property
    def fingerprints(self) -> Path:
        """Fingerprints of the hosts during the campaign."""
        return self.path / "fingerprint"

    def anomaly(self, identifier: str) -> Path:
        """Files of one anomaly."""
        return self.path / ANOMALIES / identifier

    def prepare(self) -> None:
        """Create the directory.

        Raises:
            StoreError: it cannot be created, or holds a campaign or other files.
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
        # A killed creation leaves these, and a caller can have written the others.
        journal = f"{self.unfinished.name}-journal"
        present -= {LOCK_NAME, self.unfinished.name, journal, "log", "fingerprint"}
        if present:
            raise StoreError(
                f"{self.path} is not empty ({', '.join(sorted(present)[:3])}); name a new directory for the campaign"
            )


def read_some(path: Path) -> str:
    """Read a small text file from a folder that other users can write.

    Raises:
        OSError: it is a link or no regular file, is too long, or cannot be read.
        ValueError: it is not text.
    """
    return read_bytes(path, MAX_BYTES, follow=False).decode()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file or folder that cannot be written.

    Raises:
        StoreUnwritable: the file system refuses.
    """
    try:
        yield
    except OSError as error:
        culprit = f"{error.filename}: " if error.filename not in (None, str(path)) else ""
        raise StoreUnwritable(f"{path} cannot be written: {culprit}{error.strerror}") from None


def write_whole(path: Path, parts: Iterable[str], mode: int = 0o600) -> None:
    """Write a text file atomically: a reader sees either the old text or the new one.

    A link in its place is replaced. Links on the way to its folder are the caller's responsibility. Only the owner can
    read the file by default.

    Raises:
        OSError: it cannot be written. The old file stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with Folder(path.parent) as folder:
        folder.write(path.name, parts, mode)


def private(path: Path, mode: int = 0o600) -> TextIO:
    """Open a new text file for its owner alone, because records contain host names and addresses."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace")


def publish(unfinished: Path, path: Path) -> None:
    """Give a complete file its name, which survives a crash of the machine."""
    os.rename(unfinished, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
