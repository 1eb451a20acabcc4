"""Limits on connections to a record and on reading its rows, because the record can come from another user.

SQLite refuses a row above `MAX_ROW_BYTES` before loading it. The limits on the schema suffice for Collie's few tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from collie.errors import StoreError
from collie.store import schema

MAX_ROW_BYTES = 4 << 20  # a run on eight hosts with 10,000 counters each has 3 MiB, most have some kilobytes

MAX_RUNS = 100_000  # numbered from 1. At ten runs a minute, these take a week

_MAX_SQL_BYTES = 16 << 10  # limit on a statement. Collie's have hundreds of bytes
_MAX_SCHEMA_STEPS = 2000  # limit on SQLite's virtual machine: Collie's schema takes a hundred, a cyclic tree has no end

_BUSY_SECONDS = 10.0  # a reader can arrive while the log is emptied


def connect(path: Path, parameters: str, name: Path) -> sqlite3.Connection:
    """Open a database with URI `parameters` such as `mode=ro`. Messages call it `name`. Raises `StoreError`."""
    uri = f"file:{quote(str(path.absolute()))}?{parameters}"
    with ExitStack() as on_failure, understood(name):
        connection = on_failure.enter_context(
            closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS))
        )
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MAX_SQL_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_SQL_BYTES)
        connection.set_progress_handler(lambda: True, _MAX_SCHEMA_STEPS)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        schema.require_tables(connection, name)  # before any other statement: views and triggers would see it
        _require_numbered(connection, name)
        connection.set_progress_handler(None, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES)
        on_failure.pop_all()
        return connection


def _require_numbered(connection: sqlite3.Connection, name: Path) -> None:
    if schema.version_of(connection, name) == 0:  # a new file
        return
    first, last = connection.execute("SELECT (SELECT min(run) FROM runs), (SELECT max(run) FROM runs)").fetchone()
    if first is not None and not 1 <= first <= last <= MAX_RUNS:
        raise StoreError(
            f"{name} has runs {first} to {last}. A campaign has runs 1 to {MAX_RUNS} at most. Nothing in it was changed"
        )


@contextmanager
def understood(path: Path, *passed: type[sqlite3.Error]) -> Iterator[None]:
    """Turn SQLite's errors into a `StoreError` about a bad file, except errors of the types `passed`."""
    try:
        yield
    except passed:
        raise
    except sqlite3.DataError:
        raise StoreError(
            f"{path} was not written by Collie: it has a row of more than {MAX_ROW_BYTES >> 20} MiB, or a table whose "
            f"statement has more than {_MAX_SQL_BYTES >> 10} KiB. Nothing in it was changed"
        ) from None
    except schema.UNREADABLE as error:
        raise schema.damaged(path, error) from None


def bytes_of(row: Sequence[Any]) -> int:
    """Return an upper bound of a row's bytes in its file."""
    return sum(len(value) for value in row if isinstance(value, str | bytes))


@dataclass(frozen=True, slots=True)
class Page:
    """Limits of one read. Reading stops when either is reached."""

    rows: int
    bytes: int

    def of(self, found: sqlite3.Cursor) -> list[Any]:
        """Return the first rows of a result, up to the limits."""
        rows: list[Any] = []
        size = 0
        with closing(found):
            for row in found:
                rows.append(row)
                size += bytes_of(row)
                if len(rows) >= self.rows or size >= self.bytes:
                    break
        return rows


class RowSequence:
    """Successive rows of a table whose first column is their number.

    The pages of a hostile file can form a cycle or share content, and thus yield endless rows. Reading stops at a row
    out of order, or when all rows together have more bytes than the file has at that time.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._known = self._bytes = 0
        self._last: int | None = None

    def take(self, row: Sequence[Any]) -> None:
        """Check the next row. Raises `ValueError`."""
        if self._last is not None and row[0] <= self._last:
            raise ValueError("its rows are out of order")
        self._last = row[0]
        self._bytes += bytes_of(row)
        if self._bytes > self._known:
            self._known = self._size()
        if self._bytes > self._known:
            raise ValueError("its rows have more bytes than the file")
