"""Campaigns in SQLite.

1. `campaign.sqlite` is the record. All other files of the directory can be written from it again.
2. A call that adds data returns when no crash of the process can lose it. It waits for the disk unless the last call
   that did so began less than `_SYNC_SECONDS` ago: a crash of the machine loses only what soon follows data on disk.
3. A campaign is created by one rename of a complete file in WAL mode. No rollback journal ever exists beside it.
4. One process writes (`lock`). Any number of processes can read (`reading`). They change nothing.
5. Collie never opens a record of a later version (`schema`), or one beside a file that SQLite would change (`vetting`).
6. The record is untrusted. Rows are read in order and in pages of limited size. Their sum cannot exceed the file.

A refusal raises `StoreError`. A full or lost disk raises `StoreUnwritable`.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from collie.campaign.progress import Tally
from collie.detect.bounds import Calibration
from collie.detect.measurement import Sample
from collie.detect.symptom import Verdict
from collie.errors import StoreError, StoreUnwritable
from collie.ports import CAMPAIGN_FILE, CampaignHeader, Measured, RunRecord
from collie.search.anomaly import Anomaly
from collie.store import codec, schema
from collie.store.connections import MAX_ROW_BYTES, MAX_RUNS, Page, RowSequence, bytes_of, connect, understood
from collie.store.directory import ANOMALIES, CampaignDirectory, publish, writing
from collie.store.exports import write_anomaly, write_results
from collie.store.lock import CampaignLock
from collie.store.reading import Reader, campaign_folder, files_of
from collie.store.records import INSERT, SELECT_BETWEEN, SELECT_MEASURED, from_row, require_digest, tallied, to_row
from collie.store.vetting import BESIDE

_SYNC_SECONDS = 0.1  # a run on hosts takes seconds, but a simulated one no longer than the wait for the disk
_PAGE = Page(200, 8 << 20)  # a read per page, so that an abandoned `runs()` does not keep the log from being emptied
_MAX_ANOMALIES = 500  # a search of 600 runs finds some twenty anomalies, of some kilobytes each
_ANOMALIES = Page(_MAX_ANOMALIES + 1, 8 << 20)

_CAMPAIGN = "SELECT header, calibration, digest FROM campaign"

T = TypeVar("T")


class _Writer:
    """The connection of the process that holds the lock. Only the thread that created it can use it."""

    is_current = True
    """Always true: no other process writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._synced_at = -math.inf
        files_of(directory, to_write=True)
        with ExitStack() as on_failure:
            path = directory / CAMPAIGN_FILE
            self.connection = on_failure.enter_context(closing(connect(path, "mode=rw", path)))
            try:
                with understood(path, sqlite3.OperationalError):
                    self.connection.execute("PRAGMA journal_mode = WAL")
                    self.connection.execute("PRAGMA synchronous = FULL")
                    schema.migrate(self.connection, path)
            except sqlite3.OperationalError as error:
                raise StoreUnwritable(f"{path} cannot be migrated: {error}") from None
            on_failure.pop_all()

    def write(self, statement: str, *values: Any) -> None:
        """Commit a change. The write-ahead log keeps earlier ones that did not wait for the disk in order."""
        now = time.monotonic()
        waits = now - self._synced_at >= _SYNC_SECONDS
        self.connection.execute(f"PRAGMA synchronous = {'FULL' if waits else 'NORMAL'}")
        self.connection.execute(statement, values)
        if waits:
            self._synced_at = now

    def size(self) -> int:
        """Return the current bytes of the record and its log."""
        return files_of(self._directory, to_write=True).size

    def renew(self) -> None:
        """Do nothing: a writer reads its own writes."""

    def close(self) -> None:
        """Empty the log, even while others read, and close the connection."""
        try:
            with understood(self._directory / CAMPAIGN_FILE):
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self.connection.close()


