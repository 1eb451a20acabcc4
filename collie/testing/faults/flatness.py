"""Does something grow over hours? Readings over time, and the verdict on each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read at one moment.

    Attributes:
        seconds: since the beginning.
        values: by what was read; what could not be is left out.
    """

    seconds: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much the last quarter may be above the second one: the first has start-up in it.

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
    """One thing over time.

    Attributes:
        second, last: medians of these quarters.
        highest: of all readings.
        allowed: growth.
    """

    name: str
    second: float
    last: float
    highest: float
    allowed: float

    @property
    def flat(self) -> bool:
        """Whether it has not grown by more than is allowed."""
        return self.last - self.second <= self.allowed


def trends(readings: Sequence[Reading], allowances: Mapping[str, Allowance], seconds: float) -> list[Trend]:
    """Compare the last quarter of so many seconds with the second one.

    Raises:
        ValueError: something has no reading in one of the two.
    """
    found = []
    for name, allowance in allowances.items():
        quarters: list[list[float]] = [[], [], [], []]
        for reading in readings:
            if name in reading.values:
                quarters[min(3, int(4 * reading.seconds / seconds))].append(reading.values[name])
        if not quarters[1] or not quarters[3]:
            raise ValueError(f"{name} was read {[len(quarter) for quarter in quarters]} times in the quarters")
        second, last = median(quarters[1]), median(quarters[3])
        highest = max(value for quarter in quarters for value in quarter)
        found.append(Trend(name, second, last, highest, allowance.of(second)))
    return found


def table(found: Sequence[Trend]) -> str:
    """Return the trends in Markdown."""
    lines = ["| reading | second quarter | last quarter | highest | may grow by | flat |", "|" + " --- |" * 6]
    for each in found:
        figures = " | ".join(f"{value:,.1f}" for value in (each.second, each.last, each.highest, each.allowed))
        lines.append(f"| {each.name} | {figures} | {'yes' if each.flat else 'NO'} |")
    return "\n".join(lines)
