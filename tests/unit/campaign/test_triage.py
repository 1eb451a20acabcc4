"""What an explanation settles, and what it leaves open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.measure import Measurer
from collie.campaign.observations import ConfirmedAnomaly, Suspicion
from collie.campaign.triage import Triage
from collie.detect.bounds import Bounds, Calibration
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.ports import Measured
from collie.search.anomaly import KnownAnomalies
from collie.search.foreseen import ForeseenAnomaly
from collie.search.second_cause import Floor
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Mfs
from collie.workloads.space import widen_to_untested
from tests.support.planted import HEADER, LOOPBACK, SPACE
from tests.support.searches import search

INSIDE = SPACE.base.with_(loopback=True)


def explained(mfs: Mfs, *, complete: bool) -> tuple[Triage, KnownAnomalies, Suspicion]:
    """Return a triage with one explained anomaly, what is known then, and a suspicion of the same symptom."""
    store, testbed = MemoryStore(HEADER), FakeTestbed((Planted(LOOPBACK),))
    found = search(testbed, store=store, budget=Budget(runs=60)).anomalies[0]
    run = next(run for run in store.runs() if run.run == found.found_at_run)
    assert isinstance(run.result, Measured)
    assert run.verdict is not None
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    empty = MemoryStore(HEADER)
    measurer = Measurer(testbed, empty, bounds, Thresholds(), Budget(), ListSink())
    known = KnownAnomalies(())
    triage = Triage(measurer, empty, SPACE, known)
    anomaly = replace(found, mfs=mfs, complete=complete)
    triage.explained(ConfirmedAnomaly(run.workload, run.verdict, run.result.measurement, anomaly))
    (lane,) = measurer.lanes
    return triage, known, Suspicion(INSIDE, run.verdict, run.result.measurement, run.run + 1, lane)


def test_the_strategy_waits_for_what_it_proposed_alone() -> None:
    *_, suspicion = explained(LOOPBACK, complete=True)
    recalled = replace(suspicion, proposed=False)
    later = replace(suspicion, repetitions=[recalled, replace(suspicion)])
    assert [each.proposed for each in later.proposals] == [True, True]
    assert [each.proposed for each in replace(later, proposed=False).proposals] == [True]
    assert len(later.observations) == 3


@pytest.mark.parametrize("complete", [True, False])
def test_only_a_complete_explanation_covers(complete: bool) -> None:
    triage, known, _ = explained(LOOPBACK, complete=complete)
    assert known.covers(INSIDE) is complete
    assert (triage.to_audit(INSIDE, 1) is not None) is complete


@pytest.mark.parametrize("complete", [True, False])
def test_only_where_every_workload_shows_a_symptom_is_another_run_of_it_no_news(complete: bool) -> None:
    triage, _, suspicion = explained(Mfs(()), complete=complete)
    assert triage.observe(suspicion) is complete
    assert triage.suspicions == ([] if complete else [suspicion])


def test_what_two_lanes_explained_is_compared_unless_it_lies_inside_the_other_as_another_cause() -> None:
    triage, _, suspicion = explained(LOOPBACK, complete=True)
    (first,) = triage.found.values()
    second = ConfirmedAnomaly(
        INSIDE, suspicion.verdict, suspicion.measurement, replace(first, id="a2", workload=INSIDE)
    )
    triage.explained(second)
    assert [each.anomaly.id for each in triage.explained_before(second)] == [first.id]
    second.inside = widen_to_untested(LOOPBACK, SPACE)
    assert triage.explained_before(second) == []


@pytest.mark.parametrize(("floor", "hides"), [(0.0, True), (0.5, True), (0.7, False)])
def test_a_set_whose_cause_stays_below_the_floor_of_a_second_cause_does_not_hide_it(floor: float, hides: bool) -> None:
    triage, known, suspicion = explained(LOOPBACK, complete=True)
    (first,) = triage.found.values()
    second = ConfirmedAnomaly(
        INSIDE, suspicion.verdict, suspicion.measurement, replace(first, id="a2"), floor=Floor(floor)
    )
    triage.with_set[0].severity_alone = 0.6
    assert known.covers(INSIDE, but=triage.milder_around(second)) is hides
    second.inside = widen_to_untested(LOOPBACK, SPACE)
    assert not known.covers(INSIDE, but=triage.milder_around(second))


def test_a_joined_anomaly_stays_joined_whatever_is_recorded_of_it_later() -> None:
    triage, _, suspicion = explained(LOOPBACK, complete=True)
    (first,) = triage.found.values()
    second = ConfirmedAnomaly(
        INSIDE, suspicion.verdict, suspicion.measurement, replace(first, id="a2", workload=INSIDE)
    )
    triage.explained(second)
    triage.merge(second, first)
    triage.keep(second.anomaly.with_reproduction())
    assert triage.found["a2"].same_as == first.id


def test_a_waiting_anomaly_is_covered_by_a_set_or_by_any_workload() -> None:
    triage, _, suspicion = explained(LOOPBACK, complete=True)
    (first,) = triage.found.values()
    waiting = ConfirmedAnomaly(
        INSIDE, suspicion.verdict, suspicion.measurement, replace(first, id="a2", workload=INSIDE)
    )
    triage.waiting.append(waiting)
    assert triage.covered_by(first) == triage.covered_by(replace(first, mfs=Mfs(()))) == [waiting]
    waiting.anomaly = replace(waiting.anomaly, workload=SPACE.base)
    assert triage.covered_by(first) == []


def test_the_first_covered_proposals_are_audits_and_then_one_of_ten() -> None:
    triage, _, _ = explained(LOOPBACK, complete=True)
    audits = []
    for number in range(1, 31):
        if (audited := triage.to_audit(INSIDE, 2)) is not None:
            audited.audits += 1
            audits.append(number)
    assert audits == [1, 2, 10, 20, 30]
    assert triage.to_audit(INSIDE, 0) is None


def test_an_explanation_that_was_contradicted_is_claimed_no_more_and_comes_next() -> None:
    triage, known, _ = explained(LOOPBACK, complete=True)
    (confirmed,) = triage.with_set
    triage.contradicted(confirmed)
    triage.explain_next(confirmed)
    (anomaly,) = triage.found.values()
    assert (anomaly.complete, anomaly.mfs, anomaly.trials, anomaly.fresh_runs) == (False, Mfs(()), 0, 0)
    assert anomaly.revised[-1] == LOOPBACK
    assert not known.covers(INSIDE)
    assert triage.due(1000, lambda _: False) is confirmed


def test_an_explanation_that_was_contradicted_comes_before_what_waits_already() -> None:
    triage, _, suspicion = explained(LOOPBACK, complete=True)
    (confirmed,) = triage.with_set
    other = replace(suspicion.verdict, symptom=Symptom.UNFAIRNESS)
    triage.waiting.append(ConfirmedAnomaly(INSIDE, other, suspicion.measurement, replace(confirmed.anomaly, id="a2")))
    assert triage.due(1000, lambda _: False) is None
    triage.contradicted(confirmed)
    triage.explain_next(confirmed)
    assert triage.due(1000, lambda _: False) is confirmed


def test_a_sick_sibling_takes_no_anomaly_that_is_known_elsewhere() -> None:
    triage, _, suspicion = explained(Mfs(()), complete=False)
    elsewhere = replace(suspicion, foreseen=ForeseenAnomaly("june/a1", LOOPBACK, (suspicion.workload,)))
    alike = replace(suspicion)
    triage.suspicions += [elsewhere, alike]
    sick = replace(suspicion, workload=SPACE.base)
    assert triage.put_first(sick)
    assert triage.suspicions == [sick, elsewhere]
