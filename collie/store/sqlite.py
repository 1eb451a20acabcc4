"""Campaigns in SQLite.

1. `campaign.sqlite` is the record; every other file of the directory can be written from it again.
2. A call that adds something returns when it is on disk (write-ahead log, `synchronous=FULL`): it survives the death of
   the process and of the machine.
3. A campaign comes into being by one rename of a complete file. Nothing is ever overwritten.
4. One process writes (`lock.py`). Any number may read meanwhile (`read_only=True`), as `collie report` and `status` do.
5. A file that this version does not understand is refused before it is opened (`schema.py`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from collie.detect.bounds import Calibration
from collie.detect.symptom import Verdict
from collie.errors import StoreError, StoreUnwritable
from collie.ports import CampaignHeader, RunRecord
from collie.search.anomaly import Anomaly
from collie.store import codec, schema
from collie.store.anomaly_files import write_anomaly
from collie.store.directory import CampaignDirectory, private, publish, writing
from collie.store.jsonl import write_results
from collie.store.lock import CampaignLock
from collie.store.records import (
    FAILED,
    INSERT,
    SELECT_BETWEEN,
    SELECT_MEASURED,
    Tally,
    from_row,
    require_digest,
    to_row,
)

_PAGE = 200  # runs read at once: `runs()` may be abandoned half-way, and must not keep the log from being emptied
_MOST_VALUE_BYTES = 64 << 20  # of one value: a run takes some kilobytes
_BUSY_SECONDS = 10.0  # a reader may meet the moment at which the log is emptied

_CAMPAIGN = "SELECT header, calibration, digest FROM campaign"

T = TypeVar("T")


class SqliteStore:
    """A `ports.CampaignStore` in a directory. Made by `create` and `open`; used by the thread that made it."""

    def __init__(self, directory: CampaignDirectory, connection: sqlite3.Connection, lock: CampaignLock | None) -> None:
        self.directory = directory
        self._connection = connection
        self._lock = lock
        self._closed = False
        self._header = self._decoded("its header", codec.decode_header, self._one(_CAMPAIGN), 0)

    @classmethod
    def create(cls, path: Path, header: CampaignHeader, calibration: Calibration | None = None) -> Self:
        """Begin a campaign in a directory that is new or empty.

        Args:
            path: the campaign directory.
            header: what fixes the campaign.
            calibration: that it is judged by, where that is known before its first run.

        Raises:
            StoreError: the directory holds a campaign or other files, cannot be written, or is in use.
        """
        directory = CampaignDirectory(path)
        directory.prepare()
        lock = CampaignLock(path)
        try:
            directory.prepare()  # again: another process may have been quicker to the lock, and be gone already
            _make(directory, header, calibration or Calibration())
            return cls._attach(directory, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """Open a campaign to go on with it, or only to look.

        Args:
            path: the campaign directory.
            read_only: take no lock and change nothing; what another process adds meanwhile is seen.

        Raises:
            StoreError: it is no campaign, of a newer schema, damaged, or in use by another process.
        """
        directory = CampaignDirectory(path)
        version = schema.require_readable(directory.database)
        if read_only:
            if version < schema.SCHEMA_VERSION:
                cls.open(path).close()
            return cls._attach(directory, None)
        lock = CampaignLock(path)
        try:
            return cls._attach(directory, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _attach(cls, directory: CampaignDirectory, lock: CampaignLock | None) -> Self:
        connection = _connect(directory, "rw" if lock else "ro")
        try:
            schema.require_tables(connection, directory.database)  # before anything is written: triggers would see it
            if lock:
                _migrate(connection, directory.database)
            return cls(directory, connection, lock)
        except BaseException:
            connection.close()
            raise

    @property
    def header(self) -> CampaignHeader:
        """What fixes the campaign."""
        return self._header

    def replace_settings(self, settings: Mapping[str, Any]) -> None:
        """Change the settings that the campaign goes on with, such as a longer budget."""
        self._header = replace(self._header, settings=dict(settings))
        text = codec.dumps(codec.encode_header(self._header))
        digest = schema.digest(text, self._one(_CAMPAIGN)[1])
        self._write("UPDATE campaign SET header = ?, digest = ?", text, digest)

    def add_run(self, record: RunRecord) -> None:
        """Record a run; on disk when this returns."""
        try:
            row = to_row(record)
            self._write(INSERT, *row, schema.digest(*row))
        except sqlite3.IntegrityError:
            raise StoreError(f"run {record.run} is recorded already") from None

    def annotate(self, run: int, verdict: Verdict | None, driven: str | None) -> None:
        """Note what a run was judged to mean."""
        text = codec.dumps(codec.encode_verdict(verdict)) if verdict is not None else None
        rows = self._all(SELECT_MEASURED, run)
        if not rows:
            raise StoreError(f"there is no run {run} to annotate")
        digest = schema.digest(*rows[0], text, driven)
        self._write("UPDATE runs SET verdict = ?, driven = ?, digest = ? WHERE run = ?", text, driven, digest, run)

    def runs(self) -> Iterator[RunRecord]:
        """Yield the runs recorded by now."""
        last = self._one("SELECT max(run) FROM runs")[0] or 0
        first = 1
        while rows := self._all(SELECT_BETWEEN, first, last, _PAGE):
            yield from map(self._record, rows)
            first = rows[-1][0] + 1

    def tally(self) -> Tally:
        """Count the runs recorded by now, without reading what they measured."""
        rows = self._all(
            "SELECT CAST(outcome AS TEXT), count(*), max(CAST(finished_at_seconds AS REAL)), max(run) FROM runs "
            "GROUP BY 1"
        )
        marks = ", ".join("?" * len(FAILED))
        failed = self._all(f"SELECT max(run) FROM runs WHERE outcome IN ({marks})", *FAILED)[0][0]  # noqa: S608
        return Tally(
            {outcome: count for outcome, count, *_ in rows},
            max((finished for *_, finished, _ in rows), default=0.0),
            max((last for *_, last in rows), default=0),
            self._record(self._all(SELECT_BETWEEN, failed, failed, 1)[0]) if failed else None,
        )

    def add_anomaly(self, anomaly: Anomaly) -> None:
        """Record an anomaly, or replace the one with the same id; write its files."""
        row = anomaly.id, codec.dumps(codec.encode_anomaly(anomaly))
        self._write(
            "INSERT INTO anomalies (id, anomaly, digest) VALUES (?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET anomaly = excluded.anomaly, digest = excluded.digest",
            *row,
            schema.digest(*row),
        )
        self._write_files_of(anomaly)

    def anomalies(self) -> tuple[Anomaly, ...]:
        """Return all anomalies in the order found."""
        rows = self._all("SELECT id, anomaly, digest FROM anomalies ORDER BY position")
        return tuple(self._decoded("an anomaly of it", codec.decode_anomaly, row, 1) for row in rows)

    def set_calibration(self, calibration: Calibration) -> None:
        """Record the calibration."""
        text = codec.dumps(codec.encode_calibration(calibration))
        digest = schema.digest(self._one(_CAMPAIGN)[0], text)
        self._write("UPDATE campaign SET calibration = ?, digest = ?", text, digest)

    def calibration(self) -> Calibration:
        """Return the calibration."""
        return self._decoded("its calibration", codec.decode_calibration, self._one(_CAMPAIGN), 1)

    def export(self) -> None:
        """Write everything that is written from the record: `results.jsonl` and the files of every anomaly.

        Raises:
            StoreUnwritable: the file system refuses.
        """
        with writing(self.directory.results):
            write_results(self.directory.results, self.runs())
        for anomaly in self.anomalies():
            self._write_files_of(anomaly)

    def close(self) -> None:
        """Export, and release the campaign, also when the export fails. A second call does nothing.

        Raises:
            StoreError: what is exported cannot be written, or the record cannot be read; all that is on record stays.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._lock is not None:
                self.export()
        finally:
            self._connection.close()
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StoreError:
            if error is None:  # what failed first is to be heard of, and all that is exported can be written again
                raise

    def _write_files_of(self, anomaly: Anomaly) -> None:
        rows = self._all(SELECT_BETWEEN, anomaly.found_at_run, anomaly.found_at_run, 1)
        with writing(self.directory.anomaly(anomaly.id)):
            write_anomaly(self.directory, self._header, anomaly, self._record(rows[0]) if rows else None)

    def _write(self, statement: str, *values: Any) -> int:
        if self._lock is None:
            raise StoreError(f"campaign {self.directory.path} was opened for reading only")
        try:
            return self._connection.execute(statement, values).rowcount
        except sqlite3.IntegrityError:  # the record is well: it has such a row
            raise
        except sqlite3.OperationalError as error:  # disk full, device gone
            raise StoreUnwritable(f"{self.directory.database} cannot be written: {error}") from None
        except schema.UNREADABLE as error:
            raise schema.damaged(self.directory.database, error) from None

    def _one(self, query: str) -> Any:
        if rows := self._all(query):
            return rows[0]
        raise StoreError(f"{self.directory.database} is damaged: it holds no campaign")

    def _record(self, row: Sequence[Any]) -> RunRecord:
        return self._understood(f"run {row[0]}", partial(from_row, row))

    def _decoded(self, what: str, decode: Callable[[Any], T], row: Sequence[Any], column: int) -> T:
        """Return what stands in a column of a row whose last one is its checksum."""

        def read() -> T:
            require_digest(row[:-1], row[-1])
            return decode(codec.loads(row[column]))

        return self._understood(what, read)

    def _understood(self, what: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except ValueError as error:
            raise StoreError(
                f"{self.directory.database} holds what no Collie wrote: {what}: {error!s:.300}. It is damaged, or made "
                "by somebody else: put a copy in its place, or begin a new campaign; nothing in it was changed"
            ) from None

    def _all(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except schema.UNREADABLE as error:
            raise schema.damaged(self.directory.database, error) from None


def _make(directory: CampaignDirectory, header: CampaignHeader, calibration: Calibration) -> None:
    """Put a complete record without runs in its place.

    Raises:
        StoreError: it cannot be written.
    """
    row = codec.dumps(codec.encode_header(header)), codec.dumps(codec.encode_calibration(calibration))
    try:
        private(directory.unfinished).close()  # SQLite gives the files beside it the mode of the record
        with closing(sqlite3.connect(directory.unfinished, isolation_level=None)) as connection:
            schema.migrate(connection, directory.database)
            connection.execute("INSERT INTO campaign VALUES (1, ?, ?, ?)", (*row, schema.digest(*row)))
        directory.log.mkdir(exist_ok=True)
        publish(directory.unfinished, directory.database)
    except (OSError, sqlite3.OperationalError) as error:
        raise StoreUnwritable(f"no campaign can be made in {directory.path}: {error}") from None


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    try:
        schema.migrate(connection, path)
    except sqlite3.OperationalError as error:
        raise StoreUnwritable(f"{path} cannot be brought up to date: {error}") from None
    except schema.UNREADABLE as error:
        raise schema.damaged(path, error) from None


def _connect(directory: CampaignDirectory, mode: str) -> sqlite3.Connection:
    """Open the record, `rw` or `ro`.

    Raises:
        StoreError: it is damaged.
    """
    uri = f"file:{quote(str(directory.database.absolute()))}?mode={mode}"
    if mode == "ro" and not os.access(directory.path, os.W_OK) and not directory.write_ahead_log.exists():
        uri += "&immutable=1"  # an archive: SQLite could not make the log and its index, which it otherwise wants
    with ExitStack() as on_failure:
        try:
            connection = on_failure.enter_context(
                closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS))
            )
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTES)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            if mode == "rw":
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
        except schema.UNREADABLE as error:
            raise schema.damaged(directory.database, error) from None
        on_failure.pop_all()
        return connection
