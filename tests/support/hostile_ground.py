"""A good campaign to spoil, its surroundings, and snapshots of both."""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
import zlib
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from collie.errors import StoreError
from collie.ports import CAMPAIGN_FILE
from collie.store import schema

PAGE_BYTES = 4096
LARGE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Ground:
    """Where harm is meant.

    Attributes:
        campaign: a campaign at rest, to be spoiled.
        decoys: a tree that belongs to somebody else.
        rng: decides what a spoiler leaves open.
    """

    campaign: Path
    decoys: Path
    rng: Random

    @property
    def record(self) -> Path:
        """The record of the campaign."""
        return self.campaign / CAMPAIGN_FILE

    @property
    def prey(self) -> Path:
        """A file of the decoys."""
        return self.decoys / "thesis.tex"

    @property
    def can_be_rewritten(self) -> bool:
        """Whether the record is a file that memory holds: another spoiler may have made a hole in it."""
        return self.record.is_file() and self.record.stat().st_size <= LARGE_BYTES

    def beside(self, suffix: str) -> Path:
        """Return the place of a file beside the record, with nothing in it."""
        path = self.record.with_name(CAMPAIGN_FILE + suffix)
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        return path

    def changed(self, *statements: str, values: tuple[Any, ...] = (), stamp: bool = True) -> None:
        """Change the record by SQL, checksums and all, as far as what other spoilers left of it allows."""
        with suppress(sqlite3.Error, OSError, StoreError), closing(connected(self.record)) as connection, connection:
            for statement in statements:
                connection.execute(statement, values)
            if stamp and schema.version_of(connection, self.record) > 1:
                schema.stamp(connection)


def decoys(path: Path) -> Path:
    """Make the tree that nothing may touch."""
    (path / "keys").mkdir(parents=True)
    (path / "thesis.tex").write_text("years of work\n")
    (path / "keys" / "id").write_text("secret\n")
    (path / "profile").write_text("umask 077\n")
    return path


Snapshot = Mapping[str, tuple[int, int, int, bytes]]


def snapshot(path: Path, *, but: frozenset[str] = frozenset()) -> Snapshot:
    """Return names, modes, sizes, times and content of a tree; of what is no regular file no content.

    Args:
        path: of the tree.
        but: names that are left out, such as the index of a live campaign.
    """
    found = {}
    for folder, folders, files in os.walk(path):
        for name in [*folders, *files]:
            if name in but:
                continue
            each = Path(folder) / name
            reported = each.lstat()
            found[str(each.relative_to(path))] = (
                reported.st_mode,
                reported.st_size,
                reported.st_mtime_ns,
                _content(each, reported),
            )
    reported = path.lstat()
    return {**found, ".": (reported.st_mode, 0, reported.st_mtime_ns, b"")}


def _content(path: Path, reported: os.stat_result) -> bytes:
    if stat.S_ISLNK(reported.st_mode):
        return os.readlink(path).encode()
    if not stat.S_ISREG(reported.st_mode) or reported.st_size > LARGE_BYTES:
        return b""
    return struct.pack("<I", zlib.crc32(path.read_bytes()))


def downgraded(record: Path, version: int) -> None:
    """Make a record one of an older schema, as the Collie of then wrote it."""
    with closing(connected(record)) as connection:
        connection.row_factory = sqlite3.Row
        rows = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in schema.DIGESTED}
    record.unlink()
    with closing(connected(record)) as connection, connection:
        for migration in schema.MIGRATIONS[:version]:
            migration(connection)
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")
        for table in schema.DIGESTED:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "digest"]
            insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            connection.executemany(insert, [[row[column] for column in columns] for row in rows[table]])
        if version > 1:
            schema.stamp(connection)
    with closing(connected(record)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def connected(record: Path) -> sqlite3.Connection:
    for path in (record, *(record.with_name(record.name + suffix) for suffix in ("-journal", "-wal", "-shm"))):
        if path.exists() and not path.is_file():
            raise OSError(f"{path} is no regular file")  # SQLite would wait for ever for the other end of a FIFO
    connection = sqlite3.connect(record, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")
    except BaseException:
        connection.close()  # else it is closed, and its log removed, whenever a command is under way
        raise
    return connection
