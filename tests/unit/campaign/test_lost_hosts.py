"""What cost a host is not run again, whatever asks for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.calibrate import calibrate
from collie.campaign.measure import Measurer
from collie.campaign.proposals import Proposals
from collie.campaign.single_run import Case
from collie.campaign.transfer import PURPOSE
from collie.detect.bounds import Bounds, Calibration
from collie.detect.plain import plain_sibling
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.errors import TestbedError
from collie.ports import SetupFailed
from collie.search.anomaly import KnownAnomalies
from collie.search.foreseen import ForeseenAnomaly
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.explained import explained_search
from tests.support.planted import HEADER, LOOPBACK, MANY_SGES, SPACE
from tests.support.scripted import Scripted
from tests.support.searches import CASE, RANDOM, bench, search
from tests.support.troubled import HANGS, Troubled

PLAIN = SPACE.base
SLOW = Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5)


def costing_a_host(deadly: Workload, planted: tuple[Planted, ...] = ()) -> Troubled:
    """Return a testbed that loses a host to this workload."""
    return Troubled(planted, trouble=lambda workload, _run: HANGS if workload == deadly else None)


def measurer_of(testbed: FakeTestbed) -> Measurer:
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    return Measurer(testbed, MemoryStore(HEADER), bounds, Thresholds(), Budget(), ListSink())


def test_a_plain_sibling_bounds_nothing_then() -> None:
    workloads = [PLAIN.with_(sge_count=count) for count in (8, 12, 16)]
    sibling = plain_sibling(workloads[0], SPACE)
    testbed = costing_a_host(sibling, planted=(SLOW,))
    measurer = measurer_of(testbed)
    for workload in workloads:
        _, verdict = measurer.judged(workload, "search")
        assert verdict is not None
        assert verdict.reason == "no bound is known: the plain sibling cost host b: it hangs"
    assert testbed.measured.count(sibling) == 1


def test_a_plain_sibling_that_was_run_for_itself_is_not_run_as_a_sibling() -> None:
    workload = PLAIN.with_(sge_count=8)
    sibling = plain_sibling(workload, SPACE)
    testbed = costing_a_host(sibling, planted=(SLOW,))
    measurer = measurer_of(testbed)
    measurer.judged(sibling, "search")
    _, verdict = measurer.judged(workload, "search")
    assert verdict is not None
    assert verdict.reason == "no bound is known: the plain sibling cost host b: it hangs"
    assert testbed.measured == [sibling, workload]


def test_a_calibration_leaves_out_what_a_comparison_of_pairs_lost() -> None:
    testbed = costing_a_host(PLAIN)
    measurer = measurer_of(testbed)
    measurer.judged(PLAIN, "qualify")
    assert not calibrate(measurer, [PLAIN], repeats=2).points
    assert testbed.measured == [PLAIN]


@pytest.mark.parametrize("on", [None, SetUp(CASE.workload, (PLAIN.with_(qps=2),))], ids=["alone", "after a phase"])
def test_a_reproduction_runs_it_once_and_its_plain_sibling_as_well(on: SetUp | None) -> None:
    deadly = on.before[0] if on is not None else CASE.workload
    testbed = costing_a_host(deadly)
    case = Case("case", CASE.workload, CASE.symptom, MANY_SGES, on=on)
    found = bench(testbed).reproduce(case, repeat=4, controls=False)
    assert {verdict.reason for verdict in found.trial.verdicts} == {"not run again: it cost host b"}
    assert testbed.measured == [plain_sibling(CASE.workload, SPACE), deadly]


def test_a_proposal_that_cost_a_host_in_its_confirmation_is_refused() -> None:
    deadly, other = PLAIN.with_(loopback=True, qps=64), PLAIN.with_(mtu=1024)
    explained = explained_search(costing_a_host(deadly, planted=(Planted(LOOPBACK),)))
    explained.measurer.judged(deadly, "confirm")
    strategy = Scripted([deadly, other])
    # An explanation covers it, and an audit of that is due.
    known = KnownAnomalies((LOOPBACK,))
    recipe = replace(RANDOM, audits=2)
    proposals = Proposals(strategy, SPACE, recipe, known, explained.loop._triage, explained.measurer)
    assert proposals.first() is None
    assert strategy.told == [deadly]
    following = proposals.first()
    assert following is not None
    assert following.workload == other


def test_it_is_not_drawn_for_an_audit() -> None:
    testbed = Troubled((Planted(LOOPBACK),))
    explained = explained_search(testbed)
    drawn = explained.loop._audits.draw(explained.confirmed)
    testbed.trouble = lambda workload, _run: HANGS if workload == drawn else None
    assert drawn is not None
    explained.measurer.judged(drawn, "confirm")
    assert explained.loop._audits.draw(explained.confirmed) not in (None, drawn)


def test_a_known_anomaly_is_not_looked_for_with_it() -> None:
    deadly = PLAIN.with_(loopback=True)
    known = [ForeseenAnomaly(name, LOOPBACK, (deadly,)) for name in ("a1", "a2")]
    store = MemoryStore(HEADER)
    search(costing_a_host(deadly), foreseen=tuple(known), store=store, budget=Budget(runs=40))
    runs = [run for run in store.runs() if run.workload == deadly]
    assert [run.purpose for run in runs] == [PURPOSE]


def test_a_pair_whose_set_ups_fail_is_not_tested_with_it() -> None:
    """It could run this workload before, so it would take it for a control."""
    measured = PLAIN.with_(qps=2)
    fails = SetupFailed("qp timeout", "qp 3", 9.0)
    testbed = Troubled(trouble=lambda workload, run: (HANGS if workload == measured else fails) if run > 1 else None)
    measurer = measurer_of(testbed)
    measurer.judged(measured, "search")
    measurer.judged(measured, "search")
    for mtu in (256, 512, 1024, 2048, 4096):
        measurer.judged(PLAIN.with_(qps=64, mtu=mtu), "search")
    (lane,) = measurer.lanes
    with pytest.raises(TestbedError, match="and so did plain traffic"):
        measurer.scheduler.drive({lane: measurer.require_working(lane)})
    assert testbed.measured.count(measured) == 2


def test_a_pair_without_a_control_is_kept() -> None:
    fails = SetupFailed("qp timeout", "qp 3", 9.0)
    failing = [PLAIN.with_(qps=64, mtu=mtu) for mtu in (256, 512, 1024, 2048, 4096)]
    sibling = plain_sibling(failing[0], SPACE)
    testbed = Troubled(trouble=lambda workload, _run: HANGS if workload == sibling else fails)
    measurer = measurer_of(testbed)
    for workload in (sibling, *failing):
        measurer.judged(workload, "search")
    (lane,) = measurer.lanes
    measurer.scheduler.drive({lane: measurer.require_working(lane)})
    assert not lane.failed
    assert testbed.measured == [sibling, *failing]
