"""The measured steps of each dimension's ladder."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter as Tally
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from collie.ports import Measured, RunRecord
from collie.report.quantities import show
from collie.workloads.dimension import Choice, Dimension, Vector
from collie.workloads.space import Space


@dataclass(frozen=True, slots=True)
class StepCount:
    """Number of measured runs at one step of a ladder, and how many of them are anomalous."""

    value: str
    runs: int
    anomalous: int


@dataclass(frozen=True, slots=True)
class DimensionCoverage:
    """The measured runs of one dimension, by step."""

    name: str
    steps: tuple[StepCount, ...]


def coverage_of(records: Iterable[RunRecord], space: Space) -> tuple[DimensionCoverage, ...]:
    """Count measured runs by step of every dimension.

    A value between two steps counts for the lower one. A workload with several message sizes counts once for each.
    """
    measured = [record for record in records if isinstance(record.result, Measured)]
    return tuple(_coverage(name, dimension, measured) for name, dimension in space.dimensions.items())


def _coverage(name: str, dimension: Dimension, measured: Iterable[RunRecord]) -> DimensionCoverage:
    ladder = dimension.element.ladder if isinstance(dimension, Vector) else dimension.candidates()
    runs: Tally[Any] = Tally()
    anomalous: Tally[Any] = Tally()
    for record in measured:
        steps = _steps(record.workload.get(name), dimension, ladder)
        runs.update(steps)
        if record.verdict is not None and record.verdict.is_anomalous:
            anomalous.update(steps)
    label = "message_bytes" if isinstance(dimension, Vector) else name
    return DimensionCoverage(name, tuple(StepCount(show(label, step), runs[step], anomalous[step]) for step in ladder))


def _steps(value: Any, dimension: Dimension, ladder: tuple[Any, ...]) -> set[Any]:
    if isinstance(dimension, Choice):
        return {value}
    values = value if isinstance(value, tuple) else (value,)
    return {ladder[max(0, bisect_right(ladder, item) - 1)] for item in values}
