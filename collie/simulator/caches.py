"""Miss ratios of caches, and the overrun of a fixed capacity."""

from __future__ import annotations

from collie.simulator.numbers import Numbers, Quantity


def miss_ratio(working_set: Quantity, entries: float, sharpness: float, conflict_ratio: float) -> Quantity:
    """Return the share of lookups that miss a cache.

    With x = working set / entries, capacity misses follow x^k / (1 + x^k): one half at x = 1, and a step there for
    large k (cyclic use under LRU). Limited associativity adds conflict misses from the first entries on: the chance
    that two entries want one place grows with x^2. They move the counters long before throughput falls.

    Args:
        working_set: entries in use, in any order, equally often.
        entries: capacity.
        sharpness: k.
        conflict_ratio: share of conflict misses at x = 1. The limit is twice that. At most 1/2.
    """
    x = working_set / entries
    square = x * x
    conflict = 2.0 * conflict_ratio * square / (1.0 + square)
    return 1.0 - (1.0 - conflict) / (1.0 + x**sharpness)


def overrun(numbers: Numbers, amount: Quantity, room: float) -> Quantity:
    """Return the degree of overrun: 0 if the amount fits, 1 from 1.25 times the room on."""
    return numbers.share(4.0 * (amount / room - 1.0))


def within(numbers: Numbers, amount: Quantity, limit: float) -> Quantity:
    """Return the degree of smallness: 1 up to the limit, 0 from twice the limit on."""
    return numbers.share(2.0 - amount / limit)


def pressure(numbers: Numbers, amount: Quantity, room: float) -> Quantity:
    """Return how close demand comes to an overrun, 0..1, squared, so that counters rise early."""
    ratio = numbers.least(1.0, amount / (1.25 * room))
    return ratio * ratio
