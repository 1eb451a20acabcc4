"""Whether an explained anomaly is also the cause of one that its set covers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from collie.content.spaces import load_space
from collie.detect.signature import Signature
from collie.detect.symptom import Outcome, Received, Symptom, Verdict
from collie.search.joins import Explained, Joined, compare, reduced
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload

SPACE = load_space("nsdi22")
NORMAL = Verdict(Outcome.NORMAL, "fine")
MISSES = Signature((("misses", 3.0),))
PAUSED = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.4, "b", margin=400.0, signature=MISSES)
OTHER = replace(PAUSED, signature=Signature((("stalls", 3.0),)))
OUTER = Mfs((Condition("loopback", Op.EQUAL, True), Condition("qps", Op.AT_LEAST, 64)))
INNER = Mfs((*OUTER.conditions, Condition("wqe_batch", Op.AT_LEAST, 32)))
ELSEWHERE = Mfs((Condition("sge_count", Op.AT_LEAST, 4),))
COVERED = SPACE.base.with_(loopback=True, qps=512, wqe_batch=64, sge_count=8)
SIMPLEST = SPACE.base.with_(loopback=True, qps=64)


def run(
    answer: Callable[[Workload], Verdict | None],
    verdict: Verdict = PAUSED,
    known: Callable[[Workload], bool] = lambda _workload: False,
    checked: frozenset[Condition] = frozenset(),
) -> tuple[Joined, list[Workload]]:
    explained = Explained(OUTER, SIMPLEST, PAUSED, known)
    controls = compare(COVERED, verdict, explained, SPACE, checked)
    asked = [next(controls)]
    try:
        while True:
            asked.append(controls.send(answer(asked[-1])))
    except StopIteration as stop:
        joined: Joined = stop.value
        return joined, asked


def test_where_each_broken_condition_ends_it_and_the_set_predicts_it_the_cause_is_the_same() -> None:
    joined, asked = run(lambda w: PAUSED if OUTER.covers(w) else NORMAL)
    assert joined.same
    assert [[condition.holds(w) for condition in OUTER.conditions] for w in asked] == [
        [False, True],
        [True, False],
        [True, True],
    ]
    assert asked[-1] == SPACE.base.with_(loopback=True, qps=512)


def test_a_control_with_other_counters_is_suspected_of_a_second_cause() -> None:
    joined, asked = run(lambda w: PAUSED if OUTER.covers(w) else OTHER if ELSEWHERE.covers(w) else NORMAL)
    assert not joined.same
    assert [joined.suspect] == asked
    assert not OUTER.covers(asked[0])
    assert (joined.symptom, joined.checked) == (Symptom.PAUSE, frozenset(OUTER.conditions[:1]))


def test_a_control_like_the_sets_own_cause_is_beyond_a_limit_that_is_not_exact() -> None:
    joined, asked = run(lambda w: PAUSED if OUTER.covers(w) or ELSEWHERE.covers(w) else NORMAL)
    assert (joined.same, joined.suspect, joined.needless) == (True, None, None)
    assert SIMPLEST.with_(loopback=False) in asked, "the simplest workload tells whether the condition is needless"


@pytest.mark.parametrize("severity", [0.1, 0.7])
def test_a_control_that_is_milder_or_worse_than_the_covered_workload_is_a_second_cause(severity: float) -> None:
    other = replace(PAUSED, severity=severity)
    joined, _ = run(lambda w: PAUSED if OUTER.covers(w) else other if ELSEWHERE.covers(w) else NORMAL)
    assert joined.suspect is not None


def test_a_condition_without_which_the_simplest_workload_shows_as_well_is_needless() -> None:
    joined, asked = run(lambda w: PAUSED if w.qps >= 64 else NORMAL)
    assert joined.needless == OUTER.conditions[0]
    assert asked == [COVERED.with_(loopback=False), SIMPLEST.with_(loopback=False)]


def test_a_control_that_another_explanation_covers_is_not_run() -> None:
    joined, asked = run(lambda w: PAUSED if OUTER.covers(w) else OTHER, known=lambda w: not w.loopback)
    assert all(w.loopback for w in asked)
    assert joined.suspect is not None, "the other condition's control still tells"


def test_what_lacks_the_counters_and_the_severity_that_the_set_predicts_is_another_anomaly() -> None:
    mild = replace(PAUSED, severity=0.02, signature=Signature((("stalls", 3.0),)))
    joined, _ = run(lambda w: PAUSED if OUTER.covers(w) else NORMAL, mild)
    assert not joined.same


def test_the_other_controls_run_where_a_suspect_was_a_disturbance() -> None:
    checked = frozenset(OUTER.conditions[:1])
    joined, asked = run(lambda w: PAUSED if OUTER.covers(w) else NORMAL, checked=checked)
    assert joined.same
    assert [[condition.holds(w) for condition in OUTER.conditions] for w in asked] == [[True, False], [True, True]]


@pytest.mark.parametrize(
    "alone",
    [
        NORMAL,
        replace(PAUSED, severity=0.02),
        replace(PAUSED, signature=Signature((("stalls", 3.0),))),
        replace(PAUSED, symptom=Symptom.LOW_THROUGHPUT),
        None,
    ],
)
def test_what_the_set_alone_does_not_predict_is_not_the_same(alone: Verdict | None) -> None:
    joined, _ = run(lambda w: alone if OUTER.covers(w) else NORMAL)
    assert (joined.same, joined.suspect, joined.alone) == (False, None, alone)


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        (PAUSED, True),
        (replace(PAUSED, severity=0.55), True),
        (replace(PAUSED, severity=0.65), False),
        (replace(PAUSED, signature=Signature((("misses", 3.0), ("stalls", 1.0)))), True),
        (replace(PAUSED, signature=Signature((("misses", 3.0), ("stalls", 6.0)))), False),
    ],
)
def test_a_second_cause_with_the_same_features_is_far_more_severe_or_raises_other_counters(
    shown: Verdict, same: bool
) -> None:
    """The reduced workload shows all that the covered one shows, because the set names what both causes need."""
    answer = {True: shown, False: NORMAL}
    joined, _ = run(lambda w: answer[OUTER.covers(w)], shown)
    assert joined.same is same


def test_a_covered_workload_that_is_reduced_already_is_held_against_the_sets_simplest_workload() -> None:
    plain = SPACE.base.with_(loopback=True, qps=512)
    for severity, same in ((0.55, True), (0.65, False)):
        shown = replace(PAUSED, severity=severity)
        explained = Explained(OUTER, SIMPLEST, PAUSED, lambda _workload: False)
        controls = compare(plain, shown, explained, SPACE)
        assert {next(controls), controls.send(NORMAL)}.isdisjoint({plain})
        with pytest.raises(StopIteration) as stop:
            controls.send(NORMAL)
        assert stop.value.value.same is same


def test_a_control_that_cannot_run_says_nothing() -> None:
    joined, _ = run(lambda w: PAUSED if OUTER.covers(w) else None if w.loopback else NORMAL)
    assert joined.same


def test_a_cause_inside_the_set_is_seen_by_what_it_adds() -> None:
    joined, _ = run(
        lambda w: PAUSED if INNER.covers(w) else replace(PAUSED, severity=0.02) if OUTER.covers(w) else NORMAL
    )
    assert not joined.same
    assert joined.alone is not None
    assert joined.alone.severity == 0.02


@pytest.mark.parametrize(("pps", "same"), [(5e6, True), (1e6, False)])
def test_small_messages_at_the_same_packets_per_second_are_no_second_cause(pps: float, same: bool) -> None:
    """The reduced workload has plain messages. What a cause costs each packet is a larger share of a smaller one."""
    large = replace(PAUSED, severity=0.12, received=Received(5e6 * 8 * 4096, 5e6))
    small = replace(PAUSED, severity=0.97, received=Received(pps * 8 * 64, pps))
    explained = Explained(OUTER, SIMPLEST, large, lambda _workload: False)
    controls = compare(COVERED, small, explained, SPACE)
    assert {next(controls), controls.send(NORMAL)}.isdisjoint({SIMPLEST})
    controls.send(NORMAL)
    with pytest.raises(StopIteration) as stop:
        controls.send(large)
    assert stop.value.value.same is same


def test_the_reduced_workload_keeps_what_the_set_names() -> None:
    assert reduced(COVERED, OUTER, SPACE) == SPACE.base.with_(loopback=True, qps=512)
    assert reduced(COVERED, Mfs(()), SPACE) == COVERED, "an empty set covers nothing"


def test_nothing_that_is_free_stays_unplain_in_the_reduced_workload() -> None:
    """A second cause there would show in the reduced workload, too, and be joined."""
    rng = Random(1)
    covered = [SPACE.sample(rng).with_(loopback=True, qps=512) for _ in range(100)]
    for workload in filter(SPACE.allows, covered):
        alone = reduced(workload, OUTER, SPACE)
        assert reduced(alone, OUTER, SPACE) == alone
        assert OUTER.covers(alone)
        assert SPACE.allows(alone)


def test_a_control_with_another_symptom_says_nothing_of_this_one() -> None:
    late = replace(PAUSED, symptom=Symptom.LATENCY)
    joined, asked = run(lambda w: PAUSED if OUTER.covers(w) else late)
    assert joined.same
    assert len(asked) == 3
