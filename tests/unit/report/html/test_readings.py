"""The table of readings beside an anomaly."""

from __future__ import annotations

from dataclasses import replace

from collie.detect.measurement import Latency, Victim
from collie.ports import Measured, RunRecord
from collie.report.html.readings import CounterComparison, readings_of
from collie.testing.store_suite import measured
from collie.workloads.workload import Workload


def run(median_seconds: float, p99_seconds: float, kept_bps: float | None, *, offered_bps: int = 10**9) -> RunRecord:
    record = measured(1)
    assert isinstance(record.result, Measured)
    latency = {"a-b": Latency(median_seconds, p99_seconds)}
    victim = None if kept_bps is None else Victim(9e9, kept_bps)
    measurement = replace(record.result.measurement, latency=latency, victim=victim)
    workload = Workload(offered_bps=offered_bps)
    return replace(record, workload=workload, result=replace(record.result, measurement=measurement))


def rows(here: RunRecord, sibling: RunRecord | None) -> dict[str, CounterComparison]:
    return {row.source: row for row in readings_of(here, sibling)}


def test_the_latency_of_an_offered_load_stands_beside_that_of_the_sibling() -> None:
    found = rows(run(4e-5, 3e-4, None), run(1e-5, 2e-5, None))
    late = found["latency/a-b/p99_seconds"]
    assert (late.subject, late.here_text, late.sibling_text) == ("a-b", "300 us", "20 us")
    assert found["latency/a-b/median_seconds"].here == 4e-5


def test_with_full_send_queues_latency_tells_nothing() -> None:
    assert not any(source.startswith("latency/") for source in rows(run(4e-5, 3e-4, None, offered_bps=0), None))


def test_what_a_victim_keeps_stands_beside_what_it_keeps_beside_the_sibling() -> None:
    row = rows(run(4e-5, 3e-4, 2e9), run(1e-5, 2e-5, 8e9))["victim/beside_bps"]
    assert (row.subject, row.here, row.sibling) == ("victim", 2e9, 8e9)
    assert "victim/beside_bps" not in rows(run(4e-5, 3e-4, None), None)


def with_late_victim(p99_seconds: float, offered_bps: int) -> RunRecord:
    record = run(4e-5, 3e-4, 2e9)
    assert isinstance(record.result, Measured)
    victim = Victim(9e9, 2e9, offered_bps, Latency(1e-5, p99_seconds))
    measurement = replace(record.result.measurement, victim=victim)
    return replace(record, result=replace(record.result, measurement=measurement))


def test_the_latency_of_a_victim_counts_where_it_offers_a_load() -> None:
    late = rows(with_late_victim(3e-4, 2 * 10**9), with_late_victim(2e-5, 2 * 10**9))["victim/latency/p99_seconds"]
    assert (late.subject, late.here_text, late.sibling_text) == ("victim", "300 us", "20 us")
    assert not any(source.startswith("victim/latency") for source in rows(with_late_victim(3e-4, 0), None))
