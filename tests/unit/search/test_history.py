"""The shortest history that brings an anomaly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import log2
from random import Random

import pytest
from hypothesis import given, strategies as st

from collie.search.history import History, shortest_history
from collie.workloads.workload import Workload

LAST = Workload(qps=7)


def phases(*numbers: int) -> History:
    return tuple(Workload(qps=100 + number) for number in numbers)


def found(history: Sequence[Workload], brings: Callable[[History], bool]) -> tuple[History | None, list[History]]:
    """Return the result for a testbed on which the history alone decides, and all questions."""
    asked: list[History] = []
    search = shortest_history(history, LAST)
    try:
        question = next(search)
        while True:
            *before, last = question
            assert last == LAST
            asked.append(tuple(before))
            question = search.send(brings(tuple(before)))
    except StopIteration as stop:
        return stop.value, asked


def is_subsequence(part: Sequence[Workload], whole: Sequence[Workload]) -> bool:
    rest = iter(whole)
    return all(each in rest for each in part)


def _has(phase: Workload, kept: History) -> bool:
    return phase in kept


def test_one_phase_of_many_is_found_by_halving() -> None:
    history = phases(*range(64))
    for guilty in history:
        result, asked = found(history, partial(_has, guilty))
        assert result == (guilty,)
        assert len(asked) <= 2 + 2 * log2(64)


def test_phases_keep_their_order() -> None:
    first, then = phases(3, 9)
    result, _ = found(phases(*range(12)), lambda kept: is_subsequence((first, then), kept))
    assert result == (first, then)
    assert found(tuple(reversed(phases(*range(12)))), lambda kept: is_subsequence((first, then), kept))[0] is None


def test_a_history_that_does_not_bring_it_is_asked_about_once() -> None:
    assert found(phases(1, 2, 3), lambda _: False) == (None, [phases(1, 2, 3)])


def test_an_anomaly_that_needs_no_history_has_an_empty_one() -> None:
    assert found(phases(1, 2, 3), lambda _: True) == ((), [phases(1, 2, 3), ()])
    assert found((), lambda _: True) == ((), [()])
    assert found((), lambda _: False) == (None, [()])


def test_a_repeated_phase_counts_each_time() -> None:
    twice = phases(1, 2, 1, 3)
    assert found(twice, lambda kept: kept.count(twice[0]) == 2)[0] == phases(1, 1)


@given(length=st.integers(1, 24), needed=st.sets(st.integers(0, 23), min_size=1, max_size=6))
def test_exactly_the_phases_that_matter_are_found(length: int, needed: set[int]) -> None:
    history = phases(*range(length))
    matter = tuple(each for number, each in enumerate(history) if number in needed)
    result, asked = found(history, lambda kept: bool(matter) and set(matter) <= set(kept))
    assert result == (matter or None)
    assert len(asked) == len(set(asked)), "no question is asked twice"
    assert len(asked) <= 2 + length * (length + 3), "delta debugging asks at most about n^2 questions"


@given(length=st.integers(1, 10), rng=st.randoms(use_true_random=False))
def test_whatever_the_answers_each_phase_of_the_result_is_needed(length: int, rng: Random) -> None:
    answers: dict[History, bool] = {phases(*range(length)): True, (): False}

    def brings(kept: History) -> bool:
        return answers.setdefault(kept, rng.random() < 0.4)

    result, asked = found(phases(*range(length)), brings)
    assert result is not None
    assert answers[result]
    assert is_subsequence(result, phases(*range(length)))
    assert all(is_subsequence(kept, phases(*range(length))) for kept in asked)
    without = [result[:index] + result[index + 1 :] for index in range(len(result))]
    assert not any(answers[each] for each in without), "all of them were asked about"


@pytest.mark.parametrize("length", [2, 3, 5, 8])
def test_if_all_phases_matter_all_are_kept(length: int) -> None:
    history = phases(*range(length))
    assert found(history, lambda kept: kept == history)[0] == history
