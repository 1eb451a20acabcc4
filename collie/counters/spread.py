"""How far readings lie apart, in a way that a few outliers do not move. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

SPREAD_OF_NORMAL: Final = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def robust_spread(values: Sequence[float], middle: float) -> float:
    """Return the standard deviation of normal readings that deviate from their median as these do.

    Args:
        values: at least one.
        middle: their median, in the same unit.
    """
    return SPREAD_OF_NORMAL * median(abs(value - middle) for value in values)
