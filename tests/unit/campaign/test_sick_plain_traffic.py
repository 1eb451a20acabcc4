"""Campaigns on testbeds whose plain traffic is itself anomalous."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.campaign.budget import Budget
from collie.campaign.events import AnomalyConfirmed, AnomalyExplained, RunFinished
from collie.campaign.measure import Measurer
from collie.campaign.run import Campaign
from collie.content.catalogs import load_catalog
from collie.content.recipes import load_recipe
from collie.content.subsystems import load_subsystem
from collie.detect.bounds import Bounds, Calibration
from collie.detect.plain import plain_sibling
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.search.anomaly import Anomaly
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed
from collie.simulator.truth import Truth
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import Space
from collie.workloads.workload import QpType
from tests.support.planted import HEADER, SPACE
from tests.support.searches import RANDOM

SUBSYSTEMS = Path(__file__).parents[2] / "data" / "subsystems"
UD = SPACE.narrowed({"qp_type": QpType.UD}, {})
PLAIN = Mfs(
    (
        Condition("sge_count", Op.AT_MOST, 1),
        Condition("mrs_per_qp", Op.AT_MOST, 1),
        Condition("wqe_batch", Op.AT_MOST, 1),
        Condition("direction", Op.EQUAL, "unidirectional"),
        Condition("loopback", Op.EQUAL, False),
    )
)
"""Covers every plain sibling and hardly any random workload."""
NO_CEILINGS = Calibration()
MANY_SGES = Mfs((Condition("sge_count", Op.AT_LEAST, 6),))


def searched(
    testbed: FakeTestbed, space: Space = UD, runs: int = 80, calibration: Calibration | None = NO_CEILINGS
) -> ListSink:
    sink = ListSink()
    Campaign(testbed, MemoryStore(HEADER), space, RANDOM, Budget(runs=runs), 1, (), calibration).run(sink)
    return sink


def found(sink: ListSink) -> list[Anomaly]:
    return [event.anomaly for event in sink.of(AnomalyConfirmed)]


def is_plain(anomaly: Anomaly) -> bool:
    workload, base = anomaly.found_as, SPACE.base
    kept = {name: workload.get(name) for name in ("qp_type", "opcode", "messages", "mr_bytes", "mtu")}
    return workload == base.with_(**kept, qps=workload.qps, send_wq_depth=workload.send_wq_depth)


def test_a_sick_sibling_is_the_find_and_not_the_workload_that_asked_for_it() -> None:
    sink = searched(FakeTestbed((Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5), Planted(PLAIN))))
    (first, *_) = anomalies = found(sink)
    assert is_plain(first)
    assert first.symptom is Symptom.PAUSE
    assert len(anomalies) == 1
    purposes = {event.record.run: event.record.purpose for event in sink.of(RunFinished)}
    assert purposes[first.found_at_run] == "sibling"
    reasons = [event.verdict.reason for event in sink.of(RunFinished) if event.verdict is not None]
    assert any(reason.startswith("no bound is known: the plain sibling is itself anomalous") for reason in reasons)


def test_a_sick_sibling_comes_before_a_suspicion_that_needed_no_bound() -> None:
    sink = searched(FakeTestbed((Planted(MANY_SGES), Planted(PLAIN, severity=0.3))))
    first = found(sink)[0]
    assert is_plain(first)
    suspected = next(
        event for event in sink.of(RunFinished) if event.verdict is not None and event.verdict.is_anomalous
    )
    assert suspected.record.run < first.found_at_run


def test_a_suspicion_that_waits_for_its_sick_sibling_is_confirmed_afterwards() -> None:
    """The sibling turns out to be sick when the suspicion is taken up, and shows another symptom."""
    testbed = FakeTestbed((Planted(MANY_SGES, Symptom.COMPLETION_ERRORS), Planted(PLAIN, severity=0.3)))
    first, second, *_ = found(searched(testbed))
    assert (first.symptom, is_plain(first)) == (Symptom.PAUSE, True)
    assert second.symptom is Symptom.COMPLETION_ERRORS
    assert second.found_at_run < first.found_at_run


def test_a_sibling_outside_the_space_is_no_suspicion() -> None:
    space = UD.narrowed({"sge_count": 8}, {})
    sink = searched(FakeTestbed((Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5), Planted(PLAIN))), space)
    assert found(sink) == []


def test_plain_traffic_that_its_calibration_shows_to_be_sick_is_the_first_find() -> None:
    sink = searched(FakeTestbed((Planted(PLAIN),)), calibration=None)
    (first,) = found(sink)
    assert is_plain(first)
    assert first.found_as.qp_type is QpType.UD
    purposes = {event.record.run: event.record.purpose for event in sink.of(RunFinished)}
    assert purposes[first.found_at_run] == "calibrate"


def test_calibration_runs_that_were_disturbed_now_and_then_are_no_find() -> None:
    sink = searched(FakeTestbed((Planted(PLAIN, shows=0.3),)), runs=40, calibration=None)
    assert any(event.record.purpose == "search" for event in sink.of(RunFinished))
    assert found(sink) == []


def guided(file: SubsystemFile, runs: int, seed: int = 3) -> ListSink:
    sink = ListSink()
    testbed = SimulatedTestbed(file, load_catalog("simulated"), seed=seed)
    store, budget = MemoryStore(HEADER), Budget(runs=runs)
    Campaign(testbed, store, SPACE, load_recipe("guided"), budget, seed, (), NO_CEILINGS).run(sink)
    return sink


@pytest.mark.parametrize("name", ["sick-datagrams", "sick-doorbells", "sick-reads", "sick-sends", "slow-reads"])
def test_the_default_search_names_sick_plain_traffic_first(name: str) -> None:
    file = load_subsystem(str(SUBSYSTEMS / f"{name}.yaml"), SubsystemFile)
    first, truth = found(guided(file, 40))[0], Truth(file, SPACE)
    assert is_plain(first)
    assert first.is_plain
    assert first.found_at_run < 30
    assert truth.verdict(first.workload).is_anomalous
    assert truth.mechanism(first.workload) is file.witnesses[0].mechanism


@pytest.mark.parametrize("name", ["sick-datagrams", "sick-sends"])
def test_what_plain_traffic_shows_is_explained_before_the_rest(name: str) -> None:
    sink = guided(load_subsystem(str(SUBSYSTEMS / f"{name}.yaml"), SubsystemFile), 160, seed=136)
    first, *_ = sink.of(AnomalyExplained)
    assert first.anomaly.id == found(sink)[0].id


def test_an_explained_anomaly_is_plain_if_its_simplest_workload_is() -> None:
    sink = guided(load_subsystem(str(SUBSYSTEMS / "sick-doorbells.yaml"), SubsystemFile), 250)
    explained = [event.anomaly for event in sink.of(AnomalyExplained)]
    plain = {anomaly.id: plain_sibling(anomaly.workload, SPACE) == anomaly.workload for anomaly in explained}
    assert set(plain.values()) == {True, False}
    assert {anomaly.id: anomaly.is_plain for anomaly in explained} == plain


def test_plain_traffic_that_was_distrusted_keeps_the_reason_after_a_sound_run() -> None:
    """A sound run does not make it a reference, and does not show that it is merely slow."""
    slow = Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5)
    testbed = FakeTestbed((slow, Planted(PLAIN)))
    bounds = Bounds(testbed.specification, NO_CEILINGS, SPACE)
    measurer = Measurer(testbed, MemoryStore(HEADER), bounds, Thresholds(), Budget(), ListSink())
    workload = SPACE.base.with_(sge_count=8)
    _, before = measurer.judged(workload, "search")
    testbed.planted = (slow,)
    measurer.measure_sibling(workload)
    _, after = measurer.judged(workload, "search")
    assert before is not None
    assert after is not None
    assert before.reason.startswith("no bound is known: the plain sibling is itself anomalous: host b sends pause")
    assert after.reason == before.reason
