"""Scales of figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from collie.workloads.units import format_number

_DECADES_FOR_A_LOGARITHM = 3
_INTERVALS = 2
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Tick:
    """A label on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` to places from `start` to `end`. If logarithmic, values are above 0."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return the place of a value, rounded to a hundredth of a unit."""
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log10(low), math.log10(high), math.log10(at)
        return round(self.start + (self.end - self.start) * (at - low) / (high - low), 2)

    def ticks(
        self, most: int, write: Callable[[float], str] | None = None, *, least_step: float = 0.0
    ) -> tuple[Tick, ...]:
        """Return about `most` round values. A logarithmic scale ignores `least_step`."""
        if self.logarithmic:
            values = _decades(self.low, self.high, most)
        else:
            step = max(least_step, _round_step((self.high - self.low) / max(most - 1, 1)))
            values = _round_values(self.low, self.high, step)
        return tuple(Tick(self.place(value), (write or engineering)(value)) for value in values)


def scale_of(values: Iterable[float], start: float, end: float, *, decades: bool = True) -> Scale:
    """Return a scale for all values. It is logarithmic if they span three decades, else it begins at 0."""
    known = list(values)
    low, high = min(known), max(known)
    if decades and low > 0 and high > low * 10**_DECADES_FOR_A_LOGARITHM:
        return Scale(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)), start, end, logarithmic=True)
    low, high = min(low, 0.0), max(high, 0.0)
    step = _round_step((high - low) / _INTERVALS or 1.0)
    # Both ends are round values, so that few ticks suffice to read the largest value.
    return Scale(math.floor(low / step) * step, (math.ceil(high / step) or 1) * step, start, end)


def engineering(value: float) -> str:
    """Format a number: `1.65M`, `850k`, `0.25`."""
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor * (1 - 1e-9):
            return f"{value / factor:.4g}{prefix}"
    return format_number(value, ".4g")


def _round_values(low: float, high: float, step: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _round_step(least: float) -> float:
    """Return the smallest step of at least `least`: 1, 2 or 5 times a power of ten."""
    decade = 10.0 ** math.floor(math.log10(least))
    return next(factor * decade for factor in (1, 2, 5, 10) if factor * decade >= least * (1 - 1e-9))


def _decades(low: float, high: float, most: int) -> list[float]:
    first, last = round(math.log10(low)), round(math.log10(high))
    stride = -(-(last - first + 1) // most)
    return [10.0**power for power in range(first, last + 1, stride)]
