"""A campaign on disk: killed, locked, damaged or full."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import collie
from collie.detect.bounds import Calibration, CalibrationPoint
from collie.errors import StoreError, StoreUnwritable
from collie.ports import CampaignHeader, Unsupported
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER, measured, phase
from collie.workloads.workload import Opcode, QpType
from tests.support.stores import contents

WRITER = """
import sys
from pathlib import Path
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER, VERDICT, measured

path = Path(sys.argv[1])
store = SqliteStore.open(path) if path.exists() else SqliteStore.create(path, HEADER)
run = max((record.run for record in store.runs()), default=0)
while True:
    run += 1
    store.add_run(measured(run))
    print(run, flush=True)
    store.annotate(run, VERDICT, "rx_packets")
    if run % 10 == 0:
        store.add_anomaly(ANOMALY)
"""


def test_only_what_soon_follows_data_on_disk_does_not_wait_for_it(tmp_path: Path) -> None:
    """A simulated run takes some milliseconds, and the wait for the disk as many."""
    waits = []
    with SqliteStore.create(tmp_path / "campaign", HEADER) as store:

        def record(run: int) -> None:
            store.add_run(measured(run))
            (level,) = store._source.connection.execute("PRAGMA synchronous").fetchone()
            waits.append(level == 2)

        for run in range(1, 50):
            record(run)
        time.sleep(0.1)
        record(50)
    assert waits[0]
    assert waits[-1]
    assert not all(waits)


def start_writer(path: Path) -> subprocess.Popen[str]:
    root = Path(collie.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=environment
    )


def test_every_run_that_was_recorded_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "campaign"
    promised = 0
    for runs_until_killed in (1, 9, 17, 26):
        writer = start_writer(path)
        assert writer.stdout is not None
        for _ in range(runs_until_killed):
            promised = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        promised = int(([str(promised), *writer.stdout.read().split()])[-1])
        writer.wait()
        writer.stdout.close()
        with SqliteStore.open(path) as store:
            runs = list(store.runs())
            assert [record.run for record in runs] == list(range(1, len(runs) + 1))
            assert len(runs) >= promised
            assert all(replace(record, verdict=None, driven=None) == measured(record.run) for record in runs)
    lines = (path / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["run"] for line in lines] == [record.run for record in runs]


def header_of(path: Path) -> CampaignHeader:
    with SqliteStore.open(path, read_only=True) as store:
        return store.header


def test_runs_are_tallied_by_outcome_and_set_up(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "c", HEADER) as store:
        for record in (measured(1), phase(2, 2), phase(3, 2), replace(phase(4, 2), result=Unsupported("no GPU", 0.0))):
            store.add_run(record)
        tally = store.tally()
    assert (tally.runs, tally.further_phases, tally.outcomes) == (4, 2, {"measured": 3, "unsupported": 1})


def test_a_creation_that_was_killed_is_no_campaign_and_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "campaign.sqlite.new").write_bytes(b"half of something")
    (tmp_path / "campaign.lock").write_text("1\n")
    with pytest.raises(StoreError):
        SqliteStore.open(tmp_path)
    with SqliteStore.create(tmp_path, HEADER) as store:
        assert store.header == HEADER


def test_a_campaign_is_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "campaign"
    writer = start_writer(path)
    assert writer.stdout is not None
    try:
        writer.stdout.readline()
        with pytest.raises(StoreError, match=f"is in use by process {writer.pid}"):
            SqliteStore.open(path)
        assert header_of(path) == HEADER
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    SqliteStore.open(path).close()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(
        StoreUnwritable,
        match=r"cannot be locked: Function not implemented\. Choose a folder on a file system that supports flock",
    ):
        SqliteStore.create(tmp_path / "campaign", HEADER)


def test_a_campaign_is_opened_once_within_a_process_too(tmp_path: Path) -> None:
    first = SqliteStore.create(tmp_path / "c", HEADER)
    with pytest.raises(StoreError, match=f"is in use by process {os.getpid()}"):
        SqliteStore.open(tmp_path / "c")
    first.close()
    SqliteStore.open(tmp_path / "c").close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "holds no campaign"),
        (b"", "is not a campaign"),
        (b"not a database" * 100, "is not a campaign"),
        (b"SQLite format 3\x00" + bytes(84), "is not a campaign"),
    ],
)
def test_what_is_no_campaign_is_said_to_be_none(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "campaign.sqlite").write_bytes(content)
    before = contents(tmp_path)
    for read_only in (False, True):
        with pytest.raises(StoreError, match=message):
            SqliteStore.open(tmp_path, read_only=read_only)
    assert contents(tmp_path) == before


def test_a_damaged_campaign_is_said_to_be_damaged(tmp_path: Path) -> None:
    SqliteStore.create(tmp_path / "c", HEADER).close()
    database = tmp_path / "c" / "campaign.sqlite"
    database.write_bytes(database.read_bytes()[:4096] + b"\xff" * (database.stat().st_size - 4096))
    with pytest.raises(StoreError, match=r"campaign\.sqlite cannot be read: "):
        SqliteStore.open(tmp_path / "c")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_campaign_that_was_cut_off_is_said_to_be_damaged(tmp_path: Path, read_only: bool) -> None:
    SqliteStore.create(tmp_path / "c", HEADER).close()
    database = tmp_path / "c" / "campaign.sqlite"
    database.write_bytes(database.read_bytes()[:100])
    with pytest.raises(StoreError, match=r"campaign\.sqlite cannot be (opened|read): "):
        SqliteStore.open(tmp_path / "c", read_only=read_only)


def test_a_damaged_index_is_reported_on_writing(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "c", HEADER) as store:
        store.add_anomaly(ANOMALY)
    database = tmp_path / "c" / "campaign.sqlite"
    with closing(sqlite3.connect(database)) as connection:
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        index = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_anomalies_1'"
        page = connection.execute(index).fetchone()[0]
    with database.open("r+b") as file:
        file.seek((page - 1) * page_bytes)
        file.write(b"\xff" * 64)
    with SqliteStore.open(tmp_path / "c") as store:
        assert store.anomalies() == (ANOMALY,), "which takes no index"
        with pytest.raises(StoreError, match=r"malformed.*replace it by a backup, or begin a new campaign") as raised:
            store.add_anomaly(ANOMALY)
        assert raised.value.exit_code == 2


def read_everything(path: Path) -> None:
    with SqliteStore.open(path, read_only=True) as store:
        assert list(store.runs())
        assert store.anomalies()


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE runs SET finished_at_seconds = finished_at_seconds + 1", "run 1"),
        ("UPDATE runs SET result = replace(result, '1', '2')", "run 1"),
        ("UPDATE runs SET driven = 'tx_packets'", "run 1"),
        ("UPDATE runs SET digest = NULL", "run 1"),
        ("UPDATE anomalies SET anomaly = replace(anomaly, '1', '2')", "anomaly 1"),
        ("UPDATE campaign SET header = replace(header, '1', '2')", "header"),
        ("UPDATE campaign SET calibration = '[ ]'", "header"),
    ],
)
def test_what_is_not_what_was_written_is_refused_though_it_could_be_read(
    tmp_path: Path, statement: str, what: str
) -> None:
    with SqliteStore.create(tmp_path / "c", HEADER) as store:
        store.add_run(measured(1))
        store.annotate(1, None, "rx_packets")
        store.add_anomaly(ANOMALY)
    with closing(sqlite3.connect(tmp_path / "c" / "campaign.sqlite")) as connection, connection:
        connection.execute(statement)
    with pytest.raises(StoreError, match=f"{what}.*its checksum is wrong.*Replace it by a backup"):
        read_everything(tmp_path / "c")


def test_a_campaign_comes_into_being_with_its_calibration(tmp_path: Path) -> None:
    known = Calibration((CalibrationPoint(QpType.RC, Opcode.WRITE, 4096, 1e9, 0.1),))
    SqliteStore.create(tmp_path / "c", HEADER, known).close()
    with SqliteStore.open(tmp_path / "c", read_only=True) as store:
        assert store.calibration() == known


def add_runs(store: SqliteStore, count: int) -> None:
    for run in range(1, count + 1):
        store.add_run(measured(run))


def test_a_full_disk_is_said_to_be_full(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "c", HEADER) as store:
        store._source.connection.execute("PRAGMA max_page_count = 8")
        with pytest.raises(StoreError, match="cannot be written: database or disk is full") as raised:
            add_runs(store, 100)
        assert raised.value.exit_code == 3, "it is no bad input"
        kept = [record.run for record in store.runs()]
    with SqliteStore.open(tmp_path / "c") as store:
        assert [record.run for record in store.runs()] == kept == list(range(1, len(kept) + 1))
