"""Arithmetic of the model beyond operators, for one point or for many at once.

A quantity is a number, or a NumPy array with one element per point. A flag is 0.0 or 1.0. Instead of branching, the
model calls `MANY`, or `ONE`, which is a few times faster for a single point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

import numpy as np

Quantity = Any

Vector = Sequence[Quantity]


class Numbers(Protocol):
    """The operations that differ between one point and many."""

    def least(self, *values: Quantity) -> Quantity:
        """Return the minimum, element by element."""

    def most(self, *values: Quantity) -> Quantity:
        """Return the maximum, element by element."""

    def log(self, value: Quantity) -> Quantity:
        """Return the natural logarithm of a positive value."""

    def share(self, value: Quantity) -> Quantity:
        """Return the value clipped to 0..1."""

    def choose(self, condition: Quantity, yes: Quantity, no: Quantity) -> Quantity:
        """Return `yes` where the condition holds, else `no`. Both are computed."""

    def exchange(self, flag: Quantity, first: Vector, second: Vector) -> tuple[Vector, Vector]:
        """Return two vectors, swapped where the flag is set."""

    def busiest(self, busy: Vector, costs: Vector) -> Quantity:
        """Return the largest `busy` among resources with a cost, or 0 if none has one."""

    def anywhere(self, flag: Quantity) -> bool:
        """Whether a flag is set at any point. The model skips unused quantities."""


class _One:
    least: Any = staticmethod(min)
    most: Any = staticmethod(max)
    log: Any = staticmethod(math.log)

    @staticmethod
    def share(value: Quantity) -> Quantity:
        return 0.0 if value <= 0.0 else value if value < 1.0 else 1.0

    @staticmethod
    def choose(condition: Quantity, yes: Quantity, no: Quantity) -> Quantity:
        return yes if condition else no

    @staticmethod
    def exchange(flag: Quantity, first: Vector, second: Vector) -> tuple[Vector, Vector]:
        return (second, first) if flag else (first, second)

    @staticmethod
    def busiest(busy: Vector, costs: Vector) -> Quantity:
        top = 0.0
        for value, cost in zip(busy, costs, strict=True):
            if cost and value > top:
                top = value
        return top

    @staticmethod
    def anywhere(flag: Quantity) -> bool:
        return bool(flag)


class _Many:
    @staticmethod
    def least(*values: Quantity) -> Quantity:
        return reduce(np.minimum, values)

    @staticmethod
    def most(*values: Quantity) -> Quantity:
        return reduce(np.maximum, values)

    log: Any = staticmethod(np.log)

    @staticmethod
    def share(value: Quantity) -> Quantity:
        return np.minimum(1.0, np.maximum(0.0, value))

    @staticmethod
    def choose(condition: Quantity, yes: Quantity, no: Quantity) -> Quantity:
        return np.where(condition, yes, no)

    @staticmethod
    def exchange(flag: Quantity, first: Vector, second: Vector) -> tuple[Vector, Vector]:
        pairs = list(zip(first, second, strict=True))
        return [np.where(flag, b, a) for a, b in pairs], [np.where(flag, a, b) for a, b in pairs]

    @staticmethod
    def busiest(busy: Vector, costs: Vector) -> Quantity:
        used = (np.where(np.asarray(cost) != 0, value, 0.0) for value, cost in zip(busy, costs, strict=True))
        return reduce(np.maximum, used)

    @staticmethod
    def anywhere(flag: Quantity) -> bool:
        return bool(np.any(flag))


ONE: Numbers = _One()
MANY: Numbers = _Many()
