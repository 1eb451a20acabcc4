"""Confidence intervals of a share counted in a few runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval for a share, 0..1, that holds the true share with a chance of `confidence`."""

    low: float
    high: float
    confidence: float


def wilson(reproduced: int, runs: int, confidence: float = CONFIDENCE) -> Interval | None:
    """Return Wilson's score interval of a share (E. B. Wilson, JASA 22, 1927), or None without a run.

    Averaged over true shares, it keeps its level even for a handful of runs. The exact interval of Clopper and Pearson
    never falls below its level but is wider (Brown, Cai and DasGupta, Statistical Science 16, 2001). A bundle computes
    this interval on hosts without scipy, so `scipy.stats` cannot.
    """
    if runs == 0:
        return None
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    share, spread = reproduced / runs, z * z / runs
    middle = share + spread / 2.0
    half = z * math.sqrt(share * (1.0 - share) / runs + spread / (4.0 * runs))
    low, high = (middle - half) / (1.0 + spread), (middle + half) / (1.0 + spread)
    # The ends 0 and 1 are set, because rounding would miss them.
    return Interval(
        0.0 if reproduced == 0 else max(0.0, low), 1.0 if reproduced == runs else min(1.0, high), confidence
    )
