"""The three kinds of dimension of a space.

A *range* is every value that the hardware takes. A *ladder* is the values that a search draws from, about log-spaced,
with the range's limits. *Plain* is the value of an unremarkable application. *Changes* is `setup` if the space makes a
new set-up for each value. The verbs API can demand one although the space does not (`setup.changes_with`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from collie.workloads.setup import Changes
from collie.workloads.units import format_field


@dataclass(frozen=True, slots=True)
class Choice:
    """A dimension without order, its values simplest first. With `keep_in_sibling` a plain sibling keeps the value."""

    name: str
    values: tuple[Any, ...]
    plain: Any
    keep_in_sibling: bool = False
    changes: Changes = Changes.TRAFFIC

    def size(self) -> int:
        """Number of values in range."""
        return len(self.values)

    def candidates(self) -> tuple[Any, ...]:
        """Values that a search draws from."""
        return self.values

    def neighbour(self, value: Any, rng: Random) -> Any:
        """Draw another value, or the same one if there is no other."""
        others = [other for other in self.values if other != value]
        return rng.choice(others) if others else value

    def complaint(self, value: Any) -> str | None:
        """Return the reason why a value lies outside, if it does."""
        if value in self.values:
            return None
        return f"{_said(self.name, value)} is not in this space; one of {_listed(self.name, self.values)}"


@dataclass(frozen=True, slots=True)
class Ordered:
    """A dimension of whole numbers.

    Attributes:
        low, high: limits of the range, inclusive.
        step: distance between values of the range.
        ladder: the steps, ascending.
        ladder_only: no value exists between two steps of the ladder (path MTUs).
    """

    name: str
    low: int
    high: int
    ladder: tuple[int, ...]
    plain: int
    step: int = 1
    keep_in_sibling: bool = False
    ladder_only: bool = False
    changes: Changes = Changes.TRAFFIC

    def size(self) -> int:
        """Number of values in range."""
        if self.ladder_only:
            return len(self.ladder)
        return (self.high - self.low) // self.step + 1

    def candidates(self) -> tuple[Any, ...]:
        """Values that a search draws from."""
        return self.ladder

    def neighbour(self, value: int, rng: Random) -> int:
        """Draw another value: a neighbouring step, to follow a counter's slope, or any, to leave a plateau."""
        others = [other for other in self.ladder if other != value]
        if not others:
            return value
        if rng.random() < 0.5:
            below = [other for other in others if other < value][-1:]
            above = [other for other in others if other > value][:1]
            return rng.choice(below + above)
        return rng.choice(others)

    def complaint(self, value: int) -> str | None:
        """Return the reason why a value lies outside, if it does."""
        if self.ladder_only and value not in self.ladder:
            return f"{_said(self.name, value)} is not in this space; one of {_listed(self.name, self.ladder)}"
        if self.low <= value <= self.high:
            return None
        low, high = (format_field(self.name, limit) for limit in (self.low, self.high))
        return f"{_said(self.name, value)} is out of range; {low} to {high}"

    def limited(self, most: int) -> Ordered:
        """Return the dimension up to a value, which ends the ladder. Raises `ValueError` when no value is left."""
        if most < self.low:
            low, limit = (format_field(self.name, value) for value in (self.low, most))
            raise ValueError(f"{self.name} <= {limit} leaves nothing; it starts at {low}")
        high = self.high if most >= self.high else most - (most - self.low) % self.step
        if self.ladder_only:
            high = max(value for value in self.ladder if value <= high)
        ladder = (*(value for value in self.ladder if value < high), high)
        return replace(self, high=high, ladder=ladder, plain=min(self.plain, high))

    def raised(self, least: int) -> Ordered:
        """Return the dimension from a value on, which begins the ladder. Raises `ValueError` when no value is left."""
        low = self.low if least <= self.low else least + (self.low - least) % self.step
        if low > self.high:
            high, limit = (format_field(self.name, value) for value in (self.high, least))
            raise ValueError(f"{self.name} >= {limit} leaves nothing; it ends at {high}")
        if self.ladder_only:
            low = min(value for value in self.ladder if value >= low)
        ladder = (low, *(value for value in self.ladder if value > low))
        return replace(self, low=low, ladder=ladder, plain=max(self.plain, low))


@dataclass(frozen=True, slots=True)
class Vector:
    """A list of sizes, used in turn (the paper's request vector, section 4). `size` counts lists of ladder values."""

    name: str
    max_length: int
    element: Ordered
    plain: tuple[int, ...]
    keep_in_sibling: bool = True
    changes: Changes = Changes.TRAFFIC

    def size(self) -> int:
        """Number of lists."""
        return int(sum(len(self.element.ladder) ** length for length in range(1, self.max_length + 1)))

    def candidates(self) -> tuple[Any, ...]:
        """Lists of one element."""
        return tuple((value,) for value in self.element.ladder)

    def neighbour(self, value: tuple[int, ...], rng: Random) -> tuple[int, ...]:
        """Draw another list: change, add or drop one element."""
        moves = ["change"]
        if len(value) < self.max_length:
            moves.append("add")
        if len(value) > 1:
            moves.append("drop")
        move = rng.choice(moves)
        index = rng.randrange(len(value))
        if move == "drop":
            return value[:index] + value[index + 1 :]
        if move == "add":
            return (*value[:index], rng.choice(self.element.ladder), *value[index:])
        return (*value[:index], self.element.neighbour(value[index], rng), *value[index + 1 :])

    def complaint(self, value: tuple[int, ...]) -> str | None:
        """Return the reason why a list lies outside the range, if it does."""
        if len(value) > self.max_length:
            return f"{self.name} has {len(value)} elements; at most {self.max_length}"
        for item in value:
            if wrong := self.element.complaint(item):
                return wrong
        return None

    def limited(self, most: int) -> Vector:
        """Return the dimension with elements up to a value, as `Ordered.limited` does."""
        return self.with_element(self.element.limited(most))

    def raised(self, least: int) -> Vector:
        """Return the dimension with elements from a value on, as `Ordered.raised` does."""
        return self.with_element(self.element.raised(least))

    def with_element(self, element: Ordered) -> Vector:
        """Return the dimension with a smaller range of elements."""
        plain = tuple(max(element.low, min(value, element.high)) for value in self.plain)
        return replace(self, element=element, plain=plain)


Dimension = Choice | Ordered | Vector


def _said(name: str, value: Any) -> str:
    return f"{name} {format_field(name, value)}"


def _listed(name: str, values: Iterable[Any]) -> str:
    return ", ".join(format_field(name, value) for value in values)
