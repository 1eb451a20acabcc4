"""A baseline without a testbed, which answers from its record."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from collie.detect.compare import Change
from collie.detect.pair_rule import tail
from collie.detect.reading import RunReading, reading_of, typical
from collie.ports import Measured, RunRecord
from collie.search.recipe import Recipe
from collie.workloads.workload import Workload


class Record:
    """The baseline's measurements, by workload."""

    def __init__(self, runs: Iterable[RunRecord] = ()) -> None:
        self._readings: dict[Workload, list[RunReading]] = {}
        for run in runs:
            if run.verdict is not None and isinstance(run.result, Measured):
                reading = reading_of(run.verdict, run.result.measurement)
                self._readings.setdefault(run.workload, []).append(reading)

    def reading(self, workload: Workload) -> RunReading | None:
        """Return the typical reading of a workload, or None if the baseline never measured it."""
        return typical(self._readings.get(workload, ()))

    def healthy(self, inside: Callable[[Workload], bool]) -> dict[Workload, int]:
        """Return the workloads of a region that are healthy on record and never anomalous, with their counts.

        Args:
            inside: whether a workload belongs to the region.
        """
        return {
            workload: sum(reading.verdict.is_normal for reading in readings)
            for workload, readings in self._readings.items()
            if inside(workload)
            and any(reading.verdict.is_normal for reading in readings)
            and not any(reading.verdict.is_anomalous for reading in readings)
        }

    def doubt(
        self, change: Change, workload: Workload, alike: Callable[[Workload], bool], share: float, recipe: Recipe
    ) -> str | None:
        """Return why the record is too weak to call a change new or worse, or None.

        A run misses an anomaly with a declared chance. The healthy runs must be so many that all of them miss it with
        at most the decision's chance. The severity is that of the middle reading, so a disturbance must affect most of
        the readings to falsify it.

        Args:
            change: the result of the pairs.
            workload: the workload.
            alike: whether the baseline is healthy on a workload for the same reason.
            share: false-alarm chance of the decision.
            recipe: gives the declared chances.
        """
        if change is Change.NEW:
            agreed = sum(self.healthy(alike).values())
            if recipe.extraction.false_negative_rate**agreed > share:
                return (
                    f"the candidate shows it, but on record are only {agreed} healthy runs of the baseline to deny it"
                )
        if change is Change.WORSE:
            reproduced = sum(reading.verdict.is_anomalous for reading in self._readings.get(workload, ()))
            if tail(reproduced, reproduced // 2 + 1, recipe.confirmation.healthy_false_positive_rate) > share:
                return f"the candidate shows more of it, but the baseline's record has it only {reproduced} times"
        return None
