"""The shortest history: what it keeps, and how many probes it takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from collie.search.history import shortest_history

Shows = Callable[[tuple[int, ...]], bool]


def found(before: range, shows: Shows) -> tuple[tuple[int, ...] | None, list[tuple[int, ...]]]:
    """Return the history, and what was asked."""
    asked: list[tuple[int, ...]] = []
    probes = shortest_history(before)
    try:
        candidate = next(probes)
        while True:
            asked.append(candidate)
            candidate = probes.send(shows(candidate))
    except StopIteration as stop:
        return stop.value, asked


def needs(*phases: int) -> Shows:
    return lambda history: set(phases) <= set(history)


def test_what_does_not_show_again_after_everything_is_none_and_takes_one_probe() -> None:
    assert found(range(20), lambda _: False) == (None, [tuple(range(20))])


def test_what_the_set_up_alone_brings_has_no_history() -> None:
    assert found(range(20), lambda _: True) == ((), [tuple(range(20)), ()])
    assert found(range(0), lambda _: True) == ((), [()])


@pytest.mark.parametrize("phase", range(16))
def test_one_phase_of_sixteen_is_found_by_bisection(phase: int) -> None:
    history, asked = found(range(16), needs(phase))
    assert history == (phase,)
    assert len(asked) <= 2 + 2 * 4


def test_the_last_of_several_phases_that_suffice_is_kept() -> None:
    """It is the likeliest one, so it is asked first."""
    assert found(range(8), lambda history: bool({1, 7} & set(history)))[0] == (7,)


def test_phases_keep_their_order() -> None:
    def in_order(history: tuple[int, ...]) -> bool:
        return needs(2, 9)(history) and history.index(2) < history.index(9)

    assert found(range(12), in_order)[0] == (2, 9)


@given(st.integers(1, 24), st.data())
def test_all_needed_phases_stay_and_no_other(count: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, count - 1)))
    history, asked = found(range(count), needs(*needed))
    assert history == tuple(sorted(needed))
    assert len(asked) == len(set(asked))


@given(st.integers(1, 12), st.data())
def test_no_single_phase_can_be_taken_away(count: int, data: st.DataObject) -> None:
    """The answer may depend on the sequence in any way, as long as it is the same each time."""
    answers: dict[tuple[int, ...], bool] = {tuple(range(count)): True, (): False}

    def shows(history: tuple[int, ...]) -> bool:
        if history not in answers:
            answers[history] = data.draw(st.booleans(), label=str(history))
        return answers[history]

    history, asked = found(range(count), shows)
    assert history is not None
    assert answers[history]
    shorter = [history[:place] + history[place + 1 :] for place in range(len(history))]
    assert not any(answers.get(each, True) for each in shorter)
    assert len(asked) <= count * count + 3 * count + 2
