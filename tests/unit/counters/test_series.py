"""Differences, rates and stability of counters."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from collie.counters.catalog import Catalog, Counter, CounterKind, Ignored, Role, Unit
from collie.counters.series import Snapshot, difference, is_level, is_stable, rates, rates_at, resets

WIDE = Counter("wide", "model", Unit.PACKETS, CounterKind.PERFORMANCE, "port")
NARROW = Counter("narrow", "ethtool", Unit.EVENTS, CounterKind.DIAGNOSTIC, "queue", width=32)
WORDS = Counter("words", "counters", Unit.BYTES, CounterKind.PERFORMANCE, "port", scale=4)
LEVEL = Counter("level", "ethtool", Unit.PERCENT, CounterKind.DIAGNOSTIC, "pcie", gauge=True)
CATALOG = Catalog("test", (WIDE, NARROW, WORDS, LEVEL))


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**31))
def test_a_difference_is_right_across_a_wrap(before: int, advance: int) -> None:
    assert difference(NARROW, before, (before + advance) % 2**32) == advance


def test_a_counter_that_was_reset_has_no_difference() -> None:
    assert difference(WIDE, 10**12, 5) is None
    assert difference(NARROW, 100, 99) is None


def test_a_missing_reading_stays_missing() -> None:
    assert difference(WIDE, None, 5) is None
    snapshots = [Snapshot(0.0, {"wide": 1}), Snapshot(1.0, {"wide": None}), Snapshot(2.0, {"wide": 3})]
    assert rates(CATALOG, snapshots) == {"wide": None, "narrow": None, "words": None, "level": None}


def test_rates_follow_the_readers_own_clock_and_gauges_are_averaged() -> None:
    snapshots = [
        Snapshot(10.0, {"wide": 100, "narrow": 2**32 - 10, "words": 0, "level": 30}),
        Snapshot(10.5, {"wide": 200, "narrow": 5, "words": 10, "level": 50}),
        Snapshot(12.0, {"wide": 500, "narrow": 25, "words": 20, "level": 40}),
    ]
    assert rates(CATALOG, snapshots) == {"wide": 200.0, "narrow": 17.5, "words": 40.0, "level": 40.0}


def test_one_snapshot_has_no_rate() -> None:
    assert rates(CATALOG, [Snapshot(0.0, {"wide": 1})])["wide"] is None


def test_a_stable_window_has_four_samples_of_one_level() -> None:
    assert is_stable([100, 101, 99, 100], 0.05)
    assert not is_stable([100, 101, 99], 0.05)
    assert not is_stable([100, 150, 50, 100], 0.05)
    assert is_stable([0, 0, 0, 0], 0.05)
    assert not is_stable([0, 0, -1, 0], 0.05)


def test_what_swings_about_one_level_has_it_once_its_mean_is_known_as_well_as_a_stable_one() -> None:
    swinging = [80, 120] * 20
    assert not is_stable(swinging, 0.1)
    assert is_level(swinging, 0.1, typical=10)
    assert not is_level(swinging[:38], 0.1, typical=10)
    rising = [*[70, 110] * 10, *[90, 130] * 10]
    assert not is_level(rising, 0.1, typical=5)
    assert is_level(rising, 0.25, typical=5)


def test_too_few_or_no_values_are_no_level() -> None:
    assert not is_level([100] * 7, 0.1, typical=1)
    assert is_level([0] * 8, 0.1, typical=8)
    assert not is_level([0, 0, 0, 0, 0, 0, 0, -1], 0.1, typical=8)


def test_a_catalog_finds_by_name_and_kind() -> None:
    assert CATALOG.find("words") is WORDS
    assert CATALOG.find("gone") is None
    assert CATALOG.of_kind(CounterKind.DIAGNOSTIC) == (NARROW, LEVEL)


# --- Saturation and resets --------------------------------------------------------------------------------------------

SATURATING = Counter("errors", "counters", Unit.EVENTS, CounterKind.ERROR, "cable", width=16, saturates=True)


def test_a_counter_that_saturates_never_wraps() -> None:
    assert difference(SATURATING, 10, 12) == 2
    assert difference(SATURATING, 65_530, 5) is None  # cleared, as anybody may
    assert difference(SATURATING, 65_530, 65_535) is None  # at its end: it may have been any number more


def test_a_reset_is_named_and_a_wrap_is_none() -> None:
    catalog = Catalog("test", (WIDE, NARROW, LEVEL, SATURATING))
    before = {"wide": 10**12, "narrow": 2**32 - 1, "level": 80, "errors": 7}
    after = {"wide": 5, "narrow": 3, "level": 10, "errors": 0}
    assert resets(catalog, [Snapshot(0.0, before), Snapshot(1.0, after)]) == ("wide", "errors")
    assert (
        resets(catalog, [Snapshot(0.0, before), Snapshot(1.0, {**before, "wide": None}), Snapshot(2.0, before)]) == ()
    )


# --- Counters that are refreshed once a second ------------------------------------------------------------------------

SLOW = Counter(
    "slow", "ethtool", Unit.BYTES, CounterKind.PERFORMANCE, "port", refresh_seconds=1.0, role=Role.RX_PACKETS
)
PERIOD = 0.25


def refreshed(
    true_rate: float, phase: float, seconds: float, stops: float = math.inf, starts: float = 0.0
) -> list[Snapshot]:
    """Samples of a counter that the driver last refreshed at a whole second past `phase`."""

    def reading(t: float) -> int:
        refresh = math.floor(t - phase) + phase
        return 10**6 + int(true_rate * max(0.0, min(refresh, stops) - starts))

    return [Snapshot(t, {"slow": reading(t)}) for t in (PERIOD * i for i in range(round(seconds / PERIOD) + 1))]


def slow_rate(snapshots: list[Snapshot]) -> float | None:
    return rates(Catalog("test", (SLOW,)), snapshots)["slow"]


@given(st.floats(0, 0.99), st.sampled_from([4.0, 4.5, 4.75, 6.0]))
def test_a_steady_rate_is_right_wherever_the_refreshes_fall(phase: float, seconds: float) -> None:
    # Counted over the whole window, five refreshes in 4 s would read 25 % too much, three 25 % too little. The first
    # and the last step are each known to half a period of sampling; so many whole refreshes lie between them at least.
    between = int(seconds) - 1
    assert slow_rate(refreshed(1000.0, phase, seconds)) == pytest.approx(1000.0, rel=PERIOD / (between - PERIOD) + 1e-9)


def test_less_than_two_refreshes_are_no_evidence() -> None:
    assert slow_rate(refreshed(1000.0, 0.3, 1.5)) is None


def test_what_stands_still_for_several_refreshes_is_zero() -> None:
    assert slow_rate(refreshed(0.0, 0.3, 4.0)) == 0.0


def test_traffic_that_ends_within_the_window_is_not_spread_over_the_steps_alone() -> None:
    rate = slow_rate(refreshed(1000.0, 0.0, 8.0, stops=4.0))
    assert rate is not None
    assert 400 <= rate <= 600


def test_traffic_that_begins_within_the_window_counts_from_the_windows_beginning() -> None:
    rate = slow_rate(refreshed(1000.0, 0.0, 8.0, starts=4.0))
    assert rate is not None
    assert 400 <= rate <= 600


def test_from_sample_to_sample_a_slow_counter_has_the_rate_of_its_last_refreshes() -> None:
    snapshots = refreshed(1000.0, 0.3, 6.0)
    catalog = Catalog("test", (SLOW,))
    found = [rates_at(catalog, snapshots, index)["slow"] for index in range(1, len(snapshots))]
    early = round(2.0 / PERIOD) - 1
    assert found[:early] == [None] * early  # nobody can tell before two refreshes
    assert found[early:] == pytest.approx([1000.0] * (len(found) - early), rel=2 * PERIOD)


def test_from_sample_to_sample_a_fast_counter_has_the_rate_since_the_last() -> None:
    snapshots = [Snapshot(0.0, {"wide": 0}), Snapshot(1.0, {"wide": 5}), Snapshot(2.0, {"wide": 25})]
    assert rates_at(Catalog("test", (WIDE,)), snapshots, 2) == {"wide": 20.0}


def test_a_single_step_lies_somewhere_in_the_window() -> None:
    snapshots = [Snapshot(PERIOD * i, {"slow": 7 if i < 8 else 15}) for i in range(17)]
    assert slow_rate(snapshots) == pytest.approx(8 / 4.0)


# --- What a catalog says of a port ------------------------------------------------------------------------------------


def test_the_slowest_counter_that_decides_is_known() -> None:
    lazy = Counter("lazy", "ethtool", Unit.PERCENT, CounterKind.DIAGNOSTIC, "pcie", refresh_seconds=60.0)
    assert Catalog("test", (WIDE, SLOW, lazy)).slowest_deciding_seconds == 1.0
    assert CATALOG.slowest_deciding_seconds == 0.0


def test_what_is_left_out_needs_its_source_and_the_whole_name() -> None:
    catalog = Catalog("test", (WIDE,), ignored=(Ignored("rx[0-9]+_.*", "ethtool", "queues"),))
    names = {"model": ["wide", "wider"], "ethtool": ["rx0_packets", "prx0_packets"], "netdev": ["rx0_packets"]}
    assert catalog.unmapped(names) == (
        ("model", "wider"),
        ("ethtool", "prx0_packets"),
        ("netdev", "rx0_packets"),
    )


def test_a_single_step_in_a_short_window_is_spread_over_it() -> None:
    snapshots = [Snapshot(PERIOD * i, {"slow": 7 if i < 5 else 16}) for i in range(10)]
    assert slow_rate(snapshots) == pytest.approx(9 / 2.25)
