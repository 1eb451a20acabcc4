"""Miss ratios of caches, and the overrun of a fixed capacity."""

from __future__ import annotations

from collie.simulator.numbers import Numbers, Quantity


def miss_ratio(working_set: Quantity, entries: float, sharpness: float, conflict_ratio: float) -> Quantity:
    """Return the share of lookups that miss a cache of equally used entries.

    With x = working set / entries, capacity misses follow x^sharpness / (1 + x^sharpness): nearly a step for cyclic use
    under LRU. Limited associativity adds conflict misses that grow with x^2, `conflict_ratio` (at most 1/2) at x = 1.
    They move the counters long before throughput falls.
    """
    x = working_set / entries
    square = x * x
    conflict = 2.0 * conflict_ratio * square / (1.0 + square)
    return 1.0 - (1.0 - conflict) / (1.0 + x**sharpness)


def overrun(numbers: Numbers, amount: Quantity, room: float) -> Quantity:
    """Return the chance to be pushed out of a room: 0 if the amount fits, rising evenly to 1 at twice the room."""
    return numbers.share(amount / room - 1.0)


def excess(numbers: Numbers, amount: Quantity, room: Quantity) -> Quantity:
    """Return the share of an amount that does not fit a room."""
    return numbers.most(0.0, 1.0 - room / amount)


def within(numbers: Numbers, amount: Quantity, limit: float) -> Quantity:
    """Return 1 up to the limit, falling to 0 from twice the limit on."""
    return numbers.share(2.0 - amount / limit)
