"""What an explanation does with an anomaly that its set covers, and with a condition that it does not need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from collie.campaign.events import AnomalyExplained, AnomalyMerged
from collie.campaign.lanes import RunRequest, alone
from collie.campaign.observations import ConfirmedAnomaly
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


def compared_while(
    planted: Mfs, claimed: Mfs, meanwhile: Callable[[ExplainedSearch], None], purpose: str
) -> tuple[ExplainedSearch, ConfirmedAnomaly]:
    """Compare a covered anomaly. Another lane does something after the first run with a purpose has begun."""
    search = explained_search(FakeTestbed((Planted(planted),)), claimed, SIMPLEST)
    waiting = confirmed_anomaly(search.measurer, "a2", COVERED, Mfs(()))
    search.loop._triage.waiting.append(waiting)

    async def other() -> None:
        while purpose not in search.purposes:
            await RunRequest(SPACE.base, "search")
        meanwhile(search)

    comparing = search.loop._explainer.compare(search.lane, waiting, search.confirmed)
    search.measurer.scheduler.drive({search.lane: comparing, alone(FakeTestbed(run_seconds=11.0)): other()})
    return search, waiting


def withdraw(search: ExplainedSearch) -> None:
    """Do what an audit does that contradicts the explanation."""
    search.loop._triage.contradicted(search.confirmed)
    search.loop._triage.explain_next(search.confirmed)


@pytest.mark.parametrize(("purpose", "claimed"), [("control", LOOPBACK), ("claim", BOTH)])
def test_nothing_is_joined_with_an_explanation_that_another_pair_withdraws_meanwhile(
    purpose: str, claimed: Mfs
) -> None:
    search, waiting = compared_while(LOOPBACK, claimed, withdraw, purpose)
    assert {each.anomaly.id for each in search.loop._triage.waiting} == {"a1", "a2"}
    assert waiting.anomaly.same_as is None
    assert search.confirmed.anomaly.revised == (claimed,)
    assert not search.sink.of(AnomalyMerged)
    assert not search.sink.of(AnomalyExplained)


def test_a_condition_that_another_pair_drops_meanwhile_does_not_come_back() -> None:
    small = Condition("qps", Op.AT_MOST, 512)
    claimed = Mfs((*BOTH.conditions, small))

    def widen(search: ExplainedSearch) -> None:
        anomaly = search.confirmed.anomaly
        search.loop._triage.contradicted(search.confirmed)
        search.confirmed.anomaly = replace(anomaly, mfs=BOTH, revised=(claimed,))
        search.loop._triage.explained(search.confirmed)

    search, waiting = compared_while(LOOPBACK, claimed, widen, "claim")
    assert search.confirmed.anomaly.mfs == LOOPBACK
    assert search.confirmed.anomaly.revised == (claimed, BOTH)
    assert waiting.anomaly.same_as == "a1"


def test_an_anomaly_that_another_pair_explains_meanwhile_is_not_compared() -> None:
    """Its explanation would begin from the anomaly before the join, and lose that."""
    search = explained_search(FakeTestbed((Planted(LOOPBACK),)))
    first, second = (
        confirmed_anomaly(search.measurer, name, COVERED.with_(qp_type=kind), Mfs(()))
        for name, kind in (("a2", QpType.UC), ("a3", QpType.RC))
    )
    withdraw(search)
    triage = search.loop._triage
    triage.waiting += [first, second]
    compared = False

    async def explaining() -> None:
        nonlocal compared
        await search.loop._explain(search.lane, search.confirmed)
        compared = True

    async def other() -> None:
        while "control" not in search.purposes:
            await RunRequest(SPACE.base, "search")
        with triage.explaining(second):
            while not compared:
                await RunRequest(SPACE.base, "search")

    search.measurer.scheduler.drive({search.lane: explaining(), alone(FakeTestbed(run_seconds=11.0)): other()})
    assert [each.anomaly.id for each in search.sink.of(AnomalyMerged)] == ["a2"]
    assert second.anomaly.same_as is None
