"""A campaign that somebody else made: nothing of it runs, leaves its folder, or fills the memory."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collie.app.adapters import ReportContext
from collie.cli.logs import logged_to
from collie.cli.main import run
from collie.errors import StoreError
from collie.ports import RunRecord, SetupFailed
from collie.report.html.page import render_report, write_report
from collie.store import answers, codec, heartbeat, schema, series
from collie.store.connections import MAX_RUNS
from collie.store.fingerprints import load as load_fingerprints
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER, measured, phase
from collie.workloads.workload import Workload
from tests.support.hostile_campaigns import LIGHT, SPOILERS
from tests.support.hostile_ground import Ground, decoys, downgraded, snapshot


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    path = tmp_path / "outer" / "campaign"
    with SqliteStore.create(path, HEADER) as store:
        store.add_run(phase(1, 1))
        store.add_anomaly(replace(ANOMALY, found_at_run=1))
    return path


def spoil(campaign: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    with closing(sqlite3.connect(campaign / "campaign.sqlite")) as connection, connection:
        for statement in statements:
            connection.execute(statement, values)
        if any(statement.startswith("UPDATE") for statement in statements):
            schema.stamp(connection)  # whoever means harm knows how


def use(campaign: Path, *, read_only: bool = True) -> None:
    with SqliteStore.open(campaign, read_only=read_only) as store:
        assert store.tally().runs == len(list(store.runs()))
        assert store.anomalies()
        assert store.calibration() is not None


def ground(campaign: Path, version: int = schema.SCHEMA_VERSION) -> Ground:
    if version < schema.SCHEMA_VERSION:
        downgraded(campaign / "campaign.sqlite", version)
    return Ground(campaign, decoys(campaign.parent / "decoys"), Random(1))


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("version", range(1, schema.SCHEMA_VERSION + 1))
def test_a_reader_changes_nothing_in_a_spoiled_campaign_nor_beside_it(campaign: Path, version: int, name: str) -> None:
    spoiled = ground(campaign, version)
    SPOILERS[name](spoiled)
    before = snapshot(campaign.parent)
    with suppress(StoreError):
        use(campaign)
    assert snapshot(campaign.parent) == before


@pytest.mark.parametrize("name", [name for name in SPOILERS if name.startswith(("journal", "log", "index", "record"))])
@pytest.mark.parametrize("version", range(1, schema.SCHEMA_VERSION + 1))
def test_a_writer_changes_nothing_beside_a_spoiled_campaign(campaign: Path, version: int, name: str) -> None:
    spoiled = ground(campaign, version)
    SPOILERS[name](spoiled)
    before = snapshot(spoiled.decoys)
    with suppress(StoreError), SqliteStore.open(campaign) as store:
        store.add_run(measured(50_000))
    assert snapshot(spoiled.decoys) == before


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("journal with a super-journal", "-journal lies beside the record. SQLite would act on it"),
        ("log, no log", "-wal was not made by Collie: it is not a write-ahead log of SQLite"),
        ("log: FIFO", "-wal was not made by Collie: it is not a regular file"),
        ("index: link", "-shm was not made by Collie: it is not a regular file"),
        ("record: link", r"campaign\.sqlite cannot be read: it is a symbolic link"),
        ("record: FIFO", r"campaign\.sqlite cannot be read: it is a FIFO"),
    ],
)
def test_what_sqlite_would_act_on_is_refused(campaign: Path, name: str, message: str, read_only: bool) -> None:
    SPOILERS[name](ground(campaign))
    with pytest.raises(StoreError, match=message):
        SqliteStore.open(campaign, read_only=read_only)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("version", range(1, schema.SCHEMA_VERSION + 1))
def test_more_runs_than_a_campaign_has_are_refused_at_once(campaign: Path, version: int, read_only: bool) -> None:
    SPOILERS["a million runs"](ground(campaign, version))
    with pytest.raises(StoreError, match=f"has runs 1 to 1001000. A campaign has runs 1 to {MAX_RUNS} at most"):
        SqliteStore.open(campaign, read_only=read_only)


def test_as_many_runs_as_fit_are_recorded_and_no_further_one(campaign: Path) -> None:
    with SqliteStore.open(campaign) as store:
        store.add_run(measured(MAX_RUNS))
        with pytest.raises(StoreError, match=f"has {MAX_RUNS} runs, the maximum"):
            store.add_run(measured(MAX_RUNS + 1))
    with SqliteStore.open(campaign, read_only=True) as store:
        assert [record.run for record in store.runs()][-1] == MAX_RUNS


@pytest.mark.parametrize("name", ["runs of emoji", "runs driven by emoji"])
def test_names_of_a_run_that_no_collie_gives_are_refused(campaign: Path, name: str) -> None:
    SPOILERS[name](ground(campaign))
    expected = pytest.raises(StoreError, match="run 1: a name has 1000000 characters; the limit is 200")
    with SqliteStore.open(campaign, read_only=True) as store, expected:
        list(store.runs())


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW more AS {ENDLESS}",
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        "CREATE INDEX i ON runs (hex(zeroblob(run * 1000000)))",
        "CREATE TABLE more (x)",
        "ALTER TABLE runs ADD COLUMN more GENERATED ALWAYS AS (hex(zeroblob(1000000000)))",
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_tables_that_collie_did_not_make_are_refused_before_they_are_asked(
    campaign: Path, statement: str, read_only: bool
) -> None:
    spoil(campaign, statement)
    with pytest.raises(StoreError, match="was not made by Collie"):
        SqliteStore.open(campaign, read_only=read_only)


@pytest.mark.parametrize("version", [1, schema.SCHEMA_VERSION])
def test_a_trigger_behind_a_hundred_rows_of_nothing_is_seen(campaign: Path, version: int) -> None:
    with closing(sqlite3.connect(campaign / "campaign.sqlite")) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        for _ in range(120):
            connection.execute(
                "INSERT INTO sqlite_master SELECT * FROM sqlite_master WHERE name LIKE 'sqlite_autoindex%' LIMIT 1"
            )
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM runs; END")
    with pytest.raises(StoreError):
        SqliteStore.open(campaign, read_only=True)


def test_a_lock_that_is_a_link_empties_nothing(campaign: Path, tmp_path: Path) -> None:
    mine = tmp_path / "thesis.tex"
    mine.write_text("years of work")
    (campaign / "campaign.lock").unlink()
    (campaign / "campaign.lock").symlink_to(mine)
    with pytest.raises(StoreError, match="cannot be written"):
        SqliteStore.open(campaign)
    assert mine.read_text() == "years of work"


def test_a_view_in_the_place_of_a_table_is_refused(campaign: Path) -> None:
    spoil(campaign, "DROP TABLE runs", f"CREATE VIEW runs AS {ENDLESS}")
    with pytest.raises(StoreError, match="was not made by Collie"):
        SqliteStore.open(campaign, read_only=True)


@pytest.mark.parametrize("identifier", ["../../up", "/tmp/up", "..", "a/b", "a\\nb", "", "a" * 65])
def test_no_id_of_an_anomaly_leads_out_of_the_campaign(campaign: Path, identifier: str) -> None:
    raw = {**codec.encode_anomaly(ANOMALY), "id": identifier}
    spoil(campaign, "UPDATE anomalies SET anomaly = ?", values=(json.dumps(raw),))
    before = {path for path in campaign.parent.parent.rglob("*") if campaign not in path.parents}
    with pytest.raises(StoreError, match="is no id of an anomaly"), SqliteStore.open(campaign):
        pass
    assert {path for path in campaign.parent.parent.rglob("*") if campaign not in path.parents} == before


def result(**changed: Any) -> str:
    return json.dumps({**codec.encode_result(measured(1).result), **changed})


def anomaly(**changed: Any) -> str:
    return json.dumps({**codec.encode_anomaly(ANOMALY), **changed})


WORKLOAD = codec.encode_anomaly(ANOMALY)["workload"]
RENAMED = [{**host, "host": "renamed"} for host in codec.encode_result(measured(1).result)["hosts"]]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("campaign.header", "[]"),
        ("campaign.header", b"\x00\xff"),
        ("campaign.header", "[" * 100_000),
        ("campaign.header", json.dumps({**codec.encode(HEADER), "seed": "1"})),
        ("campaign.calibration", '{"points": [{"qp_type": "RC"}]}'),
        ("runs.result", result(hosts=[{"host": "a", "tx_pause_ratio": "much"}])),
        ("runs.result", result(hosts=7)),
        ("runs.result", result(hosts=[])),
        ("runs.result", result(hosts=RENAMED)),
        ("runs.result", result(window_seconds=None)),
        ("runs.result", result(elapsed_seconds=1).replace("1", "1e999", 1)),
        ("runs.result", '{"outcome": [], "elapsed_seconds": 1}'),
        ("runs.workload", json.dumps({**WORKLOAD, "qps": 10**30})),
        ("runs.workload", json.dumps({**WORKLOAD, "sge_count": 10**12})),
        ("runs.workload", json.dumps({**WORKLOAD, "messages": [1] * 1023, "more_opcodes": ["SEND"] * 1020})),
        ("runs.made_for", json.dumps({**WORKLOAD, "qps": 10**30})),
        ("runs.made_for", None),
        ("runs.set_up", 2),
        ("runs.set_up", 0),
        ("runs.set_up", "one"),
        ("runs.set_up", None),
        ("runs.verdict", '{"outcome": "normal"}'),
        ("runs.series", b"no zlib"),
        ("runs.series", zlib.compress(b'{"shapes": [["x"]], "rows": [[0, "a", 7, 1]]}')),
        ("runs.series", zlib.compress(b'{"shapes": [["x"]], "rows": [[0]]}')),
        ("runs.series", "text"),
        ("runs.finished_at_seconds", "late"),
        ("runs.purpose", b"\x00"),
        ("anomalies.anomaly", anomaly(severity="much")),
        ("anomalies.anomaly", anomaly(features=[{"dimension": "__class__", "op": "==", "value": 1}])),
        ("anomalies.anomaly", anomaly(features=[{"dimension": "qp_type", "op": ">=", "value": 1}])),
        ("anomalies.anomaly", anomaly(features=[{"dimension": "qps", "op": "in", "value": 1}])),
    ],
)
def test_a_value_that_no_collie_wrote_is_refused_in_words(campaign: Path, place: str, value: object) -> None:
    table, column = place.split(".")
    spoil(campaign, f"UPDATE {table} SET {column} = ?", values=(value,))
    with pytest.raises(StoreError, match="is damaged, or was not written by Collie") as caught:
        use(campaign)
    assert len(str(caught.value)) < 1000


def test_samples_that_unpack_without_end_are_refused(campaign: Path) -> None:
    spoil(campaign, "UPDATE runs SET series = ?", values=(zlib.compress(bytes(series.MAX_BYTES + 1)),))
    with pytest.raises(StoreError, match="longer than 8 MiB"):
        use(campaign)


def test_a_value_of_gigabytes_is_refused(campaign: Path) -> None:
    spoil(campaign, "UPDATE runs SET result = zeroblob(65 << 20)")
    with pytest.raises(StoreError, match="a row of more than 4 MiB"):
        use(campaign)


def test_a_campaign_without_its_row_is_damaged(campaign: Path) -> None:
    spoil(campaign, "DELETE FROM campaign")
    with pytest.raises(StoreError, match="holds no campaign"):
        use(campaign)


def test_what_steers_a_terminal_or_ends_a_script_is_shown_as_text(campaign: Path) -> None:
    hostile = "\x1b[2J</script><script>alert(1)</script>"
    with SqliteStore.open(campaign) as store:
        store.add_run(RunRecord(2, hostile, Workload(), SetupFailed(hostile, hostile, 1.0), 100.0))
    with SqliteStore.open(campaign, read_only=True) as store:
        page = render_report(store, ReportContext())
    assert "\x1b" not in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


UNDATED = json.dumps(
    {"schema_version": 1, "state": "running", "machine": "m", "pid": 1, "began": "", "updated": "2026-01-01T00:00:00"}
)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"schema_version": 1, "standing": 7}', "\x00", UNDATED])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("status.json", lambda path: heartbeat.read_heartbeat(path)),
        ("gate.json", lambda path: answers.read_answer(path)),
        ("host.json", lambda path: load_fingerprints(path.parent)),
    ],
)
def test_files_beside_the_record_are_read_or_refused(
    tmp_path: Path, name: str, read: Callable[[Path], object], text: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(StoreError, match=name):
        read(tmp_path / name)


def test_what_names_hosts_is_for_its_owner_alone(campaign: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with SqliteStore.open(campaign) as store:
            store.add_run(measured(2))
            write_report(store, tmp_path / "report.html")
        with logged_to(campaign / "log"):
            logging.getLogger("collie").info("host a (10.0.0.1) cannot be reached")
    finally:
        os.umask(before)
    (tmp_path / "report.html").rename(campaign / "report.html")
    written = {path.name: path.stat().st_mode & 0o777 for path in campaign.rglob("*") if path.is_file()}
    assert {"campaign.sqlite", "results.jsonl", "mfs.json", "collie.log", "report.html"} <= written.keys()
    assert set(written.values()) == {0o600}


def test_a_table_and_a_script_are_for_their_owner_alone_and_what_is_for_others_as_the_umask_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs.csv", "script.sh"):
        (tmp_path / name).touch(0o644)
    before = os.umask(0o022)
    try:
        assert run(["search", "--seed", "1", "--budget", "2runs", "--campaign", "c", "--prometheus", "c.prom"]) == 0
        assert run(["runs", "c", "--format", "csv", "-o", "runs.csv"]) == 0
        assert run(["export", "nsdi22-08", "--as", "script", "-o", "script.sh"]) == 0
        assert run(["export", "nsdi22-08", "-o", "bundle.pyz"]) == 0
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"runs.csv": 0o600, "script.sh": 0o600, "bundle.pyz": 0o755, "c.prom": 0o644, "c": 0o755}
