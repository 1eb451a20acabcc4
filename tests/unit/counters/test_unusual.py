"""How unusual a rate is."""

from __future__ import annotations

from collections.abc import Sequence

from collie.counters.catalog import Catalog, Counter, CounterKind, Unit
from collie.counters.unusual import MAX_UNUSUAL, CounterBaseline

CATALOG = Catalog(
    "some",
    (
        Counter("packets", "model", Unit.PACKETS, CounterKind.PERFORMANCE, "wire"),
        Counter("drops", "model", Unit.PACKETS, CounterKind.DIAGNOSTIC, "wire"),
    ),
)


def judge_all(name: str, rates: Sequence[float | None]) -> list[float | None]:
    typical = CounterBaseline(CATALOG)
    return [typical.judge({name: rate})[name] for rate in rates]


def test_trouble_that_never_moved_is_unusual_at_once_and_until_it_is_the_rule() -> None:
    assert judge_all("drops", [0.0, 0.0, 3.0, 4.0]) == [None, None, MAX_UNUSUAL, MAX_UNUSUAL]


def test_trouble_that_never_ends_becomes_usual() -> None:
    assert judge_all("drops", [0.0, 0.0, *[3.0] * 8])[-1] == 0.0


def test_the_first_rate_says_nothing() -> None:
    assert judge_all("drops", [3.0]) == [None]


def test_traffic_has_to_be_known_for_a_while() -> None:
    assert judge_all("packets", [100.0, 102.0, 98.0, 500.0]) == [None] * 4


def test_a_rate_within_the_spread_is_usual_and_one_far_outside_is_not() -> None:
    steady = [100.0, 102.0, 98.0, 101.0, 99.0, 100.0]
    near, far = judge_all("packets", [*steady, 101.0])[-1], judge_all("packets", [*steady, 200.0])[-1]
    assert near is not None
    assert near <= 1.0
    assert far == MAX_UNUSUAL


def test_one_outlier_changes_neither_the_median_nor_the_spread() -> None:
    rates = [100.0, 102.0, 98.0, 1e9, 101.0, 99.0, 130.0]
    last = judge_all("packets", rates)[-1]
    assert last is not None
    assert last > 5


def test_perfectly_even_traffic_may_vary_by_some_per_cent() -> None:
    last = judge_all("packets", [100.0] * 6 + [101.0])[-1]
    assert last is not None
    assert last < 1


def test_traffic_that_begins_after_a_long_silence_is_unusual() -> None:
    assert judge_all("packets", [0.0] * 6 + [5.0])[-1] == MAX_UNUSUAL
    assert judge_all("packets", [0.0] * 7)[-1] == 0.0


def test_an_unknown_rate_is_neither_judged_nor_remembered() -> None:
    assert judge_all("drops", [None, 0.0, None, 2.0]) == [None, None, None, MAX_UNUSUAL]
