"""The plain traffic that is measured for the verdict on a run."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from collie.campaign.budget import Budget
from collie.campaign.measure import Measurer
from collie.campaign.single_run import SingleRunSession
from collie.content.spaces import load_space
from collie.detect.bounds import UNBOUNDED, Bound, Bounds, Calibration
from collie.detect.measurement import GeneratorHealth, Measurement
from collie.detect.plain import curve_of, plain_sibling
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Loss, Thresholds
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload
from tests.support.planted import HEADER, MANY_SGES, SPACE

OFFERED = load_space("offered-load")
SINGLY = Mfs((Condition("wqe_batch", Op.AT_MOST, 1),))


def test_at_an_offered_load_what_plain_traffic_in_plain_batches_lacks_is_no_loss() -> None:
    """Its batch lets a sibling carry more, so a workload that lacks throughput against it is compared with both."""
    slow = tuple(Planted(mfs, Symptom.LOW_THROUGHPUT, 0.5) for mfs in (SINGLY, MANY_SGES))
    batched = OFFERED.base.with_(sge_count=16, wqe_batch=16)
    singly = plain_sibling(batched.with_(wqe_batch=1), OFFERED)
    testbed = FakeTestbed(slow)
    session = SingleRunSession(testbed, MemoryStore(HEADER), OFFERED, Thresholds(), Calibration(), ListSink())
    for _ in range(2):
        verdict = session.judge(batched).verdict
        assert verdict is not None
        assert verdict.is_normal
    assert testbed.measured.count(singly) == 1
    lone = FakeTestbed(slow[1:])
    session = SingleRunSession(lone, MemoryStore(HEADER), OFFERED, Thresholds(), Calibration(), ListSink())
    for _ in range(2):
        verdict = session.judge(batched).verdict
        assert verdict is not None
        assert verdict.symptom is Symptom.LOW_THROUGHPUT
    assert lone.measured.count(singly) == 1


def test_what_the_cpu_time_of_control_verbs_costs_is_no_loss() -> None:
    busy = Mfs((Condition("new_mrs_per_second", Op.AT_LEAST, 1000),))
    real = Mfs((*busy.conditions, Condition("control_verbs_imitated", Op.EQUAL, False)))
    space = load_space("control-verbs")
    making = space.base.with_(new_mrs_per_second=1000)
    imitating = making.with_(control_verbs_imitated=True)
    for conditions, is_normal in ((busy, True), (real, False)):
        testbed = FakeTestbed((Planted(conditions, Symptom.LOW_THROUGHPUT, 0.5),))
        session = SingleRunSession(testbed, MemoryStore(HEADER), space, Thresholds(), Calibration(), ListSink())
        for _ in range(2):
            verdict = session.judge(making).verdict
            assert verdict is not None
            assert verdict.is_normal is is_normal
        assert testbed.measured.count(imitating) == 1
        assert testbed.measured.count(plain_sibling(making, space)) == 1


def test_without_a_sound_imitation_no_bound_is_known_and_it_is_not_tried_again() -> None:
    busy = Mfs((Condition("new_mrs_per_second", Op.AT_LEAST, 1000),))
    imitated = Mfs((Condition("control_verbs_imitated", Op.EQUAL, True),))
    space = load_space("control-verbs")
    making = space.base.with_(new_mrs_per_second=1000)
    planted = (Planted(imitated, Symptom.PAUSE, 0.5), Planted(busy, Symptom.LOW_THROUGHPUT, 0.5))
    testbed = FakeTestbed(planted)
    session = SingleRunSession(testbed, MemoryStore(HEADER), space, Thresholds(), Calibration(), ListSink())
    for _ in range(2):
        verdict = session.judge(making).verdict
        assert verdict is not None
        assert verdict.is_inconclusive
        assert "no bound is known: plain traffic with imitated control verbs is itself anomalous" in verdict.reason
    assert testbed.measured.count(making.with_(control_verbs_imitated=True)) == 3


def test_a_run_needs_its_own_sibling_once_plain_batches_show_that_like_siblings_do_not_decide() -> None:
    slow = tuple(Planted(mfs, Symptom.LOW_THROUGHPUT, 0.5) for mfs in (SINGLY, MANY_SGES))
    testbed = FakeTestbed(slow)
    bounds = Bounds(testbed.specification, Calibration(), OFFERED)
    measurer = Measurer(testbed, MemoryStore(HEADER), bounds, Thresholds(), Budget(), ListSink())
    batched = OFFERED.base.with_(sge_count=16, wqe_batch=16)
    fewer = plain_sibling(batched, OFFERED).with_(qps=1)
    bounds.learn(fewer, {"b": bounds.ceiling(fewer)})
    _, verdict = measurer.judged(batched, "extract")
    assert verdict is not None
    assert verdict.is_normal
    assert testbed.measured[0] == batched
    assert testbed.measured.count(plain_sibling(batched, OFFERED)) == 1


class Unsteady(FakeTestbed):
    """Hosts without a data sheet whose plain traffic never holds one level, so that it bounds nothing."""

    def specification(self, workload: Workload) -> Bound:
        return UNBOUNDED

    def _measurement(self, workload: Workload, displayed: Planted | None, rng: Random) -> Measurement:
        return replace(FakeTestbed()._measurement(workload, displayed, rng), stable=workload.sge_count > 1)


def test_a_curve_that_tells_nothing_is_measured_once() -> None:
    """Each question of an explanation would repeat it, for tens of runs."""
    testbed = Unsteady()
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    measurer = Measurer(testbed, MemoryStore(HEADER), bounds, Thresholds(), Budget(), ListSink(), phases=8)
    lists = SPACE.base.with_(sge_count=2)
    curve = curve_of(plain_sibling(lists, SPACE), SPACE)
    for qps in (1, 2):
        _, verdict = measurer.judged(lists.with_(qps=qps), "extract")
        assert verdict is not None
        assert verdict.is_inconclusive
    once = [plain for plain in curve if plain not in {plain_sibling(lists.with_(qps=qps), SPACE) for qps in (1, 2)}]
    assert len(once) > 4
    assert {testbed.measured.count(plain) for plain in once} == {1}


class Overloaded(FakeTestbed):
    """Hosts that cannot post the plain load, and carry the load of chains of two."""

    starved = False

    def _measurement(self, workload: Workload, displayed: Planted | None, rng: Random) -> Measurement:
        health = GeneratorHealth(driven=workload.sge_count > 1, reason="the load was 20% off", starved=self.starved)
        return replace(super()._measurement(workload, displayed, rng), health=health)


@pytest.mark.parametrize(("starved", "tries"), [(False, 3), (True, 6)])
def test_a_victim_beside_plain_traffic_that_cannot_be_driven_bounds_nothing(*, starved: bool, tries: int) -> None:
    """What another process costs can be over the next time, so it is tried again."""
    aggressor = OFFERED.base.with_(sge_count=16)
    testbed = Overloaded((Planted(MANY_SGES, Symptom.VICTIM_LOSS, 0.5),), victim=True)
    testbed.starved = starved
    thresholds = Thresholds(loss_of=Loss.OF_VICTIM)
    session = SingleRunSession(testbed, MemoryStore(HEADER), OFFERED, thresholds, Calibration(), ListSink())
    for _ in range(2):
        verdict = session.judge(aggressor).verdict
        assert verdict is not None
        assert verdict.is_inconclusive
        assert verdict.reason.startswith("no bound is known: the plain sibling could not be driven: the load was 20%")
    assert testbed.measured.count(plain_sibling(aggressor, OFFERED)) == tries
