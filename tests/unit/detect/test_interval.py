"""How well a share is known from a few runs."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from collie.detect.interval import wilson


@pytest.mark.parametrize(
    ("reproduced", "runs", "low", "high"),
    [  # the last is from Newcombe 1998, table I
        (5, 5, 0.565518, 1.0),
        (0, 10, 0.0, 0.277533),
        (8, 10, 0.490162, 0.943318),
        (1, 3, 0.061492, 0.792340),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_the_interval_is_wilsons(reproduced: int, runs: int, low: float, high: float) -> None:
    found = wilson(reproduced, runs)
    assert found is not None
    assert found.low == pytest.approx(low, abs=1e-4)
    assert found.high == pytest.approx(high, abs=1e-4)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("runs", [1, 2, 5, 17, 300])
def test_the_interval_is_that_of_scipy(runs: int, confidence: float) -> None:
    for reproduced in range(runs + 1):
        found = wilson(reproduced, runs, confidence)
        expected = binomtest(reproduced, runs).proportion_ci(confidence, method="wilson")
        assert found is not None
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_more_confidence_is_a_wider_interval_and_no_run_is_none() -> None:
    wide, narrow = wilson(3, 5, 0.99), wilson(3, 5, 0.8)
    assert wide is not None
    assert narrow is not None
    assert wide.low < narrow.low < 0.6 < narrow.high < wide.high
    assert wilson(0, 0) is None
