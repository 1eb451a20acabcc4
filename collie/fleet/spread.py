"""The deviation from the peers that chance does not explain."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

EFFICIENCY: Final = 0.37
"""A median absolute deviation of n normal readings is as precise as a standard deviation of 0.37 n (large n, Rousseeuw
and Croux, JASA 88, 1993)."""
_LIKE_NORMAL: Final = 400
"""Degrees of freedom from which Student's t is like normal."""


def freedom(readings: int) -> int:
    """Return the degrees of freedom of a spread."""
    return max(1, int(EFFICIENCY * (readings - 1)))


@lru_cache(maxsize=4096)
def bar(tail: float, degrees: int) -> float:
    """Return the deviation, in spreads, that chance exceeds on one side with probability `tail` < 0.5.

    The spread is an estimate, so Student's t applies.
    """
    if degrees >= _LIKE_NORMAL:
        return -NormalDist().inv_cdf(tail)
    low, high = 0.0, 1.0
    while _beyond(high, degrees) > tail:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2.0
        if _beyond(middle, degrees) > tail:
            low = middle
        else:
            high = middle
    return high


def _beyond(t: float, degrees: int) -> float:
    """Return the probability that Student's t exceeds `t` > 0: half the incomplete beta function I_x(v/2, 1/2)."""
    x = degrees / (degrees + t * t)
    return 0.5 * _incomplete_beta(x, degrees / 2.0, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return I_x(a, b) by its continued fraction (Abramowitz and Stegun 26.5.8, evaluated after Lentz)."""
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):  # where the fraction converges slowly, its mirror image converges fast
        return 1.0 - _incomplete_beta(1.0 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    fraction = d
    for m in range(1, 200):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / (1.0 + step * d)
            c = 1.0 + step / c
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return math.exp(front) * fraction / a
