"""The tables of a campaign, and the migrations of older files. A refused file raises a `StoreError`.

1. `PRAGMA user_version` is the schema version. `PRAGMA application_id` marks the file as a campaign.
2. Both are in the first 100 bytes of the file (sqlite.org/fileformat2.html, section 1.3), never only in the write-ahead
   log. Thus Collie can refuse a file of a later version before it opens the file as a database.
3. A migration takes the file from version n to n + 1 in one transaction. Published migrations never change.
4. Only the writer of a campaign migrates it. A reader migrates a copy.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from collie.errors import StoreError
from collie.files import Folder
from collie.ports import CAMPAIGN_FILE

APPLICATION_ID = 0x434F4C49  # COLI

UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter for names that are not UTF-8

_MAX_TABLES = 100
_PAGE = 1000
_MAGIC = b"SQLite format 3\x00"


def _first_tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE campaign (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            header TEXT NOT NULL,
            calibration TEXT NOT NULL
        )
        """
    )
    connection.execute(
        """
        CREATE TABLE runs (
            run INTEGER PRIMARY KEY,
            purpose TEXT NOT NULL,
            outcome TEXT NOT NULL,
            finished_at_seconds REAL NOT NULL,
            workload TEXT NOT NULL,
            result TEXT NOT NULL,
            series BLOB,
            verdict TEXT,
            driven TEXT
        )
        """
    )
    connection.execute(
        "CREATE TABLE anomalies (position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, anomaly TEXT NOT NULL)"
    )


def digest(*values: object) -> int:
    """Return the checksum of a row. It reveals faults of a disk, but no deliberate changes."""
    check = zlib.crc32(b"(")  # of `repr(values)`, but one value at a time: samples take four times their size in `repr`
    for number, value in enumerate(values):
        check = zlib.crc32(f"{', ' if number else ''}{value!r}".encode(errors="surrogatepass"), check)
    return zlib.crc32(b",)" if len(values) == 1 else b")", check)


DIGESTED = {
    "campaign": ("header", "calibration"),
    "runs": (
        *("run", "purpose", "outcome", "finished_at_seconds", "workload", "result", "series", "set_up", "made_for"),
        *("verdict", "driven"),
    ),
    "anomalies": ("id", "anomaly"),
}
"""The columns that each row's checksum covers."""


def digested(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """Return the columns that a row's checksum covers, without those that later migrations add."""
    present = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    return tuple(column for column in DIGESTED[table] if column in present)


def stamp(connection: sqlite3.Connection) -> None:
    """Add the checksum to every row."""
    for table in DIGESTED:
        columns = digested(connection, table)
        select = f"SELECT {', '.join(columns)} FROM {table} WHERE rowid = ?"  # noqa: S608 - names are ours
        update = f"UPDATE {table} SET digest = ? WHERE rowid = ?"  # noqa: S608 - likewise
        for row in _keys(connection, table):
            connection.execute(update, (digest(*_row(connection, select, row)), *row))


def _keys(connection: sqlite3.Connection, table: str) -> Iterator[tuple[int]]:
    """Yield the key of every row, page by page. Raises `DatabaseError` if a damaged file contains a cycle."""
    select = f"SELECT rowid FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {_PAGE}"  # noqa: S608 - names are ours
    last = (-1 << 63,)
    while keys := connection.execute(select, last).fetchall():
        for key in keys:
            if key <= last:
                raise sqlite3.DatabaseError(f"the rows of {table} are out of order")
            last = key
            yield key


def _row(connection: sqlite3.Connection, select: str, key: tuple[int]) -> tuple[Any, ...]:
    """Return the row of a key. Raises `DatabaseError` if a damaged file lists the key and has no such row."""
    row: tuple[Any, ...] | None = connection.execute(select, key).fetchone()
    if row is None:
        raise sqlite3.DatabaseError(f"row {key[0]} is out of order")
    return row


def _checksums(connection: sqlite3.Connection) -> None:
    for table in DIGESTED:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN digest INTEGER")
    stamp(connection)


def _phases(connection: sqlite3.Connection) -> None:
    """Add the set-up of which a run is a phase. A wrong checksum stays wrong, so damage is still found."""
    columns = digested(connection, "runs")
    select = f"SELECT digest, {', '.join(columns)} FROM runs WHERE run = ?"  # noqa: S608 - names are ours
    connection.execute("ALTER TABLE runs ADD COLUMN set_up INTEGER")
    connection.execute("ALTER TABLE runs ADD COLUMN made_for TEXT")
    for key in _keys(connection, "runs"):
        before, *values = _row(connection, select, key)
        if digest(*values) == before:
            row = dict(zip(columns, values, strict=True))
            after = digest(*map(row.get, digested(connection, "runs")))
            connection.execute("UPDATE runs SET digest = ? WHERE run = ?", (after, *key))


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_first_tables, _checksums, _phases)
"""The entry at index n - 1 migrates a file from version n - 1 to version n."""

SCHEMA_VERSION = len(MIGRATIONS)


def require_readable(folder: Folder) -> int:
    """Return the schema version of a record without opening it as a database."""
    path = folder.path / CAMPAIGN_FILE
    try:
        with os.fdopen(folder.open(CAMPAIGN_FILE), "rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        raise StoreError(f"{path.parent} holds no campaign: there is no {path.name} in it") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    version, application = int.from_bytes(head[60:64]), int.from_bytes(head[68:72])
    if not head.startswith(_MAGIC) or application != APPLICATION_ID:
        raise StoreError(f"{path} is not a campaign of Collie")
    refuse_newer(version, path)
    return version


def refuse_newer(version: int, path: Path) -> None:
    """Refuse the schema of a later Collie."""
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema {version}; this Collie reads up to {SCHEMA_VERSION}. "
            "Open it with the Collie that wrote it, or a newer one. Nothing in it was changed"
        )


def damaged(path: Path, error: Exception) -> StoreError:
    """Return the error for an unreadable record, with its remedy."""
    if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
        return StoreError(f"{path} cannot be read: {error}")
    results = path.with_name("results.jsonl")
    left = f" {results.name} has the runs up to the last orderly end." if results.exists() else ""
    return StoreError(
        f"{path} cannot be read: {error}. It is damaged: replace it by a backup, or begin a new campaign. "
        f"`sqlite3 {path.name} .recover` recovers the readable part.{left} Nothing in it was changed"
    )


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Migrate an open file, which can be new and empty. The connection is in autocommit mode."""
    while 0 <= (version := version_of(connection, path)) < SCHEMA_VERSION:
        require_tables(connection, path)
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            MIGRATIONS[version](connection)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {version + 1}")
    # The first bytes of the file must be current (rule 2).
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def require_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse tables other than Collie's. Refuse views, triggers and indexes, because they could run for ever."""
    try:
        if _tables(connection) == _own_tables(MIGRATIONS[: max(0, version_of(connection, path))]):
            return
    except UNREADABLE as error:
        raise damaged(path, error) from None
    raise StoreError(f"{path} was not made by Collie: its tables are not those of a campaign")


def _tables(connection: sqlite3.Connection) -> set[tuple[object, ...]]:
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchmany(_MAX_TABLES + 1)
    if len(found) > _MAX_TABLES:
        return set(found)  # more than Collie creates, so some are foreign
    return {(kind, name, sql) for kind, name, sql in found if sql is not None}


@cache
def _own_tables(migrations: tuple[Callable[[sqlite3.Connection], None], ...]) -> frozenset[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for migration in migrations:
            migration(connection)
        return frozenset(_tables(connection))


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version of an open file, even if only its write-ahead log contains the version."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    refuse_newer(version, path)
    return version
