"""The record of the process that writes a campaign."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

from collie.errors import StoreUnwritable
from collie.store import schema
from collie.store.connections import connect, understood
from collie.store.reading import files_of
from collie.store.vetting import RECORD


class Writer:
    """The connection of the lock's holder, for the thread that created it."""

    is_current = True
    """No other process writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        files_of(directory, to_write=True)
        with ExitStack() as on_failure:
            path = directory / RECORD
            self.connection = on_failure.enter_context(closing(connect(path, "mode=rw", path)))
            try:
                with understood(path, sqlite3.OperationalError):
                    self.connection.execute("PRAGMA journal_mode = WAL")
                    self.connection.execute("PRAGMA synchronous = FULL")
                    schema.migrate(self.connection, path)
            except sqlite3.OperationalError as error:
                raise StoreUnwritable(f"{path} cannot be migrated: {error}") from None
            on_failure.pop_all()

    def size(self) -> int:
        """Return the current bytes of the record and its log."""
        return files_of(self._directory, to_write=True).size

    def renew(self) -> None:
        """Do nothing: a writer reads its own writes."""

    def close(self) -> None:
        """Empty the log, even while others read, and close the connection."""
        try:
            with understood(self._directory / RECORD):
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self.connection.close()
