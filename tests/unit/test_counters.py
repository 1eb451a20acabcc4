"""Differences, rates and stability of counters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collie.counters.catalog import Catalog, Counter, Kind, Unit
from collie.counters.series import Snapshot, difference, is_stable, rates

WIDE = Counter("wide", "model", Unit.PACKETS, Kind.PERFORMANCE, "port")
NARROW = Counter("narrow", "ethtool", Unit.EVENTS, Kind.DIAGNOSTIC, "queue", width=32)
WORDS = Counter("words", "counters", Unit.BYTES, Kind.PERFORMANCE, "port", scale=4)
LEVEL = Counter("level", "ethtool", Unit.PERCENT, Kind.DIAGNOSTIC, "pcie", gauge=True)
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


def test_a_catalog_finds_by_name_and_kind() -> None:
    assert CATALOG.find("words") is WORDS
    assert CATALOG.find("gone") is None
    assert CATALOG.of_kind(Kind.DIAGNOSTIC) == (NARROW, LEVEL)
