"""Campaigns in which the set of one anomaly covers another: joined after controls, or a second cause behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.events import AnomalyExplained, AnomalyMerged, AnomalyReplaced, RunFinished
from collie.campaign.loop import SearchLoop
from collie.campaign.measure import Measurer
from collie.campaign.observations import ConfirmedAnomaly, Observation
from collie.campaign.summary import Summary
from collie.campaign.triage import Triage
from collie.detect.bounds import Bounds, Calibration
from collie.detect.signature import Levels
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.ports import Measured
from collie.search.anomaly import Anomaly, KnownAnomalies, LikelySame
from collie.search.second_cause import Floor
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import QpType, Workload
from tests.support.planted import HEADER, LOOPBACK, SPACE
from tests.support.scripted import Scripted
from tests.support.searches import RANDOM, search

SGES = Mfs((Condition("sge_count", Op.AT_LEAST, 8),))
INNER = Mfs((*LOOPBACK.conditions, *SGES.conditions))
FIRST = SPACE.base.with_(loopback=True)
COVERED = SPACE.base.with_(loopback=True, qp_type=QpType.UC, sge_count=16, qps=64)
"""Other transport, so that it is no sighting of the first while both await explanation."""
AT_THE_END = replace(RANDOM, explain_after_sightings=1000)
PAUSE = Symptom.PAUSE


class EveryState(MemoryStore):
    """Remembers every state of its anomalies."""

    def __init__(self) -> None:
        super().__init__(HEADER)
        self.states: list[Anomaly] = []

    def add_anomaly(self, anomaly: Anomaly) -> None:
        self.states.append(anomaly)
        super().add_anomaly(anomaly)


def campaign(
    planted: Sequence[Planted],
    proposals: Sequence[Workload],
    store: MemoryStore | None = None,
    audits: int = 0,
    known: Sequence[Mfs] = (),
) -> tuple[Summary, ListSink]:
    testbed, sink = FakeTestbed(planted), ListSink()
    store = store or MemoryStore(HEADER)
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    measurer = Measurer(testbed, store, bounds, Thresholds(), Budget(runs=250), sink)
    strategy = Scripted(list(proposals))
    recipe = replace(AT_THE_END, audits=audits)
    return SearchLoop(measurer, store, strategy, SPACE, recipe, sink, KnownAnomalies(known)).run(), sink


def controls(sink: ListSink, until: object) -> list[Workload]:
    """The controls that had run when an event came."""
    earlier = sink.events[: sink.events.index(until)]
    return [
        each.record.workload for each in earlier if isinstance(each, RunFinished) and each.record.purpose == "control"
    ]


def test_a_covered_anomaly_is_joined_only_after_its_controls() -> None:
    summary, sink = campaign([Planted(LOOPBACK)], [FIRST, COVERED])
    (merged,) = sink.of(AnomalyMerged)
    assert (merged.anomaly.id, merged.anomaly.same_as) == ("a2", "a1")
    outside, alone = controls(sink, merged)
    assert not LOOPBACK.covers(outside)
    assert outside == COVERED.with_(loopback=False)
    assert alone == FIRST
    assert [(each.id, each.same_as) for each in summary.anomalies] == [("a1", None), ("a2", "a1")]


def test_a_second_cause_behind_a_covered_anomaly_takes_its_place_and_is_explained_later() -> None:
    store = EveryState()
    summary, sink = campaign([Planted(LOOPBACK), Planted(SGES, severity=0.8)], [FIRST, COVERED], store)
    assert sink.of(AnomalyMerged) == []
    first, second = summary.anomalies
    assert (first.mfs, second.mfs) == (LOOPBACK, SGES)
    assert (second.id, second.same_as, second.complete) == ("a2", None, True)
    assert second.found_as == COVERED.with_(loopback=False), "the control that showed it was confirmed"
    (replaced,) = sink.of(AnomalyReplaced)
    assert (replaced.anomaly.id, replaced.anomaly.workload) == ("a2", second.found_as)
    assert not LOOPBACK.covers(second.workload)
    explained = sink.of(AnomalyExplained)
    assert [event.anomaly.id for event in explained] == ["a1", "a2"]
    ran = controls(sink, explained[1])
    assert ran == [COVERED.with_(loopback=False)]
    records = [each.record for each in sink.of(RunFinished)]
    confirming = [each for each in records if each.purpose == "confirm" and each.workload == ran[0]]
    assert len(confirming) >= 2
    (control,) = (each for each in records if each.purpose == "control" and each.workload == ran[0])
    assert second.found_at_run == control.run
    assert second.found_at_seconds == confirming[-1].finished_at_seconds
    assert all(each.made_set_up and each.made_for in (None, ran[0]) for each in confirming)
    assert [each.workload for each in store.states if each.id == "a2" and not each.complete] == [COVERED, ran[0]]


def test_a_second_cause_that_takes_the_place_of_a_covered_anomaly_has_its_own_symptom() -> None:
    slow = Planted(LOOPBACK, symptom=Symptom.LOW_THROUGHPUT, severity=0.5)
    summary, _ = campaign([slow, Planted(SGES, symptom=Symptom.COMPLETION_ERRORS)], [FIRST, COVERED])
    assert [(each.symptom, each.mfs) for each in summary.anomalies] == [
        (Symptom.LOW_THROUGHPUT, LOOPBACK),
        (Symptom.COMPLETION_ERRORS, SGES),
    ]


def test_a_second_cause_that_needs_the_same_conditions_is_explained_inside_the_first_set() -> None:
    worse = Planted(INNER, severity=0.8)
    summary, sink = campaign([worse, Planted(LOOPBACK, severity=0.02)], [FIRST, COVERED])
    assert sink.of(AnomalyMerged) == []
    first, second = summary.anomalies
    assert first.mfs == LOOPBACK
    assert (second.same_as, second.complete) == (None, True)
    assert first.floor.severity == 0.0
    assert first.severity < second.floor.severity < second.severity
    assert set(SGES.conditions) <= set(second.mfs.conditions)


def test_a_second_cause_beyond_another_limit_of_the_same_feature_is_explained_by_its_severity() -> None:
    many, more = (Mfs((Condition("qps", Op.AT_LEAST, least),)) for least in (64, 512))
    first, deep = SPACE.base.with_(qps=64), SPACE.base.with_(qps=1024, qp_type=QpType.UC)
    summary, sink = campaign([Planted(more, severity=0.9), Planted(many, severity=0.3)], [first, deep])
    assert sink.of(AnomalyMerged) == []
    assert [each.mfs for each in summary.anomalies] == [many, more]
    assert 0.3 < summary.anomalies[1].floor.severity < 0.9


def test_a_search_that_finds_nothing_new_looks_inside_its_sets() -> None:
    worse = Planted(INNER, severity=0.8)
    summary, _ = campaign([worse, Planted(LOOPBACK, severity=0.02)], [FIRST], audits=1)
    first, second, *_ = summary.anomalies
    assert first.mfs == LOOPBACK
    assert LOOPBACK.covers(second.found_as)
    assert set(SGES.conditions) <= set(second.mfs.conditions)


def test_it_does_not_look_where_an_anomaly_was_known_before() -> None:
    worse = Planted(INNER, severity=0.8)
    summary, sink = campaign([worse, Planted(LOOPBACK, severity=0.02)], [FIRST], audits=1, known=[INNER])
    assert [anomaly.mfs for anomaly in summary.anomalies] == [LOOPBACK]
    audited = [each.record.workload for each in sink.of(RunFinished) if each.record.purpose == "audit"]
    assert audited
    assert not any(INNER.covers(workload) for workload in audited)


def test_it_looks_inside_a_set_that_lies_within_another_one() -> None:
    worse = Planted(INNER, severity=0.8)
    _, sink = campaign([worse, Planted(LOOPBACK, severity=0.02)], [FIRST], audits=1)
    inner = next(each for each in sink.of(AnomalyExplained) if set(SGES.conditions) <= set(each.anomaly.mfs.conditions))
    later = sink.events[sink.events.index(inner) :]
    runs = [each.record for each in later if isinstance(each, RunFinished)]
    assert any(inner.anomaly.mfs.covers(run.workload) for run in runs if run.purpose == "audit")


def test_what_waits_at_the_end_names_the_explained_anomaly_that_it_most_likely_is() -> None:
    triage, explained = triage_with_one_explained()
    like = ConfirmedAnomaly(FIRST, explained.verdict, explained.measurement, replace(explained.anomaly, id="a2"))
    other = replace(explained.verdict, symptom=Symptom.UNFAIRNESS)
    unlike = ConfirmedAnomaly(FIRST, other, explained.measurement, replace(explained.anomaly, id="a3"))
    triage.waiting += [like, unlike]
    triage.note_likely_causes()
    assert triage.found["a2"].likely_same_as == like.anomaly.likely_same_as
    assert like.anomaly.likely_same_as is not None
    assert like.anomaly.likely_same_as.id == explained.anomaly.id
    assert 0.5 <= like.anomaly.likely_same_as.chance < 1.0
    assert unlike.anomaly.likely_same_as is None


def test_what_waits_does_not_name_itself_by_way_of_one_that_was_joined_with_it() -> None:
    triage, explained = triage_with_one_explained()
    waiting = ConfirmedAnomaly(FIRST, explained.verdict, explained.measurement, replace(explained.anomaly, id="a2"))
    triage.waiting.append(waiting)
    explained.anomaly = replace(explained.anomaly, same_as="a2")
    triage.note_likely_causes()
    assert waiting.anomaly.likely_same_as is None


def test_a_likely_cause_that_a_smaller_budget_left_on_record_goes_when_the_explanation_has_begun() -> None:
    store = MemoryStore(HEADER)
    triage, explained = triage_with_one_explained(store)
    begun = replace(explained.anomaly, id="a2", complete=False)
    triage.keep(begun)
    store.add_anomaly(replace(begun, likely_same_as=LikelySame(explained.anomaly.id, 0.9)))
    triage.note_likely_causes()
    assert {anomaly.id: anomaly for anomaly in store.anomalies()} == triage.found
    assert triage.found["a2"] == begun


def test_what_is_familiar_is_explained_while_the_search_finds_nothing_new() -> None:
    triage, explained = triage_with_one_explained()
    familiar = ConfirmedAnomaly(FIRST, explained.verdict, explained.measurement, replace(explained.anomaly, id="a2"))
    triage.waiting.append(familiar)
    triage.fruitless_seconds = 1000.0
    assert triage.due(1, lambda _explanations: False) is None
    assert triage.due(1, lambda _explanations: False, fruitless=1.0) is familiar
    assert triage.fruitless_seconds == 0.0
    assert triage.due(1, lambda _explanations: False, fruitless=1.9) is None  # most of them show no other cause
    assert triage.due(1, lambda _explanations: False, fruitless=2.0) is familiar
    assert triage.due(1, lambda _explanations: False, fruitless=1.9) is None
    assert triage.due(1, lambda _explanations: False, fruitless=2.0) is familiar
    familiar.floor = Floor(0.5)
    assert triage.due(1000, lambda _explanations: False, fruitless=1.0) is familiar


@pytest.mark.parametrize("related_first", [True, False])
def test_anomalies_like_an_explained_one_are_explained_last(related_first: bool) -> None:
    triage, explained = triage_with_one_explained()
    sighting = Observation(SPACE.base, explained.verdict, explained.measurement)
    related = ConfirmedAnomaly(
        FIRST, explained.verdict, explained.measurement, replace(explained.anomaly, id="a2"), [sighting] * 9
    )
    other = replace(explained.verdict, symptom=Symptom.UNFAIRNESS)
    fresh = ConfirmedAnomaly(SPACE.base, other, explained.measurement, replace(explained.anomaly, id="a3"), [sighting])
    triage.waiting += [related, fresh] if related_first else [fresh, related]
    assert triage.due(5, lambda _explanations: False) is None
    assert triage.due(1, lambda _explanations: False) is fresh
    assert triage.due(5, lambda _explanations: True) is fresh
    triage.waiting.remove(fresh)
    assert triage.due(1, lambda _explanations: False) is None
    assert triage.due(1, lambda _explanations: True) is related
    related.floor = Floor(0.5)  # compared: another cause adds to the first
    assert triage.due(1, lambda _explanations: False) is related


def test_of_what_is_new_the_least_familiar_is_explained_first_however_often_another_was_seen() -> None:
    triage, explained = triage_with_one_explained()
    sighting = Observation(SPACE.base, explained.verdict, explained.measurement)
    beyond = ConfirmedAnomaly(
        SPACE.base, explained.verdict, explained.measurement, replace(explained.anomaly, id="a2"), [sighting] * 9
    )
    other = replace(explained.verdict, symptom=Symptom.UNFAIRNESS)
    unseen = ConfirmedAnomaly(SPACE.base, other, explained.measurement, replace(explained.anomaly, id="a3"))
    triage.waiting += [beyond, unseen]
    assert triage.due(10, lambda _explanations: False) is None
    assert triage.due(9, lambda _explanations: False) is unseen
    triage.waiting.remove(unseen)
    assert triage.due(9, lambda _explanations: False) is beyond


def triage_with_one_explained(store: MemoryStore | None = None) -> tuple[Triage, ConfirmedAnomaly]:
    searched, testbed = MemoryStore(HEADER), FakeTestbed((Planted(LOOPBACK),))
    found = search(testbed, store=searched, budget=Budget(runs=60)).anomalies[0]
    run = next(run for run in searched.runs() if run.run == found.found_at_run)
    assert isinstance(run.result, Measured)
    assert run.verdict is not None
    empty = store or MemoryStore(HEADER)
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    measurer = Measurer(
        testbed, empty, bounds, Thresholds(), Budget(), ListSink(), levels=Levels({"pressure": 100.0}, ())
    )
    triage = Triage(measurer, empty, SPACE, KnownAnomalies(()))
    base = SPACE.base
    anomaly = ConfirmedAnomaly(base, run.verdict, run.result.measurement, replace(found, mfs=LOOPBACK, complete=True))
    triage.explained(anomaly)
    return triage, anomaly


def test_two_anomalies_whose_sets_hold_each_other_are_one_if_their_counters_are_alike() -> None:
    triage, explained = triage_with_one_explained()
    again = ConfirmedAnomaly(
        FIRST, explained.verdict, explained.measurement, replace(explained.anomaly, id="a2", workload=FIRST)
    )
    assert triage.same_set(again) is explained
    again.anomaly = replace(again.anomaly, mfs=SGES)  # neither set holds the other's workload
    assert triage.same_set(again) is None
