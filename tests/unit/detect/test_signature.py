"""Which counters stand out in a run, and whether two runs may have one cause."""

from __future__ import annotations

import pytest

from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.signature import Ordinary, Signature, likeness, same_cause

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
    assert ordinary.levels.signature(reading(packets=1e7, misses=4 * 2e5, stalls=1e4)) == Signature(())


def test_the_counter_furthest_above_ordinary_comes_first() -> None:
    raised = used_to(*HEALTHY).levels.signature(reading(misses=4 * 2e5, stalls=64 * 2e4)).raised
    assert [name for name, _ in raised] == ["stalls", "misses"]


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
