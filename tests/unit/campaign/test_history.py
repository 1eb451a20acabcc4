"""A workload after its history: a new set-up each time, and nothing said of a sequence that breaks off."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.events import RunFinished
from collie.campaign.history import HISTORY, probe_after, tracing
from collie.campaign.measure import Measurer
from collie.detect.bounds import UNBOUNDED, Bound, Bounds, Calibration
from collie.detect.reading import RunReading
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.ports import Measured, RunRecord, RunResult, SetupFailed, Unsupported
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.planted import HEADER, MANY_SGES, SPACE
from tests.support.troubled import HANGS, Trouble, Troubled

LARGE = SPACE.base.with_(qps=64, sge_count=16)
SMALL = SPACE.base.with_(sge_count=2)
WORKLOAD = SPACE.base.with_(sge_count=16)
ON = SetUp(LARGE, (SMALL, LARGE))
PLANTED = Planted(MANY_SGES, after=Mfs((Condition("qps", Op.AT_LEAST, 64),)))


def measurer_of(testbed: FakeTestbed, store: MemoryStore, sink: ListSink | None = None) -> Measurer:
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    return Measurer(testbed, store, bounds, Thresholds(), Budget(), sink or ListSink())


def probed(trouble: Trouble | None = None, on: SetUp = ON, times: int = 1) -> tuple[RunReading | None, list[RunRecord]]:
    """Return the last reading, and all runs."""
    testbed, store = Troubled((PLANTED,)), MemoryStore(HEADER)
    testbed.trouble = trouble or testbed.trouble
    measurer = measurer_of(testbed, store)
    readings = [probe_after(measurer, WORKLOAD, on, "confirm") for _ in range(times)]
    return readings[-1], list(store.runs())


def test_the_phases_run_in_order_on_one_set_up_and_the_last_is_judged() -> None:
    reading, records = probed()
    assert reading is not None
    assert reading.verdict.is_anomalous
    assert [record.workload for record in records] == [SMALL, LARGE, WORKLOAD]
    assert [record.purpose for record in records] == [HISTORY, HISTORY, "confirm"]
    assert [record.set_up for record in records] == [1, 1, 1]
    assert {record.made_for for record in records} == {LARGE}


def test_every_phase_of_a_history_is_announced() -> None:
    """Otherwise a progress line counts fewer phases than the summary."""
    store, sink = MemoryStore(HEADER), ListSink()
    probe_after(measurer_of(FakeTestbed((PLANTED,)), store, sink), WORKLOAD, ON, "confirm")
    assert [event.record.run for event in sink.of(RunFinished)] == [record.run for record in store.runs()]


def test_without_phases_before_it_the_set_up_is_new() -> None:
    reading, records = probed(on=SetUp(LARGE))
    assert reading is not None
    assert reading.verdict.is_normal
    assert [(record.workload, record.made_for, record.set_up) for record in records] == [(WORKLOAD, LARGE, 1)]


@pytest.mark.parametrize("on", [ON, SetUp(LARGE)])
def test_each_repetition_makes_a_new_set_up(on: SetUp) -> None:
    """The set-up that stands has had more phases than the history."""
    _, records = probed(on=on, times=2)
    phases = len(on.before) + 1
    assert [record.set_up for record in records] == [1] * phases + [1 + phases] * phases


def test_phases_that_cost_a_host_are_not_run_again() -> None:
    reading, records = probed(lambda _workload, run: HANGS if run == 2 else None, times=3)
    assert reading is not None
    assert reading.verdict.reason == "not run again: it cost host b"
    assert len(records) == 2


def test_a_sequence_that_breaks_off_begins_again_on_a_new_set_up() -> None:
    """Otherwise the last phase would follow other phases than it should."""
    reading, records = probed(lambda _workload, run: SetupFailed("qp timeout", "qp 3", 9.0) if run == 2 else None)
    assert reading is not None
    assert reading.verdict.is_anomalous
    assert [record.workload for record in records] == [SMALL, LARGE, SMALL, LARGE, WORKLOAD]
    assert [record.set_up for record in records] == [1, 1, 3, 3, 3]


def test_a_set_up_that_falls_after_its_first_phase_begins_again_and_is_inconclusive_at_last() -> None:
    def fallen(workload: Workload, run: int) -> RunResult | None:
        healthy = FakeTestbed().measure(workload, run, None, ON)
        assert isinstance(healthy, Measured)
        return replace(healthy, stands=False)

    reading, records = probed(fallen)
    assert reading is not None
    assert reading.verdict.is_inconclusive
    assert reading.verdict.reason == (
        "its phases could not be run on one set-up 3 times: phase 1 of 2 before it left no set-up to go on with"
    )
    assert [record.workload for record in records] == [SMALL] * 3


def test_a_device_that_cannot_run_a_phase_before_it_cannot_run_it() -> None:
    reading, records = probed(lambda workload, _run: Unsupported("too many", 1.0) if workload == LARGE else None)
    assert reading is None
    assert len(records) == 2


@dataclass
class Boundless(FakeTestbed):
    """A testbed without data sheet, as real hosts are."""

    def specification(self, workload: Workload) -> Bound:
        return UNBOUNDED


def test_the_plain_sibling_is_not_a_phase_after_what_the_history_left_behind() -> None:
    slow = Mfs((Condition("qps", Op.AT_LEAST, 1),))
    left = Planted(slow, Symptom.LOW_THROUGHPUT, 0.5, after=Mfs((Condition("qps", Op.AT_LEAST, 64),)))
    store = MemoryStore(HEADER)
    reading = probe_after(measurer_of(Boundless((left,)), store), WORKLOAD, ON, "confirm")
    assert reading is not None
    assert reading.verdict.symptom is Symptom.LOW_THROUGHPUT
    assert [record.made_for for record in store.runs() if record.purpose == "sibling"] == [None]


def traced(planted: Planted, symptom: Symptom = Symptom.PAUSE) -> tuple[SetUp | None, FakeTestbed]:
    """Look for the history of a workload that showed something after six phases."""
    testbed = FakeTestbed((planted,))
    measurer = measurer_of(testbed, MemoryStore(HEADER))
    (lane,) = measurer.lanes
    on = SetUp(LARGE, (SMALL, SMALL, LARGE, WORKLOAD, SMALL, WORKLOAD))
    task = tracing(measurer, lane, WORKLOAD, on, "confirm", symptom)
    return measurer.scheduler.drive({lane: task})[lane], testbed


def test_the_history_of_a_suspicion_is_its_fewest_phases() -> None:
    assert traced(PLANTED)[0] == SetUp(LARGE, (LARGE,))
    assert traced(Planted(MANY_SGES))[0] == SetUp(LARGE)


def test_what_shows_after_nothing_or_as_another_symptom_has_no_history() -> None:
    found, testbed = traced(Planted(MANY_SGES, shows=0.0))
    assert found is None
    assert testbed.runs == 7, "the whole history is asked once"
    assert traced(PLANTED, Symptom.LOSS)[0] is None


@pytest.mark.parametrize("number", [2, 3])
def test_a_set_up_that_had_to_be_made_anew_breaks_the_sequence_off(number: int) -> None:
    """Its run would tell what the workload does alone, and pass for one after its history."""

    def gone(workload: Workload, run: int) -> RunResult | None:
        alone = FakeTestbed().measure(workload, run, None, SetUp(LARGE))
        assert isinstance(alone, Measured)
        return replace(alone, anew=True) if run == number else None

    reading, records = probed(gone)
    assert reading is not None
    assert reading.verdict.is_anomalous, "the sequence was run again"
    assert [record.set_up for record in records] == [*[1] * (number - 1), number, *[number + 1] * 3]
    assert len(records) == number + 3
