"""Checks of a record's files before SQLite opens them.

SQLite acts on files beside a database. It replays a rollback journal (`-journal`) into the database, and deletes the
super-journal that it names, at any path. It writes into the write-ahead log (`-wal`) and its index (`-shm`).

1. A record has no rollback journal, because it is in WAL mode before it gets its name.
2. Its files are regular files, not links.
3. Log and index belong to the owner of the record, who alone can read it. If SQLite will write them, they have no
   second link, which could be a file elsewhere.
4. The log begins like SQLite's logs. Zeros are accepted: SQLite skips a log that was not written before a crash.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from collie.errors import StoreError
from collie.files import Folder, require_regular

RECORD = "campaign.sqlite"
BESIDE = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite creates and reads beside a database."""

LOG, INDEX, JOURNAL = (f"{RECORD}{suffix}" for suffix in BESIDE)

_LOG_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
"""sqlite.org/fileformat2.html, section 4.1: checksums in either byte order."""

_LOG_HEADER_BYTES = 32
_NEVER_WRITTEN = bytes(4)


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity and state of a file. Another file, or a change, gives other values."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a record at one moment.

    Attributes:
        is_mine: whether this process's user owns the record.
    """

    record: Identity
    log: Identity | None
    is_mine: bool

    @property
    def has_log(self) -> bool:
        """Whether the log holds a part of the record."""
        return self.log is not None and self.log.size > 0

    @property
    def size(self) -> int:
        """Bytes of both, an upper bound for all rows together."""
        return self.record.size + (self.log.size if self.log else 0)


def vetted(folder: Folder, *, to_write: bool) -> Files:
    """Check and return the files of a record. `to_write` is whether SQLite will write into log and index.

    Raises:
        StoreError: the record is missing, or one of its files is not Collie's.
    """
    try:
        record = folder.stat(RECORD)
        if record is None:
            raise StoreError(f"{folder.path} holds no campaign: there is no {RECORD} in it")
        require_regular(record.st_mode, folder.path / RECORD)
        if folder.stat(JOURNAL) is not None:
            raise StoreError(
                f"{folder.path / JOURNAL} stands beside the record, and SQLite would act on it, so nothing was opened. "
                "An earlier Collie that was killed while it made the campaign left one: then nothing was measured, so "
                "begin anew. Otherwise it was not made by Collie: ask the maker of the campaign"
            )
        log, index = _of_owner(folder, LOG, record), _of_owner(folder, INDEX, record)
        if to_write:
            for name, found in ((LOG, log), (INDEX, index)):
                if found is not None and found.st_nlink > 1:
                    raise _foreign(folder, name, "it has a second name elsewhere")
        if log is not None and log.st_size >= _LOG_HEADER_BYTES and _head(folder) not in (*_LOG_MAGIC, _NEVER_WRITTEN):
            raise _foreign(folder, LOG, "it is no write-ahead log of SQLite")
    except OSError as error:
        raise StoreError(f"{error.filename or folder.path} cannot be read: {error.strerror}") from None
    return Files(_identity(record), _identity(log) if log else None, record.st_uid == os.geteuid())


def _of_owner(folder: Folder, name: str, record: os.stat_result) -> os.stat_result | None:
    found = folder.stat(name)
    if found is None:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise _foreign(folder, name, "it is no regular file")
    if found.st_uid != record.st_uid:
        raise _foreign(folder, name, f"it is of another user than {RECORD}")
    return found


def _head(folder: Folder) -> bytes:
    descriptor = folder.open(LOG)
    try:
        return os.read(descriptor, 4)
    finally:
        os.close(descriptor)


def _identity(found: os.stat_result) -> Identity:
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _foreign(folder: Folder, name: str, why: str) -> StoreError:
    return StoreError(
        f"{folder.path / name} was not made by Collie: {why}. SQLite would act on it, so nothing was opened. "
        f"Ask the maker of the campaign; the record without it may be older than it was"
    )
