"""Workloads whose plain siblings are as late, because a link is slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from collie.campaign.calibrate import plain_load, plan
from collie.campaign.single_run import SingleRunSession
from collie.content.spaces import load_space
from collie.detect.bounds import Calibration
from collie.detect.measurement import GeneratorHealth, Measurement
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Loss, Thresholds
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Opcode, Workload
from tests.support.planted import HEADER

SPACE = load_space("offered-load")
LATE = Thresholds(latency_seconds=5e-6)
SLOW_NETWORK = Planted(Mfs((Condition("qps", Op.AT_LEAST, 1),)), Symptom.LATENCY, severity=0.8)
MANY = SPACE.base.with_(sge_count=16)
NONE = Calibration()
LOAD = SPACE.base.with_(messages=(4096,), wqe_batch=1)


def session(
    testbed: FakeTestbed,
    calibration: Calibration = NONE,
    thresholds: Thresholds = LATE,
) -> SingleRunSession:
    return SingleRunSession(testbed, MemoryStore(HEADER), SPACE, thresholds, calibration, ListSink())


def calibrated(testbed: FakeTestbed | None = None) -> Calibration:
    return session(testbed or FakeTestbed()).calibrate(2, sizes=(4096,), opcodes=(Opcode.WRITE,))


class Hogged(FakeTestbed):
    """A testbed on which other processes take the CPU."""

    def _measurement(self, workload: Workload, observed: Planted | None, rng: Random) -> Measurement:
        health = GeneratorHealth(driven=False, reason="host b: other processes took 80% of a CPU")
        return replace(super()._measurement(workload, observed, rng), health=health)


def test_a_calibration_times_the_links_at_the_plain_load_and_fills_the_queues_for_ceilings() -> None:
    found = calibrated()
    assert [(link.link, link.workload) for link in found.links] == [("a-b", LOAD)]
    assert all(workload.offered_bps == 0 for workload in plan(SPACE))
    assert {point.bps for point in found.points} == {100e9}


def test_all_receivers_of_a_group_are_timed() -> None:
    space = load_space("soft-roce-load")
    load = plain_load(space)
    assert load is not None
    assert (load.responders, load.messages, load.wqe_batch) == (3, (4096,), 1)
    assert load.offered_bps == space.base.offered_bps
    assert plain_load(load_space("soft-roce")) is None


def test_a_disturbed_calibration_keeps_no_links() -> None:
    assert calibrated(Hogged()).links == ()


@pytest.mark.parametrize("workload", [LOAD, SPACE.base, MANY, MANY.with_(opcode=Opcode.READ)])
def test_a_run_that_is_as_late_as_its_sibling_names_the_link(workload: Workload) -> None:
    verdict = session(FakeTestbed([SLOW_NETWORK]), calibrated()).measure(workload).verdict
    assert verdict is not None
    assert verdict.symptom is Symptom.LATENCY
    assert "link a-b is slow" in verdict.reason
    assert ("the plain sibling is as late" in verdict.reason) == (workload != LOAD)


@pytest.mark.parametrize("planted", [(), (Planted(Mfs((Condition("sge_count", Op.AT_LEAST, 8),)), Symptom.LATENCY),)])
def test_healthy_links_change_no_verdict(planted: Sequence[Planted]) -> None:
    before = session(FakeTestbed(planted)).measure(MANY).verdict
    assert session(FakeTestbed(planted), calibrated()).measure(MANY).verdict == before


def test_without_a_calibration_a_slow_network_is_normal() -> None:
    verdict = session(FakeTestbed([SLOW_NETWORK])).measure(MANY).verdict
    assert verdict is not None
    assert verdict.is_normal


@pytest.mark.parametrize("workload", [LOAD, MANY])
def test_late_hosts_without_cpu_blame_no_link(workload: Workload) -> None:
    verdict = session(Hogged([SLOW_NETWORK]), calibrated()).measure(workload).verdict
    assert verdict is not None
    assert verdict.is_inconclusive
    assert "other processes took 80% of a CPU" in verdict.reason


def test_the_links_are_timed_once_in_a_while() -> None:
    testbed = FakeTestbed()
    opened = session(testbed, calibrated())
    for size in (1024, 2048, 8192):
        opened.measure(MANY.with_(messages=(size,)))
    assert testbed.measured.count(LOAD) == 1
    testbed.run_seconds = 700.0
    opened.measure(MANY.with_(messages=(16384,)))
    assert testbed.measured.count(LOAD) == 2


def test_a_victim_is_not_judged_by_links() -> None:
    thresholds = replace(LATE, loss_of=Loss.OF_VICTIM)
    verdict = session(FakeTestbed([SLOW_NETWORK], victim=True), calibrated(), thresholds).measure(LOAD).verdict
    assert verdict is not None
    assert verdict.is_normal
