"""What an explanation does with an anomaly that its set covers, and with a condition that it does not need."""

from __future__ import annotations

from collie.campaign.events import AnomalyExplained, AnomalyMerged
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import QpType
from tests.support.explained import ExplainedSearch, confirmed_anomaly, explained_search
from tests.support.planted import LOOPBACK, SPACE

SEGMENTS = Mfs((Condition("sge_count", Op.AT_LEAST, 8),))
BOTH = Mfs((*LOOPBACK.conditions, *SEGMENTS.conditions))
EVERYTHING = Mfs((Condition("qps", Op.AT_LEAST, 1),))
SIMPLEST = SPACE.base.with_(loopback=True, sge_count=8)
COVERED = SPACE.base.with_(loopback=True, sge_count=16, qp_type=QpType.UC)


def compared(planted: Mfs, claimed: Mfs) -> ExplainedSearch:
    """Compare a covered anomaly with one that has the claimed set, where another set is planted."""
    search = explained_search(FakeTestbed((Planted(planted),)), claimed, SIMPLEST)
    waiting = confirmed_anomaly(search.measurer, "a2", COVERED, Mfs(()))
    search.drive(search.loop._explainer.compare(search.lane, waiting, search.confirmed))
    return search


def test_a_condition_that_a_control_shows_to_be_needless_goes_if_fresh_runs_show_without_it() -> None:
    search = compared(LOOPBACK, BOTH)
    claims = [run.workload for run in search.store.runs() if run.purpose == "claim"]
    assert len(claims) >= 5
    assert all(LOOPBACK.covers(workload) for workload in claims)
    assert not all(BOTH.covers(workload) for workload in claims)
    (explained,) = search.sink.of(AnomalyExplained)
    assert explained.anomaly == search.confirmed.anomaly
    assert (explained.anomaly.mfs, explained.anomaly.revised) == (LOOPBACK, (BOTH,))
    assert [each.anomaly.same_as for each in search.sink.of(AnomalyMerged)] == ["a1"]


def test_a_set_keeps_its_only_condition() -> None:
    """Without it the set would say that every workload shows the anomaly, of which one control is no proof."""
    search = compared(EVERYTHING, LOOPBACK)
    assert "claim" not in search.purposes
    assert search.confirmed.anomaly.mfs == LOOPBACK
    assert search.sink.of(AnomalyExplained) == []