class SqliteStore:
    """A `ports.CampaignStore` in a directory. Only the thread that called `create` or `open` can use it."""

    def __init__(self, directory: CampaignDirectory, held: ExitStack, *, writes: bool) -> None:
        source: Reader | _Writer = _Writer(directory.path) if writes else Reader(directory.path)
        self.directory = directory
        self._source = held.enter_context(closing(source))
        self._writes, self._closed = writes, False
        self.header = self._decoded("header", partial(codec.decode, CampaignHeader), self._one(_CAMPAIGN), 0)
        self._held = held.pop_all()

    @classmethod
    def create(cls, path: Path, header: CampaignHeader, calibration: Calibration | None = None) -> Self:
        """Begin a campaign in a directory that is new or empty."""
        directory = CampaignDirectory(path)
        directory.prepare()
        with ExitStack() as held:
            held.enter_context(closing(CampaignLock(path)))
            directory.prepare()  # checks again: another process may have held the lock meanwhile
            _make(directory, header, calibration or Calibration())
            return cls(directory, held, writes=True)

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """Open a campaign to resume it. `read_only` takes no lock, so that another process can add to it meanwhile."""
        with ExitStack() as held:
            if not read_only:
                with campaign_folder(path) as folder:
                    schema.require_readable(folder)  # before a lock is created beside a record of another version
                held.enter_context(closing(CampaignLock(path)))
            return cls(CampaignDirectory(path), held, writes=not read_only)

    def replace_settings(self, settings: Mapping[str, Any]) -> None:
        """Change settings of a resumed campaign, such as a longer budget."""
        self.header = replace(self.header, settings=dict(settings))
        text = codec.dumps(codec.encode(self.header))
        digest = schema.digest(text, self._one(_CAMPAIGN)[1])
        self._write("UPDATE campaign SET header = ?, digest = ?", text, digest)

    def add_run(self, record: RunRecord) -> None:
        """Record a run on disk."""
        if record.run > MAX_RUNS:
            raise self._full(f"{MAX_RUNS} runs")
        try:
            row = to_row(record)
            self._write(INSERT, *row, schema.digest(*row))
        except sqlite3.IntegrityError:
            raise StoreError(f"run {record.run} is recorded already") from None

    def annotate(self, run: int, verdict: Verdict | None, driven: str | None) -> None:
        """Record a verdict."""
        text = codec.dumps(codec.encode(verdict)) if verdict is not None else None
        rows = self._page(SELECT_MEASURED, run)
        if not rows:
            raise StoreError(f"there is no run {run} to annotate")
        digest = schema.digest(*rows[0], text, driven)
        self._write("UPDATE runs SET verdict = ?, driven = ?, digest = ? WHERE run = ?", text, driven, digest, run)

    def runs(self, *, with_series: bool = True) -> Iterator[RunRecord]:
        """Yield the recorded runs."""
        last = self._one("SELECT max(run) FROM runs")[0] or 0
        first, sequence = 1, RowSequence(self._source.size)
        while rows := self._page(SELECT_BETWEEN, first, last):
            for row in rows:
                yield self._record(row, sequence, with_series=with_series)
            first = rows[-1][0] + 1

    def series(self, run: int) -> Sequence[Sample]:
        """Return the samples of a run."""
        record = self._run(run)
        return record.result.measurement.series if record and isinstance(record.result, Measured) else ()

    def tally(self) -> Tally:
        """Count the recorded runs without reading their measurements."""

        def count(connection: sqlite3.Connection) -> tuple[Tally, int | None]:
            with self._refusing("runs"):
                return tallied(connection)

        tally, failed = self._answer(count)
        return replace(tally, last_failure=self._run(failed) if failed else None)

    def add_anomaly(self, anomaly: Anomaly) -> None:
        """Record an anomaly, and write its files."""
        row = anomaly.id, codec.dumps(codec.encode_anomaly(anomaly))
        is_known = self._page("SELECT 1 FROM anomalies WHERE id = ?", anomaly.id)
        if not is_known and self._one("SELECT count(*) FROM anomalies")[0] >= _MAX_ANOMALIES:
            raise self._full(f"{_MAX_ANOMALIES} anomalies")
        self._write(
            "INSERT INTO anomalies (id, anomaly, digest) VALUES (?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET anomaly = excluded.anomaly, digest = excluded.digest",
            *row,
            schema.digest(*row),
        )
        self._write_files_of(anomaly, survives=False)  # `export` writes them again

    def anomalies(self) -> tuple[Anomaly, ...]:
        """Return all anomalies."""
        rows = self._page("SELECT position, id, anomaly, digest FROM anomalies ORDER BY position", most=_ANOMALIES)
        sequence = RowSequence(self._source.size)
        if len(rows) > _MAX_ANOMALIES or sum(map(bytes_of, rows)) >= _ANOMALIES.bytes:
            raise StoreError(f"{self.directory.database} has more than {_MAX_ANOMALIES} anomalies, or 8 MiB of them")
        for row in rows:
            with self._refusing("anomalies"):
                sequence.take(row)
        return tuple(self._decoded(f"anomaly {row[0]}", codec.decode_anomaly, row[1:], 1) for row in rows)

    def set_calibration(self, calibration: Calibration) -> None:
        """Record the calibration."""
        text = codec.dumps(codec.encode(calibration))
        digest = schema.digest(self._one(_CAMPAIGN)[0], text)
        self._write("UPDATE campaign SET calibration = ?, digest = ?", text, digest)

    def calibration(self) -> Calibration:
        """Return the calibration."""
        return self._decoded("calibration", codec.decode_calibration, self._one(_CAMPAIGN), 1)

    def export(self) -> None:
        """Write `results.jsonl` and the files of every anomaly from the record."""
        with writing(self.directory.results):
            write_results(self.directory.results, self.runs(with_series=False))
        for anomaly in self.anomalies():
            self._write_files_of(anomaly, survives=True)

    def close(self) -> None:
        """Export, and release the campaign even if the export fails. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._writes:
                self.export()
        finally:
            self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            self.close()
        except StoreError:
            if error is None:  # an earlier error is more important, and the export can be repeated
                raise

    def _full(self, content: str) -> StoreError:
        path = self.directory.path
        return StoreError(f"campaign {path} has {content}, the maximum; begin another one with --known {path}")

    def _write_files_of(self, anomaly: Anomaly, *, survives: bool) -> None:
        run = self._run(anomaly.found_at_run)
        with writing(self.directory.path / ANOMALIES / anomaly.id):
            write_anomaly(self.directory, self.header, anomaly, run, survives=survives)

    def _write(self, statement: str, *values: Any) -> None:
        if not isinstance(self._source, _Writer):
            raise StoreError(f"campaign {self.directory.path} was opened for reading only")
        try:
            self._source.write(statement, *values)
        except sqlite3.IntegrityError:  # not damage: the record already has such a row
            raise
        except sqlite3.DataError:
            raise StoreError(f"a row of more than {MAX_ROW_BYTES >> 20} MiB cannot be recorded") from None
        except sqlite3.OperationalError as error:  # disk full, device gone
            raise StoreUnwritable(f"{self.directory.database} cannot be written: {error}") from None
        except schema.UNREADABLE as error:
            raise schema.damaged(self.directory.database, error) from None

    def _one(self, query: str) -> Any:
        if rows := self._page(query):
            return rows[0]
        raise StoreError(f"{self.directory.database} is damaged: it holds no campaign")

    def _run(self, number: int) -> RunRecord | None:
        rows = self._page(SELECT_BETWEEN, number, number)
        return self._record(rows[0]) if rows else None

    def _record(
        self, row: Sequence[Any], sequence: RowSequence | None = None, *, with_series: bool = True
    ) -> RunRecord:
        with self._refusing(f"run {row[0]!s:.20}"):
            if sequence:
                sequence.take(row)
            return from_row(row, with_series=with_series)

    def _decoded(self, part: str, decode: Callable[[Any], T], row: Sequence[Any], column: int) -> T:
        """Decode one column of a row whose last column is its checksum."""
        with self._refusing(part):
            require_digest(row[:-1], row[-1])
            return decode(codec.loads(row[column]))

    @contextmanager
    def _refusing(self, part: str) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise StoreError(
                f"{self.directory.database} is damaged, or was not written by Collie: {part}: {error!s:.300}. Replace "
                "it by a backup, or begin a new campaign. Nothing in it was changed"
            ) from None

    def _page(self, query: str, *values: Any, most: Page = _PAGE) -> list[Any]:
        """Return rows up to the limits of a page, at least one if any exists."""
        return self._answer(lambda connection: most.of(connection.execute(query, values)))

    def _answer(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Return the answer of `ask`. Repeat the question if the record changed meanwhile."""
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
    row = codec.dumps(codec.encode(header)), codec.dumps(codec.encode(calibration))
    try:
        for suffix in ("", *BESIDE):  # files of an interrupted creation, or files that another user planted
            directory.unfinished.with_name(f"{directory.unfinished.name}{suffix}").unlink(missing_ok=True)
        directory.unfinished.touch(0o600, exist_ok=False)  # SQLite gives the files beside it the same mode
        with closing(sqlite3.connect(directory.unfinished, isolation_level=None)) as connection:
            schema.migrate(connection, directory.database)
            connection.execute("INSERT INTO campaign VALUES (1, ?, ?, ?)", (*row, schema.digest(*row)))
            connection.execute("PRAGMA journal_mode = WAL")  # this uses a rollback journal, so it precedes the rename
        directory.log.mkdir(exist_ok=True)
        publish(directory.unfinished, directory.database)
    except (OSError, sqlite3.OperationalError) as error:
        raise StoreUnwritable(f"no campaign can be created in {directory.path}: {error}") from None
