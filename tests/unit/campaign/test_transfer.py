"""Known anomalies of another testbed, looked for on this one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.events import AnomalyExplained
from collie.campaign.summary import NotConfirmed
from collie.campaign.transfer import PURPOSE
from collie.detect.symptom import Symptom
from collie.errors import TestbedError
from collie.ports import RunResult
from collie.report.terminal.summary import render_summary
from collie.search.foreseen import ForeseenAnomaly
from collie.search.recipe import Recipe
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload
from tests.support.planted import HEADER, LOOPBACK, MANY_SGES, SPACE
from tests.support.searches import RANDOM, search

LATE = replace(RANDOM, explain_after_sightings=2)
BATCHES = Mfs((Condition("wqe_batch", Op.AT_LEAST, 16),))


def foreseen(name: str, mfs: Mfs) -> ForeseenAnomaly:
    fields = {each.dimension: each.value for each in mfs.conditions}
    return ForeseenAnomaly(name, mfs, (SPACE.base.with_(**fields),))


def conditions(explained: AnomalyExplained) -> set[Condition]:
    return set(explained.anomaly.mfs.conditions)


@pytest.mark.parametrize("recipe", [LATE, replace(LATE, phases=8)], ids=["one run each", "phases"])
def test_what_shows_here_too_is_explained_before_the_search(recipe: Recipe) -> None:
    sink, store = ListSink(), MemoryStore(HEADER)
    testbed = FakeTestbed((Planted(LOOPBACK), Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5)))
    known = (foreseen("a1", LOOPBACK), foreseen("a2", MANY_SGES))
    summary = search(testbed, recipe=recipe, foreseen=known, sink=sink, store=store, budget=Budget(runs=250))
    first, second, *_ = sink.of(AnomalyExplained)
    assert (conditions(first), conditions(second)) == (set(LOOPBACK.conditions), set(MANY_SGES.conditions))
    assert [each.anomaly.known_as for each in (first, second)] == ["a1", "a2"]
    purposes = [run.purpose for run in store.runs()]
    assert purposes.count(PURPOSE) == 2
    assert PURPOSE not in purposes[purposes.index("search") :]
    assert not summary.not_confirmed


def test_a_set_that_is_known_takes_fewer_questions() -> None:
    def questions(*known: ForeseenAnomaly) -> int:
        sink = ListSink()
        search(FakeTestbed((Planted(MANY_SGES),)), foreseen=known, sink=sink, budget=Budget(runs=400))
        (first, *_) = sink.of(AnomalyExplained)
        assert conditions(first) == set(MANY_SGES.conditions)
        return int(first.anomaly.extraction_runs)

    assert questions(foreseen("a1", MANY_SGES)) <= 0.8 * questions()


def test_what_does_not_show_is_absent_and_hides_nothing() -> None:
    store = MemoryStore(HEADER)
    known = (foreseen("a7", BATCHES),)
    summary = search(FakeTestbed((Planted(LOOPBACK),)), foreseen=known, store=store, budget=Budget(runs=200))
    assert summary.not_confirmed == {"a7": NotConfirmed.ABSENT}
    assert any(BATCHES.covers(run.workload) for run in store.runs() if run.purpose == "search")
    assert {anomaly.mfs for anomaly in summary.anomalies} == {LOOPBACK}
    assert "Known elsewhere and healthy here: a7." in render_summary(HEADER, summary, 1.0)


def test_where_the_limit_differs_it_moves() -> None:
    """Here it takes longer lists than there. A workload drawn inside the known set shows that."""
    here = Mfs((replace(MANY_SGES.conditions[0], value=12), MANY_SGES.conditions[1]))
    sink = ListSink()
    search(FakeTestbed((Planted(here),)), foreseen=(foreseen("a1", MANY_SGES),), sink=sink, budget=Budget(runs=200))
    assert conditions(sink.of(AnomalyExplained)[0]) == set(here.conditions)


def test_one_that_an_explanation_holds_is_not_run_again() -> None:
    store = MemoryStore(HEADER)
    known = (foreseen("a1", LOOPBACK), foreseen("a2", LOOPBACK))
    summary = search(FakeTestbed((Planted(LOOPBACK),)), foreseen=known, store=store)
    assert [run.purpose for run in store.runs()].count(PURPOSE) == 1
    assert not summary.not_confirmed


def test_a_set_that_the_space_leaves_out_is_said_not_to_have_been_tried() -> None:
    beyond = ForeseenAnomaly("a8", BATCHES, (SPACE.base.with_(wqe_batch=1 << 20),))
    summary = search(FakeTestbed(()), foreseen=(beyond,), budget=Budget(runs=40))
    assert summary.not_confirmed == {"a8": NotConfirmed.UNTRIED}
    assert "Known elsewhere and beyond what can run here: a8." in render_summary(HEADER, summary, 1.0)


def test_no_workload_of_a_known_anomaly_runs_twice() -> None:
    twice = ForeseenAnomaly("a1", LOOPBACK, (SPACE.base.with_(loopback=True),) * 2)
    store = MemoryStore(HEADER)
    search(FakeTestbed(()), foreseen=(twice,), store=store, budget=Budget(runs=40))
    looked = [run.workload for run in store.runs() if run.purpose == PURPOSE]
    assert looked
    assert len(looked) == len(set(looked))


class _Fleeting(FakeTestbed):
    """Shows an anomaly in the first run of a workload, and in no other."""

    def measure(self, workload: Workload, *arguments: object, **options: object) -> RunResult:
        shown = workload in self.measured
        self.planted = () if shown else (Planted(LOOPBACK),)
        return super().measure(workload, *arguments, **options)  # type: ignore[arg-type]


def test_what_shows_only_once_is_no_anomaly_and_not_absent() -> None:
    summary = search(_Fleeting(()), foreseen=(foreseen("a1", LOOPBACK),), budget=Budget(runs=40))
    assert summary.not_confirmed == {"a1": NotConfirmed.SEEN_ONCE}
    assert "Known elsewhere and not confirmed here: a1." in render_summary(HEADER, summary, 1.0)


class _Mortal(FakeTestbed):
    left = 0

    def measure(self, *arguments: object, **options: object) -> RunResult:
        if not self.left:
            raise TestbedError("killed")
        self.left -= 1
        return super().measure(*arguments, **options)  # type: ignore[arg-type]


def test_a_campaign_that_is_killed_meanwhile_ends_as_if_it_had_never_stopped() -> None:
    known = (foreseen("a7", BATCHES), foreseen("a1", LOOPBACK))

    def go(store: MemoryStore, left: int) -> object:
        testbed = _Mortal((Planted(LOOPBACK),))
        testbed.left = left
        return search(testbed, recipe=LATE, foreseen=known, store=store, budget=Budget(runs=80))

    unbroken, store = MemoryStore(HEADER), MemoryStore(HEADER)
    whole = go(unbroken, 80)
    for _ in range(3):
        with pytest.raises(TestbedError):
            go(store, 5)
    assert go(store, 80) == whole
    assert list(store.runs()) == list(unbroken.runs())
