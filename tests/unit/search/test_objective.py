"""Ranking of counters, and the energy of a run."""

from __future__ import annotations

import pytest

from collie.search.objective import Objective, rank
from tests.support.driven_counters import CATALOG, reading


def test_counters_are_ranked_by_std_over_mean_diagnostics_first() -> None:
    points = [
        reading(misses=100.0, stalls=1.0, still=5.0, absent=None, rx_bytes=10.0),
        reading(misses=120.0, stalls=9.0, still=5.0, absent=None, rx_bytes=90.0),
    ]
    assert rank(CATALOG, points) == (
        Objective("stalls", rises=True), Objective("misses", rises=True), Objective("rx_bytes", rises=False),
    )  # fmt: skip


def test_without_any_moving_counter_performance_is_driven() -> None:
    assert rank(CATALOG, [reading(still=1.0)]) == (Objective("rx_bytes", rises=False),)


def test_energy_is_the_relative_change_and_negative_when_worse() -> None:
    assert Objective("misses", rises=True).energy(100, 200) == pytest.approx(-0.5)
    assert Objective("rx_bytes", rises=False).energy(100, 50) == pytest.approx(-0.5)
    assert Objective("misses", rises=True).energy(0, 0) == 0
