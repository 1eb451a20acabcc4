"""Read-only access to a record. A reader writes only one file: the log's index of a running campaign.

`vetting` first checks the files of a record. Then the state of the record decides how it is opened:

* The user's own running campaign: `mode=ro`, with its log. SQLite writes readers' positions into the log's index.
* A record at rest, without a log and of the current schema: `immutable=1`, in place. SQLite opens no other file and
  takes no lock.
* Any other record, such as that of a killed process, of an older schema, or another user's running campaign: a private
  copy below `$TMPDIR`, with its log replayed and its schema migrated.

Readers block no process. If a writer starts or ends while Collie copies a record, the copy is repeated. If one starts
or ends while Collie reads a record in place, the record is reopened before its next answer is used.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from collie.errors import StoreError, StoreUnwritable
from collie.files import Folder
from collie.ports import CAMPAIGN_FILE
from collie.store import connections, schema
from collie.store.lock import is_held
from collie.store.vetting import LOG, Files, vetted

MAX_COPIED_BYTES = 1 << 30  # record and log together: some hundred thousand runs

_CHUNK_BYTES = 1 << 20
_ATTEMPTS, _PAUSE_SECONDS = 20, 0.05  # to copy a record while no process writes it


class Reader:
    """A read-only connection to a record, for the thread that created it. `connection` is valid until `renew`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held = ExitStack()
        self._in_place: Files | None = None
        self.connection = self._opened()

    @property
    def is_current(self) -> bool:
        """Whether earlier answers are still true, because no process has written since then."""
        return self._in_place is None or files_of(self._directory, to_write=False) == self._in_place

    def size(self) -> int:
        """Return the current bytes of the record and its log."""
        return files_of(self._directory, to_write=False).size

    def renew(self) -> None:
        """Open the record again."""
        self.close()
        self.connection = self._opened()

    def close(self) -> None:
        """Close the connection and remove the copy. A second call does nothing."""
        self._held.close()

    def _opened(self) -> sqlite3.Connection:
        try:
            with campaign_folder(self._directory) as folder:
                for _ in range(_ATTEMPTS):
                    if (connection := self._attempt(folder)) is not None:
                        return connection
                    self._held.close()
                    time.sleep(_PAUSE_SECONDS)
        except BaseException:
            self._held.close()
            raise
        raise StoreError(f"{self._directory} changes all the time; read it later, or as the user who runs the campaign")

    def _attempt(self, folder: Folder) -> sqlite3.Connection | None:
        """Open the record, or return None if it changed meanwhile."""
        is_live = _is_live(folder)
        files = vetted(folder, to_write=is_live)
        version = schema.require_readable(folder)
        self._in_place = None
        if is_live and files.is_mine and files.log is not None:  # without a log SQLite would create one
            return self._live(folder.path / CAMPAIGN_FILE)
        if not files.has_log and version == schema.SCHEMA_VERSION:
            self._in_place = files
            return self._connected(folder.path / CAMPAIGN_FILE, "mode=ro&immutable=1")
        copy = self._copied(folder, files)
        if vetted(folder, to_write=False) != files or (files.is_mine and _is_live(folder)):
            return None
        return self._migrated(self._connected(copy, "mode=rw"), folder.path / CAMPAIGN_FILE)

    def _live(self, path: Path) -> sqlite3.Connection:
        connection = self._connected(path, "mode=ro")
        if schema.version_of(connection, path) == schema.SCHEMA_VERSION:
            return connection
        # An older Collie runs this campaign.
        copy = self._connected(self._private() / CAMPAIGN_FILE, "mode=rwc")
        with connections.understood(path):
            connection.backup(copy, pages=1000)
        return self._migrated(copy, path)

    def _migrated(self, connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
        with connections.understood(path):
            connection.execute("PRAGMA synchronous = OFF")
            schema.migrate(connection, path)
        return connection

    def _connected(self, path: Path, parameters: str) -> sqlite3.Connection:
        return self._held.enter_context(closing(connections.connect(path, parameters, self._directory / CAMPAIGN_FILE)))

    def _private(self) -> Path:
        try:
            return Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="collie-")))
        except OSError as error:
            raise StoreUnwritable(f"{self._directory} cannot be copied for reading: {error.strerror}") from None

    def _copied(self, folder: Folder, files: Files) -> Path:
        if files.size > MAX_COPIED_BYTES:
            raise StoreError(
                f"{folder.path / CAMPAIGN_FILE} and its log have more than {MAX_COPIED_BYTES >> 20} MiB, too much to "
                "copy for reading; `--resume` migrates your own campaign in place"
            )
        place = self._private()
        try:
            _copy(folder, CAMPAIGN_FILE, place, files.record.size)
            if files.log is not None:
                _copy(folder, LOG, place, files.log.size)
        except OSError as error:
            raise StoreUnwritable(
                f"{folder.path / CAMPAIGN_FILE} cannot be copied into {place} for reading: {error.strerror}; "
                "set TMPDIR to a folder with enough space"
            ) from None
        return place / CAMPAIGN_FILE


def campaign_folder(directory: Path) -> Folder:
    """Open the folder of a campaign."""
    try:
        return Folder(directory)
    except OSError as error:
        raise StoreError(f"{directory} holds no campaign: {error.strerror}") from None


def files_of(directory: Path, *, to_write: bool) -> Files:
    """Check and return the files of a record (`vetted`)."""
    with campaign_folder(directory) as folder:
        return vetted(folder, to_write=to_write)


def _is_live(folder: Folder) -> bool:
    try:
        return is_held(folder)
    except OSError as error:
        raise StoreError(f"{error.filename} in {folder.path} cannot be read: {error.strerror}") from None


def _copy(folder: Folder, name: str, place: Path, size: int) -> None:
    target = os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(folder.open(name), "rb", buffering=0) as source, os.fdopen(target, "wb", buffering=0) as copy:
        nothing, left = bytes(_CHUNK_BYTES), size
        while left and (chunk := source.read(min(left, _CHUNK_BYTES))):
            if chunk == nothing:
                copy.seek(len(chunk), os.SEEK_CUR)
            else:
                copy.write(chunk)
            left -= len(chunk)
        copy.truncate(size - left)
