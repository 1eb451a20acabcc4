"""Hit ratios from working sets, and what overruns a fixed amount of room."""

from __future__ import annotations

from collie.simulator.numbers import Numbers, Quantity


def miss_ratio(working_set: Quantity, entries: float, sharpness: float, conflict_ratio: float) -> Quantity:
    """Return the share of lookups that miss a cache.

    With x = working set / entries, capacity misses follow x^k / (1 + x^k): half of the lookups when the working set is
    as large as the cache, and a step there for large k (cyclic use under LRU). Limited associativity adds conflict
    misses from the first entries on: that two want one place becomes likelier with x^2. They are why the counters
    move long before throughput does.

    Args:
        working_set: entries in use, in any order, equally often.
        entries: capacity.
        sharpness: k.
        conflict_ratio: share of lookups that miss by conflict at x = 1, and twice that in the limit; at most 1/2.
    """
    x = working_set / entries
    square = x * x
    conflict = 2.0 * conflict_ratio * square / (1.0 + square)
    return 1.0 - (1.0 - conflict) / (1.0 + x**sharpness)


def overrun(numbers: Numbers, amount: Quantity, room: float) -> Quantity:
    """Return to what degree an amount exceeds the room for it: 0 as long as it fits, 1 from a quarter more on."""
    return numbers.share(4.0 * (amount / room - 1.0))


def within(numbers: Numbers, amount: Quantity, limit: float) -> Quantity:
    """Return to what degree an amount counts as small: 1 up to the limit, 0 from twice that on."""
    return numbers.share(2.0 - amount / limit)


def pressure(numbers: Numbers, amount: Quantity, room: float) -> Quantity:
    """Return how close demand comes to overrunning its room, 0..1, quadratically: the counters' early part."""
    ratio = numbers.least(1.0, amount / (1.25 * room))
    return ratio * ratio
