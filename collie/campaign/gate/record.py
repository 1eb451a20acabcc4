"""A baseline without a testbed."""

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
        """Return the number of healthy runs of each workload of a region that is never anomalous on record."""
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
        """Return the reason why the record is too weak to call a change new or worse, or None.

        The chance that all healthy runs missed the anomaly must be at most `share`, the false-alarm chance of the
        decision. `alike` selects the workloads on which the baseline is healthy for the same reason. The severity is
        that of the middle reading, so a disturbance must affect most readings to falsify it.
        """
        if change is Change.NEW:
            agreed = sum(self.healthy(alike).values())
            if recipe.extraction.false_negative_rate**agreed > share:
                return (
                    f"the candidate shows it, but on record are only {agreed} healthy runs of the baseline to deny it"
                )
        if change is Change.WORSE:
            anomalous = sum(reading.verdict.is_anomalous for reading in self._readings.get(workload, ()))
            if tail(anomalous, anomalous // 2 + 1, recipe.confirmation.healthy_false_positive_rate) > share:
                return f"the candidate shows more of it, but the baseline's record has it only {anomalous} times"
        return None
