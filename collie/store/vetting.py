"""Checks of a record's files before SQLite opens them.

SQLite replays a rollback journal (`-journal`) into the database. It deletes the super-journal that the journal names,
at any path. It writes into the write-ahead log (`-wal`) and its index (`-shm`).

1. A record has no rollback journal.
2. Its files are regular files, not links.
3. Log and index belong to the owner of the record. If SQLite will write them, they have no second hard link, because
   that could be another user's file.
4. The log begins like SQLite's logs or with zeros. A crash can leave a log of zeros, which SQLite skips.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from collie.errors import StoreError
from collie.files import Folder, require_regular
from collie.ports import CAMPAIGN_FILE

BESIDE = ("-wal", "-shm", "-journal")  # suffixes of files that SQLite reads beside a database

LOG, INDEX, JOURNAL = (f"{CAMPAIGN_FILE}{suffix}" for suffix in BESIDE)

_LOG_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")  # either byte order: fileformat2.html, 4.1

_LOG_HEADER_BYTES = 32
_NEVER_WRITTEN = bytes(4)


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity and state of a file. Two values differ if the file was replaced or changed."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a record at one moment, and whether this process's user owns them."""

    record: Identity
    log: Identity | None
    is_mine: bool

    @property
    def has_log(self) -> bool:
        """Whether the log holds a part of the record."""
        return self.log is not None and self.log.size > 0

    @property
    def size(self) -> int:
        """Bytes of the record and its log, an upper bound for all rows together."""
        return self.record.size + (self.log.size if self.log else 0)


def vetted(folder: Folder, *, to_write: bool) -> Files:
    """Check and return the files of a record, before SQLite reads or (`to_write`) writes them. Raises `StoreError`."""
    try:
        record = folder.stat(CAMPAIGN_FILE)
        if record is None:
            raise StoreError(f"{folder.path} holds no campaign: there is no {CAMPAIGN_FILE} in it")
        require_regular(record.st_mode, folder.path / CAMPAIGN_FILE)
        if folder.stat(JOURNAL) is not None:
            raise StoreError(
                f"{folder.path / JOURNAL} lies beside the record. SQLite would act on it, so nothing was opened. An "
                "earlier Collie leaves such a file when it is killed before the first run: then begin a new campaign. "
                "Otherwise it was not made by Collie: ask the author of the campaign"
            )
        log, index = _of_owner(folder, LOG, record), _of_owner(folder, INDEX, record)
        if to_write:
            for name, found in ((LOG, log), (INDEX, index)):
                if found is not None and found.st_nlink > 1:
                    raise _foreign(folder, name, "it has a second link")
        if log is not None and log.st_size >= _LOG_HEADER_BYTES and _head(folder) not in (*_LOG_MAGIC, _NEVER_WRITTEN):
            raise _foreign(folder, LOG, "it is not a write-ahead log of SQLite")
    except OSError as error:
        raise StoreError(f"{error.filename or folder.path} cannot be read: {error.strerror}") from None
    return Files(_identity(record), _identity(log) if log else None, record.st_uid == os.geteuid())


def _of_owner(folder: Folder, name: str, record: os.stat_result) -> os.stat_result | None:
    found = folder.stat(name)
    if found is None:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise _foreign(folder, name, "it is not a regular file")
    if found.st_uid != record.st_uid:
        raise _foreign(folder, name, f"it belongs to another user than {CAMPAIGN_FILE}")
    return found


def _head(folder: Folder) -> bytes:
    with os.fdopen(folder.open(LOG), "rb") as log:
        return log.read(4)


def _identity(found: os.stat_result) -> Identity:
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _foreign(folder: Folder, name: str, why: str) -> StoreError:
    return StoreError(
        f"{folder.path / name} was not made by Collie: {why}. SQLite would act on it, so nothing was opened. "
        "Ask the author of the campaign. Without this file, the record may lack its last runs"
    )
