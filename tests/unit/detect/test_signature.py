"""Which counters stand out in a run, and whether two runs may have one cause."""

from __future__ import annotations

import pytest

from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.signature import (
    Levels,
    Ordinary,
    Signature,
    contained,
    likeness,
    mean_signature,
    same_cause,
    same_counters,
)

CATALOG = Catalog(
    "test",
    (
        Counter("misses", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "cache"),
        Counter("stalls", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "pcie"),
        Counter("rx_packets", "model", Unit.PACKETS, CounterKind.PERFORMANCE, "wire", role=Role.RX_PACKETS),
    ),
)


def reading(packets: float = 1e6, **counters: float | None) -> Measurement:
    return Measurement((HostMeasurement("a"), HostMeasurement("b", counters={**counters, "rx_packets": packets})), 4.0)


def used_to(*healthy: Measurement) -> Ordinary:
    ordinary = Ordinary(CATALOG)
    for measurement in healthy:
        ordinary.learn(measurement)
    return ordinary


HEALTHY = [reading(misses=1e4 * share, stalls=1e3 * share) for share in range(1, 21)]


def test_raised_is_what_nearly_no_healthy_run_reads_per_packet() -> None:
    ordinary = used_to(*HEALTHY)
    assert ordinary.levels.signature(reading(misses=1e5, stalls=1e4)) == Signature(())
    raised = ordinary.levels.signature(reading(misses=4 * 2e5, stalls=1e4)).raised
    assert [name for name, _ in raised] == ["misses"]
    assert raised[0][1] == pytest.approx(2.0, abs=0.1)
    assert ordinary.levels.signature(reading(misses=1.1 * 2e5, stalls=1e4)) == Signature(()), "it varies by as much"
    assert ordinary.levels.signature(reading(packets=1e7, misses=4 * 2e5, stalls=1e4)) == Signature(())


def test_the_counter_furthest_above_ordinary_comes_first() -> None:
    raised = used_to(*HEALTHY).levels.signature(reading(misses=4 * 2e5, stalls=64 * 2e4)).raised
    assert [name for name, _ in raised] == ["stalls", "misses"]


def test_counters_that_are_equally_high_are_in_the_order_of_their_names() -> None:
    """Otherwise the highest counter, which decides whether two runs have one cause, would depend on chance."""
    raised = tuple((name, 2.0) for name in ("drops", "errors", "misses", "stalls", "waits"))
    assert mean_signature([Signature(raised[::-1])]) == Signature(raised)
    levels = Levels(dict.fromkeys(("stalls", "misses"), 1e-3), ("rx_packets",))
    alike = levels.signature(reading(misses=4e3, stalls=4e3)).raised
    assert [name for name, _ in alike] == ["misses", "stalls"]


def test_few_healthy_runs_and_unknown_counters_do_not_discriminate() -> None:
    assert used_to(*HEALTHY[:5]).levels.signature(reading(misses=1e9)) == Signature(())
    assert used_to(*HEALTHY).levels.signature(reading(misses=None)) == Signature(())


def test_runs_are_alike_when_their_counters_move_the_same_way() -> None:
    first = Signature((("misses", 8.0), ("stalls", 2.0)))
    weaker = Signature((("misses", 2.0),))
    other = Signature((("drops", 9.0), ("stalls", 1.0)))
    assert likeness(first, first) == pytest.approx(1.0)
    assert likeness(first, weaker) > 0.75
    assert likeness(first, other) < 0.2


@pytest.mark.parametrize("silent", [None, Signature(()), Signature((("misses", 0.3),))])
def test_a_silent_run_is_like_silent_ones_and_unlike_loud_ones(silent: Signature | None) -> None:
    assert likeness(silent, Signature(())) > 0.95
    assert likeness(silent, Signature((("drops", 8.0),))) < 0.3
    assert likeness(Signature((("drops", 8.0),)), silent) < 0.3


MISSES = Signature((("misses", 5.0), ("stalls", 2.0)))


@pytest.mark.parametrize(
    ("other", "here", "elsewhere"),
    [
        (Signature((("misses", 4.0), ("stalls", 2.0))), True, True),
        (Signature((("misses", 4.0), ("stalls", 4.0))), True, True),
        (Signature((("misses", 4.0), ("drops", 3.0))), True, False),  # between opcodes, more has to agree
        (Signature((("stalls", 5.0), ("misses", 4.9))), False, False),  # another counter is the highest
        (Signature((("misses", 4.0), ("drops", 3.9), ("waits", 3.9))), False, False),
        (Signature(), False, False),
        (None, False, False),
    ],
)
def test_runs_have_one_cause_when_the_same_counter_is_highest_and_most_move_alike(
    other: Signature | None, here: bool, elsewhere: bool
) -> None:
    assert same_cause(MISSES, other, elsewhere=False) is same_cause(other, MISSES, elsewhere=False) is here
    assert same_cause(MISSES, other, elsewhere=True) is elsewhere


def test_the_mean_counts_a_run_that_does_not_raise_a_counter_and_leaves_out_what_is_hardly_raised() -> None:
    runs = [Signature((("misses", 4.0), ("stalls", 0.5))), Signature((("misses", 2.0), ("drops", 8.0)))]
    assert mean_signature(runs) == Signature((("drops", 4.0), ("misses", 3.0)))


def test_a_movement_is_contained_in_one_that_is_as_high_in_the_same_counters() -> None:
    both = Signature((("misses", 5.0), ("drops", 4.0), ("stalls", 2.0)))
    assert contained(MISSES, both) == 1.0
    assert contained(both, MISSES) == pytest.approx(7 / 11)
    assert contained(MISSES, Signature((("misses", 2.5), ("drops", 9.0)))) == pytest.approx(2.5 / 7)
    assert contained(MISSES, None) == contained(None, MISSES) == contained(Signature(), MISSES) == 0.0


def test_counters_of_one_workload_moved_alike_or_not_or_not_at_all() -> None:
    assert same_counters(MISSES, Signature((("misses", 4.0),))) is True
    assert same_counters(MISSES, Signature((("drops", 5.0),))) is False
    assert same_counters(MISSES, Signature()) is same_counters(Signature(), MISSES) is False
    assert same_counters(Signature(), Signature()) is None
