"""Diagnoses of planted anomalies: the dimensions that cure, the cheapest change, causes behind each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from collie.app.diagnoses import drive
from collie.campaign.diagnose import Diagnosis, changed_values
from collie.campaign.single_run import SingleRunSession
from collie.campaign.suspected_set import suspected_set
from collie.content.spaces import load_space
from collie.detect.bounds import Calibration
from collie.detect.measurement import Watch
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.ports import RunResult
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.diagnoses import at_least, diagnosed
from tests.support.extractions import planted_at
from tests.support.planted import HEADER, LOOPBACK, SPACE

PLAIN = SPACE.base


def curing(found: Diagnosis) -> list[str]:
    return [change.dimension for change in found.changes if change.cures]


def test_a_normal_workload_has_nothing_to_change() -> None:
    found, _ = diagnosed(PLAIN.with_(qps=512), Planted(LOOPBACK))
    assert not found.is_anomalous
    assert found.changes == ()
    assert found.advised is None


def test_each_condition_of_the_anomaly_cures_and_nothing_else_does() -> None:
    mfs = at_least(qps=64, wqe_batch=16)
    found, _ = diagnosed(PLAIN.with_(qps=512, wqe_batch=64, sge_count=4), Planted(mfs), every=True)
    assert set(curing(found)) == {"qps", "wqe_batch"}
    assert {change.dimension for change in found.changes} == {"qps", "wqe_batch", "sge_count"}
    assert set(suspected_set(found, SPACE).conditions) == set(at_least(qps=512, wqe_batch=64).conditions)


@pytest.mark.parametrize("needs", [8, 32, 64])
def test_the_advice_is_the_smallest_value_that_was_normal(needs: int) -> None:
    found, ran = diagnosed(PLAIN.with_(wqe_batch=128), Planted(at_least(wqe_batch=needs)))
    assert found.advised is not None
    assert found.changes[0] is found.advised
    now = found.advised.run.workload.wqe_batch
    tried = {workload.wqe_batch for workload in ran}
    assert now == max(value for value in tried if value < needs)
    assert found.advised.run.verdict is not None
    assert found.advised.run.verdict.is_normal


def test_a_dimension_of_the_set_up_is_tried_when_no_traffic_cures() -> None:
    mtu = Mfs((Condition("mtu", Op.AT_MOST, 1024),))
    found, _ = diagnosed(PLAIN.with_(mtu=512, qps=64), Planted(mtu))
    assert found.advised is not None
    assert found.advised.dimension == "mtu"
    assert found.advised.run.workload.mtu > 1024


def test_a_condition_that_plain_traffic_satisfies_is_found_beyond_it() -> None:
    one_by_one = Mfs((Condition("wqe_batch", Op.AT_MOST, 1),))
    found, _ = diagnosed(PLAIN.with_(qps=64), Planted(one_by_one))
    assert found.advised is not None
    assert found.advised.dimension == "wqe_batch"
    assert found.advised.run.workload.wqe_batch > 1


def test_of_two_causes_the_change_that_helps_most_is_kept() -> None:
    many = Planted(at_least(qps=64), severity=0.5)
    found, _ = diagnosed(PLAIN.with_(loopback=True, qps=512), many, Planted(LOOPBACK, severity=0.1))
    (kept,) = found.kept
    assert kept.dimension == "qps"
    assert not kept.cures
    assert found.advised is not None
    assert found.advised.dimension == "loopback"
    assert (found.advised.run.workload.qps, found.advised.run.workload.loopback) == (kept.run.workload.qps, False)


def test_what_nothing_cures_has_no_advice() -> None:
    found, _ = diagnosed(PLAIN.with_(qps=64), Planted(Mfs((Condition("mtu", Op.AT_LEAST, 256),))))
    assert found.is_anomalous
    assert found.advised is None


def test_a_cure_is_measured_again_on_another_set_up() -> None:
    store = MemoryStore(HEADER)
    testbed = FakeTestbed([Planted(LOOPBACK)])
    session = SingleRunSession(testbed, store, SPACE, Thresholds(), Calibration(), ListSink())
    found = drive(session, PLAIN.with_(loopback=True, qps=64))
    assert found.advised is not None
    runs = [record for record in store.runs() if record.workload == found.advised.run.workload]
    assert len({record.set_up for record in runs}) == 2


def test_what_must_follow_a_change_is_named() -> None:
    split = PLAIN.with_(sge_count=4, sge_split=(128,), messages=(1 << 20,), mr_bytes=1 << 22)
    found, _ = diagnosed(split, Planted(at_least(sge_count=3)))
    change = next(each for each in found.changes if each.dimension == "sge_count" and each.cures)
    values = changed_values(split, change)
    assert next(iter(values)) == "sge_count"
    assert all(before != after for before, after in values.values())
    assert SPACE.allows(change.run.workload)


def test_a_low_throughput_is_judged_by_siblings_that_run_after_the_phases() -> None:
    slow = Planted(at_least(qps=64), symptom=Symptom.LOW_THROUGHPUT, severity=0.6)
    found, ran = diagnosed(PLAIN.with_(qps=512, wqe_batch=16), slow)
    assert found.advised is not None
    assert found.advised.dimension == "qps"
    assert ran[0] == PLAIN.with_(qps=512, wqe_batch=16)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_advised_workload_is_healthy_and_one_change_away(seed: int) -> None:
    mfs, workload = planted_at(seed)
    found, _ = diagnosed(workload, Planted(mfs))
    assert found.is_anomalous
    if found.advised is None:
        return
    after = found.advised.run.workload
    assert not mfs.covers(after)
    assert SPACE.allows(after)
    assert set(changed_values(workload, found.advised)) == _differing(workload, after) or found.kept


def _differing(one: Workload, other: Workload) -> set[str]:
    return {name for name in SPACE.dimensions if one.get(name) != other.get(name)}


def test_dimensions_that_cure_are_listed_cheapest_first() -> None:
    mfs = at_least(qps=512, wqe_batch=4, sge_count=2)
    found, _ = diagnosed(PLAIN.with_(qps=768, wqe_batch=128, sge_count=8), Planted(mfs), every=True)
    cures = [change for change in found.changes if change.cures]
    assert len({change.dimension for change in cures}) == len(cures) == 3
    assert cures[0] is found.advised
    assert [change.steps for change in cures[1:]] == sorted(change.steps for change in cures[1:])


def test_changes_dearer_than_one_that_cures_are_left_out_unless_every_one_is_wanted() -> None:
    workload = PLAIN.with_(qps=2048, wqe_batch=8, loopback=True)
    planted = Planted(at_least(qps=64, wqe_batch=4))
    found, ran = diagnosed(workload, planted)
    assert found.advised is not None
    assert found.advised.dimension == "wqe_batch"
    assert "qps" in found.untried
    tried = {change.dimension for change in found.changes}
    assert tried.isdisjoint(found.untried)
    every, all_ran = diagnosed(workload, planted, every=True)
    assert every.untried == ()
    assert {change.dimension for change in every.changes} == tried | set(found.untried)
    assert every.advised is not None
    assert every.advised.run.workload == found.advised.run.workload  # the cheapest change is the same
    assert {each.qps for each in ran} == {2048}
    assert len({each.qps for each in all_ran} - {2048, PLAIN.qps}) > 0, "smaller steps of the others are tried, too"


@pytest.mark.parametrize("needs", [64, 320, 1536, 2048])
def test_every_change_finds_the_smallest_step_of_each_dimension_that_cures(needs: int) -> None:
    ladder = SPACE.dimensions["qps"].candidates()
    found, _ = diagnosed(PLAIN.with_(qps=2048, wqe_batch=8), Planted(at_least(qps=needs, wqe_batch=4)), every=True)
    advice = {change.dimension: change.run.workload for change in found.changes if change.cures}
    assert advice["qps"].qps == max(value for value in ladder if value < needs)


def test_what_was_left_out_for_its_set_up_is_told_apart() -> None:
    workload = PLAIN.with_(qps=2048, wqe_batch=8, loopback=True, mtu=1024)
    found, _ = diagnosed(workload, Planted(at_least(qps=64, wqe_batch=4)))
    assert {"qps", "mtu"} <= set(found.untried)
    assert found.untried_apart == ("mtu",)


def test_a_change_that_took_fewer_steps_than_the_advised_one_is_named() -> None:
    """The switch is expected to cost less than half of the ladder, and turns out to be dearer than one step."""
    workload = PLAIN.with_(qps=320, loopback=True)
    found, _ = diagnosed(workload, Planted(Mfs((*LOOPBACK.conditions, *at_least(qps=240).conditions))), every=True)
    assert found.advised is not None
    assert found.advised.dimension == "loopback"
    assert found.cheaper is not None
    assert (found.cheaper.dimension, found.cheaper.cures) == ("qps", True)
    assert found.cheaper.steps < found.advised.steps
    dear, _ = diagnosed(workload, Planted(Mfs((*LOOPBACK.conditions, *at_least(qps=64).conditions))), every=True)
    assert dear.cheaper is None


@pytest.mark.parametrize("every", [False, True])
def test_more_load_is_never_tried(every: bool) -> None:
    space = load_space("offered-load")
    light = space.base.with_(offered_bps=2_000_000_000, qps=512, loopback=True)
    found, ran = diagnosed(light, Planted(at_least(qps=1)), every=every, space=space)
    assert found.is_anomalous
    assert len(found.changes) > 3
    assert {each.offered_bps for each in ran} <= {1_000_000_000, 2_000_000_000}


def test_a_change_helps_if_it_leaves_clearly_less() -> None:
    two = (Planted(at_least(qps=64), severity=0.5), Planted(LOOPBACK, severity=0.45))
    found, _ = diagnosed(PLAIN.with_(qps=512, loopback=True), *two)
    (little,) = found.kept
    assert little.run.verdict is not None
    much = replace(little, run=replace(little.run, verdict=replace(little.run.verdict, severity=0.25)))
    alone = replace(found, kept=())
    assert (little.severity, alone.helps(little), alone.helps(much)) == (0.45, False, True)


class Restless(FakeTestbed):
    """A testbed whose severities differ a little from run to run, whatever changes."""

    runs = 0

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        self.runs += 1
        self.planted = [Planted(at_least(qps=1), severity=0.5 - 0.001 * (self.runs % 10))]
        return super().measure(workload, run, watch, on)


def test_what_a_repeated_run_differs_by_is_no_help() -> None:
    testbed = Restless()
    session = SingleRunSession(testbed, MemoryStore(HEADER), SPACE, Thresholds(), Calibration(), ListSink())
    found = drive(session, PLAIN.with_(qps=512, loopback=True))
    assert found.is_anomalous
    assert testbed.runs > 5
    assert found.kept == ()


class Lucky(FakeTestbed):
    """A testbed on which the first run of a plain batch is healthy, whatever is planted."""

    lucky = False

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        result = super().measure(workload, run, watch, on)
        if workload.wqe_batch != PLAIN.wqe_batch or self.lucky:
            return result
        self.lucky = True
        return FakeTestbed().measure(workload, run, watch, on)


def test_a_cure_that_does_not_cure_again_is_followed_by_the_changes_that_were_left_out() -> None:
    testbed = Lucky([Planted(LOOPBACK)])
    session = SingleRunSession(testbed, MemoryStore(HEADER), SPACE, Thresholds(), Calibration(), ListSink())
    found = drive(session, PLAIN.with_(loopback=True, wqe_batch=2))
    assert testbed.lucky
    assert found.advised is not None
    assert found.advised.dimension == "loopback"
    assert found.untried == ()
    batch = next(change for change in found.changes if change.dimension == "wqe_batch")
    assert not batch.cures, "its second run is the one that is told"


def test_whether_the_advice_itself_ran_twice_is_said() -> None:
    twice, _ = diagnosed(PLAIN.with_(loopback=True), Planted(LOOPBACK))
    once, _ = diagnosed(PLAIN.with_(wqe_batch=128), Planted(at_least(wqe_batch=64)))
    assert (twice.repeated, once.repeated) == (True, False)
