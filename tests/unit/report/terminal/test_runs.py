"""Runs as rows: what a spreadsheet gets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from collie.campaign.phases import Place
from collie.detect.bounds import Bound, at_own_mtu
from collie.detect.judge import judge
from collie.detect.measurement import HostMeasurement, Latency, Measurement, Victim
from collie.detect.symptom import Outcome, Verdict
from collie.detect.thresholds import Thresholds
from collie.ports import CampaignStore, Measured, RunRecord, SetupFailed
from collie.report.terminal.runs import COLUMNS, Row, run_rows, runs_table, write_csv
from collie.store import codec
from collie.store.exports import run_line
from collie.store.memory import MemoryStore
from collie.testing.store_suite import MEASUREMENT, VERDICT, WORKLOAD, measured, phase
from collie.workloads.workload import FIELD_NAMES, Opcode, Workload
from tests.support.campaigns import HEADER, SPACE, fill


@pytest.fixture(scope="module")
def store() -> CampaignStore:
    store = MemoryStore(HEADER)
    fill(store)
    return store


def as_csv(rows: list[Row]) -> list[dict[str, str]]:
    file = io.StringIO(newline="")
    write_csv(iter(rows), file)
    return list(csv.DictReader(io.StringIO(file.getvalue(), newline="")))


def test_there_is_one_row_per_run_with_a_column_per_dimension(store: CampaignStore) -> None:
    rows, records = as_csv(list(run_rows(store, SPACE))), list(store.runs())
    assert [row["run"] for row in rows] == [str(record.run) for record in records]
    assert list(rows[0]) == list(COLUMNS)
    assert set(FIELD_NAMES) <= set(rows[0])
    for row, record in zip(rows, records, strict=True):
        assert int(row["qps"]) == record.workload.qps
        assert row["loopback"] == str(record.workload.loopback).lower()
        assert row["outcome"] == ("measured" if isinstance(record.result, Measured) else row["outcome"])
        assert bool(row["problem"]) is not isinstance(record.result, Measured)


def test_a_row_names_the_set_up_of_its_run_and_the_phase_on_it() -> None:
    store = MemoryStore(HEADER)
    for record in (measured(1), phase(2, 2), phase(3, 3), phase(4, 2), phase(5, 3), phase(6, 2)):
        store.add_run(record)
    rows = as_csv(list(run_rows(store, SPACE)))
    assert [(row["set_up"], row["phase"]) for row in rows] == [
        *(("1", "1"), ("2", "1"), ("3", "1"), ("2", "2"), ("3", "2"), ("2", "3")),
    ]


def test_a_row_has_the_latency_of_the_slowest_flow_and_what_the_victim_kept() -> None:
    store, record = MemoryStore(HEADER), measured(1)
    assert isinstance(record.result, Measured)
    latency = {"a-b": Latency(3e-6, 9e-6, 2e-5), "b-a": Latency(4e-6, 8e-6)}
    victim = Victim(9e9, 4e9, 9 * 10**9, Latency(1e-5, 2e-5, 3e-5))
    measurement = replace(record.result.measurement, latency=latency, victim=victim)
    store.add_run(replace(record, result=replace(record.result, measurement=measurement)))
    (row,) = run_rows(store, SPACE)
    quantiles = [row[f"latency_{name}_seconds"] for name in ("median", "p99", "p999")]
    assert (quantiles, row["victim_bps"]) == ([4e-6, 9e-6, 2e-5], 4e9)
    assert row["victim_lost_ratio"] == pytest.approx(5 / 9)
    of_victim = [row[f"victim_latency_{name}_seconds"] for name in ("median", "p99", "p999")]
    assert of_victim == [1e-5, 2e-5, 3e-5]


def test_a_line_of_results_has_the_latency_of_each_flow_and_what_the_victim_lost() -> None:
    measurement = replace(MEASUREMENT, latency={"a-b": Latency(3e-6, 9e-6, 2e-5)}, victim=Victim(8e9, 6e9))
    record = RunRecord(1, "search", WORKLOAD, Measured(measurement, 20.0), 20.0)
    line = json.loads(json.dumps(run_line(record, Place(1, 1))))
    assert line["latency"]["a-b"]["p999_seconds"] == 2e-5
    assert line["victim"]["lost_ratio"] == 0.25


def test_severity_follows_from_throughput_and_bound(store: CampaignStore) -> None:
    slow = [row for row in run_rows(store, SPACE) if row["symptom"] == "low_throughput"]
    assert slow
    for row in slow:
        assert row["severity"] == pytest.approx(1 - row["delivered_bps"] / row["bound_bps"])


def with_verdict(workload: Workload, gbps: Mapping[str, float], bound: Bound) -> Row:
    """Return the row of a judged run, as the record has it. Its hosts receive so much."""
    hosts = tuple(HostMeasurement(role, value * 1e9, value * 1e9 / 8 / 4096, 0.0) for role, value in gbps.items())
    found, store = Measurement(hosts, 1.0), MemoryStore(HEADER)
    store.add_run(RunRecord(1, "search", workload, Measured(found, 20.0), 20.0))
    store.annotate(1, judge(workload, found, bound, Thresholds()), None)
    (row,) = run_rows(store, SPACE)
    return row


def test_the_bound_is_that_of_the_verdict_although_no_plain_sibling_ran() -> None:
    bound = at_own_mtu(Workload(), 100e9, "plain sibling")
    row = with_verdict(Workload(), {"b": 40.0}, bound)
    assert (row["delivered_bps"], row["bound_bps"], row["severity"]) == (40e9, 100e9, pytest.approx(0.6))
    assert "100 Gbit/s" in list(runs_table([row]))[1]
    shared = with_verdict(Workload(responders=4), {"b": 25.0, "c": 25.0, "d": 25.0, "e": 24.0}, bound)
    assert (shared["verdict"], shared["delivered_bps"], shared["bound_bps"]) == ("normal", 24e9, 25e9)
    mixed = Workload(more_opcodes=(Opcode.READ,), messages=(65536, 1024))
    row = with_verdict(mixed, {"a": 1.5, "b": 96.0}, bound)
    assert (row["delivered_bps"], row["bound_bps"]) == (1.5e9, 1.5625e9)


def test_a_record_of_an_earlier_collie_has_the_bound_of_the_plain_sibling(store: CampaignStore) -> None:
    earlier = MemoryStore(HEADER)
    for record in store.runs():
        verdict = None if record.verdict is None else replace(record.verdict, bound_bps=None)
        earlier.add_run(replace(record, verdict=verdict))
    rows = list(run_rows(earlier, SPACE))
    assert {row["bound_bps"] for row in rows if row["symptom"] == "low_throughput"} == {100e9}
    assert {row["bound_bps"] for row in rows if row["symptom"] == "pause"} == {None}


def test_what_is_unknown_is_an_empty_cell() -> None:
    store = MemoryStore(HEADER)
    store.add_run(RunRecord(1, "search", WORKLOAD, Measured(MEASUREMENT, 20.0), 20.0))
    [row] = as_csv(list(run_rows(store, SPACE)))
    assert row["delivered_bps"] == str(1e11 / 3)
    assert (row["bound_bps"], row["verdict"], row["severity"], row["driven"]) == ("", "", "", "")
    assert row["messages"] == "64 2048"
    assert (row["min_message_bytes"], row["max_message_bytes"]) == ("64", "2048")


@pytest.mark.parametrize("lead", ["=", "+", "-", "@", "\t", "\r"])
def test_no_text_is_taken_for_a_formula(lead: str) -> None:
    hostile = f'{lead}HYPERLINK("http://example.com","x")'
    store = MemoryStore(HEADER)
    store.add_run(RunRecord(1, "search", WORKLOAD, SetupFailed(hostile, "", 1.0), 1.0, driven=hostile))
    store.annotate(1, Verdict(Outcome.INCONCLUSIVE, hostile), hostile)
    [row] = as_csv(list(run_rows(store, SPACE)))
    assert all(not cell.startswith(lead) for cell in row.values())
    assert row["reason"] == f"'{hostile}"


def test_a_line_of_results_holds_inputs_outputs_and_verdict() -> None:
    record = RunRecord(7, "search", WORKLOAD, Measured(MEASUREMENT, 20.0), 140.0, VERDICT, "pressure")
    line = json.loads(json.dumps(run_line(record, Place(7, 1))))
    assert line["schema_version"] == 1
    assert line["verdict"] == codec.encode(VERDICT)
    assert set(FIELD_NAMES) <= set(line["workload"])
    assert line["hosts"][1]["delivered_bps"] == 1e11 / 3
    assert line["hosts"][0]["counters"]["absent"] is None
    assert (line["run"], line["purpose"], line["driven"], line["outcome"]) == (7, "search", "pressure", "measured")


@pytest.mark.parametrize("width", [80, 120])
def test_a_table_of_runs_fits_a_terminal_with_whole_words(store: CampaignStore, width: int) -> None:
    rows = list(run_rows(store, SPACE))
    lines = list(runs_table(rows, width))
    assert max(map(len, lines)) <= width
    piped = list(runs_table(rows))
    assert len(piped) == 1 + len(rows)
    assert " ".join(lines).split() == " ".join(piped).split()


def test_a_reason_is_below_the_figures_of_its_run_where_it_has_no_room_beside_them(store: CampaignStore) -> None:
    rows = [row for row in run_rows(store, SPACE) if row["reason"]][:2]
    narrow, wide = list(runs_table(rows, 80)), list(runs_table(rows, 160))
    assert narrow[:2] == [narrow[0].rstrip(), "    why"]
    assert wide[0].endswith("why")
    assert not narrow[2].endswith(rows[0]["reason"])
    assert wide[1].endswith(rows[0]["reason"])
