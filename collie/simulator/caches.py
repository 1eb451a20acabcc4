"""Hit ratios from working sets."""

from __future__ import annotations


def miss_ratio(working_set: float, entries: float, sharpness: float, conflict_ratio: float) -> float:
    """Return the share of lookups that miss a cache.

    With x = working set / entries, capacity misses follow x^k / (1 + x^k): half of the lookups when the working set is
    as large as the cache, and a step there for large k (cyclic use under LRU). Limited associativity adds conflict
    misses from the first entries on: that two want one place becomes likelier with x^2. They are why the counters
    move long before throughput does.

    Args:
        working_set: entries in use, in any order, equally often.
        entries: capacity.
        sharpness: k.
        conflict_ratio: share of lookups that miss by conflict at x = 1, and twice that in the limit.
    """
    x = working_set / entries
    power = x**sharpness if x < 1e6 else float("inf")
    capacity = 1.0 if power == float("inf") else power / (1.0 + power)
    conflict = min(1.0, 2.0 * conflict_ratio / (1.0 + 1.0 / (x * x))) if x else 0.0
    return 1.0 - (1.0 - capacity) * (1.0 - conflict)


def overrun(amount: float, window: float) -> float:
    """Return the share of demand that a double-buffered window of fetches does not hide.

    Up to one window everything is ahead in time. From two windows on the second half of the buffer is overwritten
    before it is used and nothing is; between the two the share grows linearly.
    """
    return min(1.0, max(0.0, amount / window - 1.0))


def pressure(amount: float, limit: float) -> float:
    """Return how close demand comes to where it overruns a window, 0..1, quadratically: the counters' early part."""
    return min(1.0, amount / limit) ** 2
