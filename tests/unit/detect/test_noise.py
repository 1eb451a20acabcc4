"""The show rate of an anomaly, from its repeated runs."""

from __future__ import annotations

import pytest

from collie.detect.noise import Noise, show_rate


def test_before_any_repetition_it_most_likely_always_shows() -> None:
    found = show_rate(Noise(), 0, 0)
    assert found.always == pytest.approx(0.85)
    assert 0.9 <= found.mean <= 0.95


def test_repetitions_that_show_make_it_surer() -> None:
    assert show_rate(Noise(), 3, 0).always > 0.9
    assert show_rate(Noise(), 10, 0).mean > 0.98


def test_healthy_repetitions_lower_it() -> None:
    assert show_rate(Noise(), 2, 1).always < 0.5
    assert show_rate(Noise(), 12, 8).mean == pytest.approx(0.6, abs=0.08)


def test_on_a_noisy_testbed_a_healthy_repetition_means_less() -> None:
    assert show_rate(Noise(miss_rate=0.15), 3, 1).always > show_rate(Noise(), 3, 1).always
