"""The deviation from the peers that chance does not explain."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

EFFICIENCY: Final = 0.37
"""A median absolute deviation of n normal readings is as precise as a standard deviation of 0.37 n (large n, Rousseeuw
and Croux, JASA 88, 1993)."""


def freedom(readings: int) -> int:
    """Return the degrees of freedom of a spread."""
    return max(1, int(EFFICIENCY * (readings - 1)))


@lru_cache(maxsize=4096)
def bar(tail: float, degrees: int) -> float:
    """Return the deviation, in spreads, that chance exceeds on one side with probability `tail` < 0.5.

    The spread is an estimate, so Student's t applies.
    """
    from scipy.stats import t

    return float(t.isf(tail, degrees))
