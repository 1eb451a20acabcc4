"""Campaigns in SQLite.

1. `campaign.sqlite` is the record. All other files of the directory can be written from it again.
2. A call that adds data returns when it is on disk (write-ahead log, `synchronous=FULL`). The data survives a crash of
   the process and of the machine.
3. A campaign is created by one rename of a complete file in WAL mode. Nothing is overwritten, and no rollback journal
   ever exists beside a record.
4. One process writes (`lock.py`). Any number can read (`reading.py`). Readers change nothing.
5. A file that this version does not understand is refused before it is opened (`schema.py`). So is one beside a file
   that SQLite would act on (`vetting.py`).
6. The record is untrusted: rows are read in order, in bounded bytes, and never more bytes than the file has.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from collie.campaign.progress import Tally
from collie.detect.bounds import Calibration
from collie.detect.measurement import Sample
from collie.detect.symptom import Verdict
from collie.errors import StoreError, StoreUnwritable
from collie.ports import CampaignHeader, Measured, RunRecord
from collie.search.anomaly import Anomaly
from collie.store import codec, schema
from collie.store.anomaly_files import write_anomaly
from collie.store.connections import MAX_ROW_BYTES, MAX_RUNS, understood
from collie.store.directory import CampaignDirectory, private, publish, writing
from collie.store.jsonl import write_results
from collie.store.lock import CampaignLock
from collie.store.reading import Reader, campaign_folder
from collie.store.records import (
    INSERT,
    SELECT_BETWEEN,
    SELECT_MEASURED,
    from_row,
    require_digest,
    tallied,
    to_row,
)
from collie.store.rows import Page, RowSequence, bytes_of
from collie.store.vetting import BESIDE
from collie.store.writing import Writer

_PAGE = Page(200, 8 << 20)  # an abandoned `runs()` must not keep the log from being emptied
_MAX_ANOMALIES = 500  # a search of 600 runs finds some twenty, of some kilobytes each
_ANOMALIES = Page(_MAX_ANOMALIES + 1, 8 << 20)

_NAMED = "SELECT 1 FROM anomalies WHERE id = ?"
_CAMPAIGN = "SELECT header, calibration, digest FROM campaign"

T = TypeVar("T")


class SqliteStore:
    """A `ports.CampaignStore` in a directory, from `create` or `open`, for the thread that created it."""

    def __init__(self, directory: CampaignDirectory, source: Reader | Writer, lock: CampaignLock | None) -> None:
        self.directory = directory
        self._source, self._lock = source, lock
        self._closed = False
        self._header = self._decoded("its header", codec.decode_header, self._one(_CAMPAIGN), 0)

    @classmethod
    def create(cls, path: Path, header: CampaignHeader, calibration: Calibration | None = None) -> Self:
        """Begin a campaign in a directory that is new or empty. `calibration` is known before the first run, or None.

        Raises:
            StoreError: the directory holds a campaign or other files, cannot be written, or is in use.
        """
        directory = CampaignDirectory(path)
        directory.prepare()
        lock = CampaignLock(path)
        try:
            directory.prepare()  # again: another process may have taken and released the lock meanwhile
            _make(directory, header, calibration or Calibration())
            return cls._attached(directory, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """Open a campaign to resume it, or with `read_only` to read it without a lock and without changes.

        Additions of another process are visible to a reader.

        Raises:
            StoreError: it is no campaign, has a newer schema, is damaged, or is in use by another process.
        """
        directory = CampaignDirectory(path)
        if read_only:
            return cls._attached(directory, None)
        with campaign_folder(path) as folder:
            schema.require_readable(folder)  # before a lock is created beside a record of another version
        lock = CampaignLock(path)
        try:
            return cls._attached(directory, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _attached(cls, directory: CampaignDirectory, lock: CampaignLock | None) -> Self:
        with ExitStack() as on_failure:
            source = on_failure.enter_context(closing(Writer(directory.path) if lock else Reader(directory.path)))
            store = cls(directory, source, lock)
            on_failure.pop_all()
            return store

    @property
    def header(self) -> CampaignHeader:
        """The campaign's header."""
        return self._header

    def replace_settings(self, settings: Mapping[str, Any]) -> None:
        """Change settings of a resumed campaign, such as a longer budget."""
        self._header = replace(self._header, settings=dict(settings))
        text = codec.dumps(codec.encode_header(self._header))
        digest = schema.digest(text, self._one(_CAMPAIGN)[1])
        self._write("UPDATE campaign SET header = ?, digest = ?", text, digest)

    def add_run(self, record: RunRecord) -> None:
        """Record a run on disk."""
        if record.run > MAX_RUNS:
            raise StoreError(
                f"campaign {self.directory.path} holds {MAX_RUNS} runs, and no more fit; begin another one "
                f"with --known {self.directory.path}"
            )
        try:
            row = to_row(record)
            self._write(INSERT, *row, schema.digest(*row))
        except sqlite3.IntegrityError:
            raise StoreError(f"run {record.run} is recorded already") from None

    def annotate(self, run: int, verdict: Verdict | None, driven: str | None) -> None:
        """Add the verdict on a run."""
        text = codec.dumps(codec.encode_verdict(verdict)) if verdict is not None else None
        rows = self._page(SELECT_MEASURED, run)
        if not rows:
            raise StoreError(f"there is no run {run} to annotate")
        digest = schema.digest(*rows[0], text, driven)
        self._write("UPDATE runs SET verdict = ?, driven = ?, digest = ? WHERE run = ?", text, driven, digest, run)

    def runs(self, *, with_series: bool = True) -> Iterator[RunRecord]:
        """Yield the recorded runs, with or without samples."""
        last = self._one("SELECT max(run) FROM runs")[0] or 0
        first, sequence = 1, RowSequence(self._source.size)
        while rows := self._page(SELECT_BETWEEN, first, last):
            for row in rows:
                yield self._record(row, sequence, with_series=with_series)
            first = rows[-1][0] + 1

    def series(self, run: int) -> Sequence[Sample]:
        """Return the samples of a run, empty if there are none."""
        rows = self._page(SELECT_BETWEEN, run, run)
        result = self._record(rows[0]).result if rows else None
        return result.measurement.series if isinstance(result, Measured) else ()

    def tally(self) -> Tally:
        """Count the recorded runs without reading their measurements."""
        tally, failed = self._answer(lambda connection: self._understood("its runs", partial(tallied, connection)))
        last_failure = self._record(self._page(SELECT_BETWEEN, failed, failed)[0]) if failed else None
        return replace(tally, last_failure=last_failure)

    def add_anomaly(self, anomaly: Anomaly) -> None:
        """Record an anomaly in place of one with the same id, and write its files."""
        row = anomaly.id, codec.dumps(codec.encode_anomaly(anomaly))
        if self._one("SELECT count(*) FROM anomalies")[0] >= _MAX_ANOMALIES and not self._page(_NAMED, anomaly.id):
            raise StoreError(
                f"campaign {self.directory.path} holds {_MAX_ANOMALIES} anomalies, and no more fit; begin another one "
                f"with --known {self.directory.path}"
            )
        self._write(
            "INSERT INTO anomalies (id, anomaly, digest) VALUES (?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET anomaly = excluded.anomaly, digest = excluded.digest",
            *row,
            schema.digest(*row),
        )
        self._write_files_of(anomaly)

    def anomalies(self) -> tuple[Anomaly, ...]:
        """Return all anomalies in the order found."""
        rows = self._page("SELECT position, id, anomaly, digest FROM anomalies ORDER BY position", most=_ANOMALIES)
        sequence = RowSequence(self._source.size)
        if len(rows) > _MAX_ANOMALIES or sum(map(bytes_of, rows)) >= _ANOMALIES.bytes:
            raise StoreError(f"{self.directory.database} holds more than {_MAX_ANOMALIES} anomalies, or 8 MiB of them")
        for row in rows:
            self._understood("its anomalies", partial(sequence.take, row))
        return tuple(self._decoded("an anomaly of it", codec.decode_anomaly, row[1:], 1) for row in rows)

    def set_calibration(self, calibration: Calibration) -> None:
        """Record the calibration."""
        text = codec.dumps(codec.encode_calibration(calibration))
        digest = schema.digest(self._one(_CAMPAIGN)[0], text)
        self._write("UPDATE campaign SET calibration = ?, digest = ?", text, digest)

    def calibration(self) -> Calibration:
        """Return the calibration."""
        return self._decoded("its calibration", codec.decode_calibration, self._one(_CAMPAIGN), 1)

    def export(self) -> None:
        """Write `results.jsonl` and the files of every anomaly from the record.

        Raises:
            StoreUnwritable: the file system refuses.
        """
        with writing(self.directory.results):
            write_results(self.directory.results, self.runs(with_series=False))
        for anomaly in self.anomalies():
            self._write_files_of(anomaly)

    def close(self) -> None:
        """Export, and release the campaign even if the export fails. A second call does nothing.

        Raises:
            StoreError: the export cannot be written, or the record cannot be read. The record stays.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._lock is not None:
                self.export()
        finally:
            self._source.close()
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
            if error is None:  # the first failure is reported, and the export can be repeated
                raise

    def _write_files_of(self, anomaly: Anomaly) -> None:
        rows = self._page(SELECT_BETWEEN, anomaly.found_at_run, anomaly.found_at_run)
        with writing(self.directory.anomaly(anomaly.id)):
            write_anomaly(self.directory, self._header, anomaly, self._record(rows[0]) if rows else None)

    def _write(self, statement: str, *values: Any) -> int:
        if self._lock is None:
            raise StoreError(f"campaign {self.directory.path} was opened for reading only")
        try:
            return self._source.connection.execute(statement, values).rowcount
        except sqlite3.IntegrityError:  # not damage: the record already has such a row
            raise
        except sqlite3.DataError:
            raise StoreError(f"what is to be recorded has more than {MAX_ROW_BYTES >> 20} MiB") from None
        except sqlite3.OperationalError as error:  # disk full, device gone
            raise StoreUnwritable(f"{self.directory.database} cannot be written: {error}") from None
        except schema.UNREADABLE as error:
            raise schema.damaged(self.directory.database, error) from None

    def _one(self, query: str) -> Any:
        if rows := self._page(query):
            return rows[0]
        raise StoreError(f"{self.directory.database} is damaged: it holds no campaign")

    def _record(
        self, row: Sequence[Any], sequence: RowSequence | None = None, *, with_series: bool = True
    ) -> RunRecord:
        def read() -> RunRecord:
            if sequence:
                sequence.take(row)
            return from_row(row, with_series=with_series)

        return self._understood(f"run {row[0]!s:.20}", read)

    def _decoded(self, what: str, decode: Callable[[Any], T], row: Sequence[Any], column: int) -> T:
        """Decode one column of a row whose last column is its checksum."""

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

    def _page(self, query: str, *values: Any, most: Page = _PAGE) -> list[Any]:
        """Return rows up to the limits of a page, at least one if any exists."""
        return self._answer(lambda connection: most.of(connection.execute(query, values)))

    def _answer(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Return an answer of the record. Ask again if it changed below a reader."""
        while True:
            try:
                with understood(self.directory.database):
                    answer = ask(self._source.connection)
            except StoreError:
                if self._source.is_current:
                    raise
            else:
                if self._source.is_current:
                    return answer
            self._source.renew()


def _make(directory: CampaignDirectory, header: CampaignHeader, calibration: Calibration) -> None:
    """Create a complete record without runs.

    Raises:
        StoreError: it cannot be written.
    """
    row = codec.dumps(codec.encode_header(header)), codec.dumps(codec.encode_calibration(calibration))
    try:
        for beside in BESIDE:  # of a killed creation, or planted
            directory.unfinished.with_name(f"{directory.unfinished.name}{beside}").unlink(missing_ok=True)
        private(directory.unfinished).close()  # SQLite gives the files beside it the same mode
        with closing(sqlite3.connect(directory.unfinished, isolation_level=None)) as connection:
            schema.migrate(connection, directory.database)
            connection.execute("INSERT INTO campaign VALUES (1, ?, ?, ?)", (*row, schema.digest(*row)))
            connection.execute(
                "PRAGMA journal_mode = WAL"
            )  # before it has its name, because this step takes a rollback journal
        directory.log.mkdir(exist_ok=True)
        publish(directory.unfinished, directory.database)
    except (OSError, sqlite3.OperationalError) as error:
        raise StoreUnwritable(f"no campaign can be made in {directory.path}: {error}") from None
