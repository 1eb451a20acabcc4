"""A baseline that only its record knows: it answers with what it measured before, and cannot be asked again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from collie.detect.compare import Change
from collie.detect.pair_rule import tail
from collie.detect.reading import RunReading, reading_of, typical
from collie.ports import Measured, RunRecord
from collie.search.recipe import Recipe
from collie.workloads.workload import Workload


class Record:
    """What a baseline measured before, by workload."""

    def __init__(self, runs: Iterable[RunRecord] = ()) -> None:
        self._readings: dict[Workload, list[RunReading]] = {}
        for run in runs:
            if run.verdict is not None and isinstance(run.result, Measured):
                reading = reading_of(run.verdict, run.result.measurement)
                self._readings.setdefault(run.workload, []).append(reading)

    def reading(self, workload: Workload) -> RunReading | None:
        """Return the typical reading of a workload; None where the baseline never measured it."""
        return typical(self._readings.get(workload, ()))

    def healthy(self, inside: Callable[[Workload], bool]) -> dict[Workload, int]:
        """Return the workloads of a region that the baseline saw healthy, and how often; none that was ever anomalous.

        Args:
            inside: says whether a workload belongs to the region.
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
        """Return why a record says too little to call something new or worse; None when it says enough, or nothing is.

        A run overlooks an anomaly with a declared chance; so many healthy runs have to agree that all of them
        overlooked it with no more than the chance that this decision has. Likewise how bad an anomaly was: the reading
        is the one in the middle, and a disturbance has to strike most of them before that one is wrong.

        Args:
            change: what the pairs say.
            workload: what ran.
            alike: says of a workload whether the baseline was healthy there for the same reason.
            share: chance of a false alarm that the decision has.
            recipe: of the declared chances.
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
