"""Bounded connections to a record, which can come from another user.

SQLite refuses a row above `MAX_ROW_BYTES` before it loads it. While it reads the schema, the bounds are those of
Collie's few tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from collie.errors import StoreError
from collie.store import schema

MAX_ROW_BYTES = 4 << 20
"""All values of a row together. A run takes some kilobytes, one on eight hosts with 10,000 counters each 3 MiB."""

MAX_RUNS = 100_000
"""Runs of a campaign, numbered from 1. Ten a minute take a week to reach it."""

_MAX_SQL_BYTES = 16 << 10
"""A statement, also one that creates a table. Collie's statements have hundreds of bytes."""
_MAX_SCHEMA_STEPS = 2000
"""Steps of SQLite's virtual machine to read the schema. Four tables and indexes take a hundred, a cyclic tree has no
end."""

_BUSY_SECONDS = 10.0  # a reader can arrive while the log is emptied


def connect(path: Path, parameters: str, name: Path) -> sqlite3.Connection:
    """Open a database with URI `parameters` such as `mode=ro`. `name` is for messages.

    Raises:
        StoreError: it is damaged, or has other tables than a campaign.
    """
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
    """Refuse runs whose numbers are not those of a campaign.

    Raises:
        StoreError: a number is out of range.
    """
    if schema.version_of(connection, name) == 0:  # a new file
        return
    first, last = connection.execute("SELECT (SELECT min(run) FROM runs), (SELECT max(run) FROM runs)").fetchone()
    if first is not None and not 1 <= first <= last <= MAX_RUNS:
        raise StoreError(
            f"{name} holds runs {first} to {last}, and a campaign has at most {MAX_RUNS}, from 1 on. "
            "Nothing in it was changed"
        )


@contextmanager
def understood(path: Path, *passed: type[sqlite3.Error]) -> Iterator[None]:
    """Raise a `StoreError` for a damaged file, except for errors that the caller handles.

    Raises:
        StoreError: it is damaged.
    """
    try:
        yield
    except passed:
        raise
    except sqlite3.DataError:
        raise StoreError(
            f"{path} holds what no Collie wrote: a row of more than {MAX_ROW_BYTES >> 20} MiB, or a table whose "
            f"statement has more than {_MAX_SQL_BYTES >> 10} KiB. Nothing in it was changed"
        ) from None
    except schema.UNREADABLE as error:
        raise schema.damaged(path, error) from None
