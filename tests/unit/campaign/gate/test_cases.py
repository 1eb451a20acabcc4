"""A gate whose baseline is only on record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from collie.campaign.gate.cases import CaseOrigin, Record
from collie.detect.compare import Change
from collie.detect.measurement import Watch
from collie.ports import RunResult, SetupFailed
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.gates import A1, A2, BOTH, changes, gate, measurer
from tests.support.planted import HEADER, LOOPBACK


def recorded(testbed: FakeTestbed, workloads: Sequence[Workload], times: int = 1) -> Record:
    store = MemoryStore(HEADER)
    measured = measurer(testbed, store)
    for workload in workloads:
        for _ in range(times):
            measured.judged(workload, "search")
    return Record(store.runs())


def test_a_record_answers_for_the_baseline() -> None:
    record = recorded(FakeTestbed(BOTH), [A1.workload, A2.workload], 3)
    summary, _ = gate(FakeTestbed((Planted(LOOPBACK, severity=0.6),)), None, record=record, budget=30)
    assert (changes(summary)["a1"], changes(summary)["a2"]) == (Change.WORSE, Change.FIXED)
    assert (summary.paired, summary.runs[1]) == (False, 0)


@pytest.mark.parametrize(("times", "change"), [(1, Change.INCONCLUSIVE), (3, Change.NEW)])
def test_new_needs_as_many_healthy_runs_on_record_as_the_chance_asks_for(times: int, change: Change) -> None:
    record = recorded(FakeTestbed(), [A1.workload], times)
    candidate = FakeTestbed((Planted(LOOPBACK),))
    summary, _ = gate(candidate, None, (replace(A1, kind=CaseOrigin.KNOWN),), record=record, budget=8)
    assert changes(summary)["a1"] is change


@pytest.mark.parametrize(("times", "change"), [(1, Change.INCONCLUSIVE), (3, Change.WORSE)])
def test_worse_needs_a_reading_on_record_that_no_single_disturbance_made(times: int, change: Change) -> None:
    record = recorded(FakeTestbed(BOTH), [A1.workload], times)
    summary, _ = gate(FakeTestbed((Planted(LOOPBACK, severity=0.6),)), None, (A1,), record=record, budget=8)
    assert changes(summary)["a1"] is change


def test_what_the_baseline_never_measured_is_inconclusive_and_not_new() -> None:
    summary, _ = gate(FakeTestbed(BOTH), None, (replace(A1, kind=CaseOrigin.KNOWN),), budget=20)
    assert changes(summary)["a1"] is Change.INCONCLUSIVE
    summary, _ = gate(FakeTestbed(), None, (replace(A1, kind=CaseOrigin.KNOWN),), budget=20)
    assert changes(summary)["a1"] is Change.HEALTHY


def test_what_did_not_show_again_is_as_surely_healthy_as_a_first_healthy_run() -> None:
    class Once(FakeTestbed):
        """Shows an anomaly in the first run of a workload."""

        def measure(
            self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
        ) -> RunResult:
            self.planted = () if workload in self.measured else BOTH
            return super().measure(workload, run, watch, on)

    known = (replace(A1, kind=CaseOrigin.KNOWN),)
    stray, healthy = (gate(testbed, None, known, budget=20)[0] for testbed in (Once(), FakeTestbed()))
    (gone, sound) = (
        next(result.comparison for result in summary.results if result.case.name == "a1")
        for summary in (stray, healthy)
    )
    assert gone.change is sound.change is Change.HEALTHY
    assert gone.reason.startswith("it did not show again: ")
    assert gone.confidence == sound.confidence
    assert gone.confidence is not None
    assert gone.confidence < 1.0


def test_what_could_not_be_confirmed_is_not_healthy() -> None:
    class Once(FakeTestbed):
        """Shows an anomaly once; after that its traffic fails to set up."""

        def measure(
            self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
        ) -> RunResult:
            if workload in self.measured:
                self.measured.append(workload)
                return SetupFailed("qp timeout", "no connection", 3.0)
            return super().measure(workload, run, watch)

    summary, _ = gate(Once(BOTH), None, (replace(A1, kind=CaseOrigin.KNOWN),), budget=20)
    assert changes(summary)["a1"] is Change.INCONCLUSIVE


def test_only_what_was_never_anomalous_on_record_and_is_asked_for_counts_as_healthy() -> None:
    """So a workload that shows its anomaly now and then is no healthy neighbour."""
    store, testbed = MemoryStore(HEADER), FakeTestbed()
    measured = measurer(testbed, store)
    other = A2.workload.with_(qps=64)
    for planted in ((), BOTH):
        testbed.planted = planted
        measured.judged(A1.workload, "search")
    testbed.planted = ()
    for workload in (A2.workload, A2.workload, other):
        measured.judged(workload, "search")
    record = Record(store.runs())
    assert record.healthy(lambda _workload: True) == {A2.workload: 2, other: 1}
    assert record.healthy(lambda workload: workload == A2.workload) == {A2.workload: 2}
