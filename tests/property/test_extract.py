"""Extraction on planted conjunctions: it finds them, covers the finding, and takes no more runs than stated."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

from hypothesis import assume, given, settings, strategies as st

from collie.detect.symptom import Verdict, inconclusive
from collie.search.extract import LEAST_SHOW_RATE
from collie.search.recipe import Extraction
from collie.workloads.dimension import Choice
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload
from tests.support.extractions import DIMENSIONS, NORMAL, SHOWS, SPACE, planted, planted_at, run


def most_runs(policy: Extraction) -> int:
    """The limit with a late claim, two thirds of whose runs can be inconclusive, or of claims that began anew."""
    return policy.most_runs + 3 * policy.fresh_runs


@st.composite
def boxes_with_a_point(draw: st.DrawFn) -> tuple[Mfs, Workload]:
    """A conjunction over one to four dimensions, and a workload of the space that satisfies it."""
    workload = SPACE.sample(Random(draw(st.integers(0, 2**32))))
    conditions = []
    for dimension in draw(st.lists(st.sampled_from(DIMENSIONS), min_size=1, max_size=4, unique_by=lambda d: d.name)):
        value = workload.get(dimension.name)
        if isinstance(dimension, Choice):
            conditions.append(Condition(dimension.name, Op.EQUAL, value))
            continue
        op = draw(st.sampled_from([Op.AT_LEAST, Op.AT_MOST]))
        within = [step for step in dimension.ladder if (step <= value if op is Op.AT_LEAST else step >= value)]
        conditions.append(Condition(dimension.name, op, draw(st.sampled_from(within))))
    return Mfs(tuple(conditions)), workload


@given(boxes_with_a_point(), st.integers(2, 50))
@settings(max_examples=25)
def test_the_set_covers_the_finding_and_no_healthy_probe(box: tuple[Mfs, Workload], most: int) -> None:
    mfs, workload = box
    policy = Extraction(accepting=1, most_runs=most)
    found, asked = run(workload, planted(mfs), policy)
    assert asked[0] == workload
    assert len(asked) == found.runs <= most_runs(policy)
    assert mfs.covers(found.workload)
    assert all(condition.holds(found.workload) for condition in found.mfs.conditions)
    inside = [probe for probe in asked if found.mfs.covers(probe)]
    assert (found.passed, found.trials) == (sum(map(mfs.covers, inside)), len(inside))
    assert found.confidence == (found.passed + 1) / (found.trials + 2)
    if len(asked) < most:
        assert found.complete
        assert found.passed == found.trials
    if found.complete and found.mfs.conditions:
        at_the_limit = len(asked) >= most  # then fresh runs bear out a set that can cover a healthy probe
        assert found.fresh_runs == 9
        assert found.fresh_shows >= (8 if at_the_limit else 9)


def around(workload: Workload, seed: int) -> list[Workload]:
    """Workloads that differ from one in up to four dimensions."""
    rng = Random(seed)
    found = []
    for number in range(200):
        other = workload
        for _ in range(1 + number % 4):
            other = SPACE.mutate(other, rng)
        found.append(other)
    return found


def test_planted_sets_are_found_at_the_stated_cost() -> None:
    """Some 25 bits and nine fresh runs: these seeds take 25 to 43. Sets and planted ones differ in 20 of 4,000."""
    taken, wrongly_covered, wrongly_left = [], 0, 0
    for seed in range(20):
        mfs, workload = planted_at(seed)
        found, asked = run(workload, planted(mfs), Extraction(accepting=1, most_runs=300))
        taken.append(len(asked))
        for other in around(workload, seed):
            wrongly_covered += found.mfs.covers(other) and not mfs.covers(other)
            wrongly_left += mfs.covers(other) and not found.mfs.covers(other)
    assert sum(taken) <= 680
    assert max(taken) <= 48
    assert wrongly_covered <= 24
    assert wrongly_left == 0


@given(boxes_with_a_point(), st.sampled_from([SHOWS, NORMAL, inconclusive("noise"), None]))
@settings(max_examples=16)
def test_extraction_ends_when_all_verdicts_are_alike(box: tuple[Mfs, Workload], always: Verdict | None) -> None:
    found, asked = run(box[1], lambda _workload: always)
    policy = Extraction()
    if always is NORMAL:  # it shows so seldom that the explanation has the most time that there is
        policy = replace(policy, most_runs=math.ceil(policy.most_runs / LEAST_SHOW_RATE))
    assert len(asked) <= most_runs(policy)
    if always is SHOWS:
        assert len(asked) <= 34
        assert found.complete
        assert found.mfs.conditions == ()
    if always not in (SHOWS, NORMAL):
        assert len(asked) == len(set(asked))  # the same workload would be as silent again
    if always is None:
        assert not found.complete
        assert found.mfs.conditions == ()  # a workload that cannot run is no evidence


@given(boxes_with_a_point(), st.integers(1, 20), st.integers(0, 2**32))
@settings(max_examples=12)
def test_the_limit_of_runs_holds_and_the_result_is_incomplete_only_with_healthy_runs_inside(
    box: tuple[Mfs, Workload], most: int, seed: int
) -> None:
    rng = Random(seed)
    policy = Extraction(most_runs=most)
    found, asked = run(box[1], lambda _: rng.choice((SHOWS, NORMAL)), policy)
    assert len(asked) == found.runs <= most_runs(policy)
    assert all(condition.holds(found.workload) for condition in found.mfs.conditions)
    if found.complete and found.mfs.conditions:
        assert found.fresh_runs >= 9


@given(boxes_with_a_point(), boxes_with_a_point())
@settings(max_examples=16)
def test_no_workload_of_a_known_anomaly_is_asked(box: tuple[Mfs, Workload], other: tuple[Mfs, Workload]) -> None:
    mfs, workload = box
    known = other[0]
    assume(not known.covers(workload))
    _, asked = run(workload, planted(mfs), known=known.covers)
    assert not any(known.covers(probe) for probe in asked)
