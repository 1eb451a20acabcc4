"""What an explanation settles, and what it leaves open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.measure import Measurer
from collie.campaign.triage import ConfirmedAnomaly, Suspicion, Triage
from collie.detect.bounds import Bounds, Calibration
from collie.detect.judge import Thresholds
from collie.ports import Measured
from collie.search.anomaly import KnownAnomalies
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Mfs
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
