"""Does something grow over hours? Readings over time, and the verdict on each. Pure.

A process that is replaced begins anew, so what leaks in it is back at nothing: growth shows within one life alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median


@dataclass(frozen=True, slots=True)
class Value:
    """What was read of something.

    Attributes:
        amount: in the unit that its name tells.
        life: of the process or machine that it was read of; another one began at nothing.
    """

    amount: float
    life: Hashable


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read at one moment.

    Attributes:
        seconds: since the beginning.
        values: by what was read; what could not be is left out.
    """

    seconds: float
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much the last quarter of a life may be above its second one: the first has start-up in it.

    Attributes:
        ratio: of the second quarter's median.
        least: but at least so much, in the reading's unit.
    """

    ratio: float
    least: float

    def of(self, value: float) -> float:
        """Return what a reading may grow by."""
        return max(self.least, self.ratio * value)


@dataclass(frozen=True, slots=True)
class Trend:
    """One thing over its longest life.

    Attributes:
        seconds: that it lived.
        second, last: medians of these quarters.
        highest: of its readings.
        allowed: growth.
    """

    name: str
    seconds: float
    second: float
    last: float
    highest: float
    allowed: float

    @property
    def flat(self) -> bool:
        """Whether it has not grown by more than is allowed."""
        return self.last - self.second <= self.allowed


def trends(readings: Sequence[Reading], allowances: Mapping[str, Allowance], least_seconds: float) -> list[Trend]:
    """Compare the last quarter of the longest life of each thing with the second one.

    Raises:
        ValueError: nothing of a name has lived so long, or was read in both quarters.
    """
    return [_trend(name, readings, allowance, least_seconds) for name, allowance in allowances.items()]


def _trend(name: str, readings: Sequence[Reading], allowance: Allowance, least_seconds: float) -> Trend:
    seen = [(reading.seconds, reading.values[name]) for reading in readings if name in reading.values]
    lives = [[(at, value.amount) for at, value in life] for _, life in groupby(seen, key=lambda each: each[1].life)]
    longest = max(lives, key=lambda life: life[-1][0] - life[0][0], default=[(0.0, 0.0)])
    began, seconds = longest[0][0], longest[-1][0] - longest[0][0]
    if seconds < least_seconds:
        raise ValueError(f"{name}: of {len(lives)} lives the longest took {seconds:.0f} s, not {least_seconds:.0f} s")
    quarters: list[list[float]] = [[], [], [], []]
    for at, amount in longest:
        quarters[min(3, int(4 * (at - began) / seconds))].append(amount)
    if not quarters[1] or not quarters[3]:
        raise ValueError(f"{name} was read {[len(quarter) for quarter in quarters]} times in the quarters of its life")
    second, last = median(quarters[1]), median(quarters[3])
    return Trend(name, seconds, second, last, max(amount for _, amount in longest), allowance.of(second))


def table(found: Sequence[Trend]) -> str:
    """Return the trends in Markdown."""
    head = "| reading | longest life | second quarter | last quarter | highest | may grow by | flat |"
    lines = [head, "|" + " --- |" * 7]
    for each in found:
        figures = " | ".join(f"{value:,.1f}" for value in (each.second, each.last, each.highest, each.allowed))
        lines.append(f"| {each.name} | {each.seconds / 60:.0f} min | {figures} | {'yes' if each.flat else 'NO'} |")
    return "\n".join(lines)
