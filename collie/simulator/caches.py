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
    """Return the share that is pushed out of a first-in, first-out room: 0 if it fits, 1 from twice the room on."""
    return numbers.share(amount / room - 1.0)


def pushed_out(numbers: Numbers, amount: Quantity, room: float) -> Quantity:
    """Return the share that is pushed out of a room with random replacement, all of it from twice the room on.

    An entry is lost when two others take its place, so the share grows with the square of the amount.
    """
    half = numbers.least(1.0, amount / (2.0 * room))
    return half * half


def excess(numbers: Numbers, amount: Quantity, room: Quantity) -> Quantity:
    """Return the share of an amount that does not fit a room."""
    return numbers.most(0.0, 1.0 - room / amount)
