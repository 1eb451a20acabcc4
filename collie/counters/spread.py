"""Spread of readings, robust against outliers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

SPREAD_OF_NORMAL: Final = 1.4826
"""Standard deviation over median absolute deviation, for a normal distribution."""


def robust_spread(values: Sequence[float], middle: float) -> float:
    """Return the standard deviation of a normal distribution with the same median absolute deviation from `middle`.

    `middle` is the median of at least one value.
    """
    return SPREAD_OF_NORMAL * median(abs(value - middle) for value in values)
