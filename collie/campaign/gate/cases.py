"""The cases of a gate, and the record of a baseline without a testbed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from collie.campaign.history import broken_on
from collie.detect.compare import Change
from collie.detect.pair_rule import tail
from collie.detect.reading import RunReading, reading_of, typical
from collie.detect.symptom import Symptom
from collie.ports import Measured, RunRecord
from collie.search.anomaly import Anomaly, anomaly_id
from collie.search.recipe import Recipe
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
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
        """Count the healthy runs of each workload that `inside` selects and that is never anomalous on record."""
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
        decision. `alike` selects the workloads whose healthy runs count for this one, too. The baseline's severity
        is that of its middle reading, so a disturbance must affect most readings to falsify it.
        """
        if change is Change.NEW:
            agreed = sum(self.healthy(alike).values())
            if recipe.noise.miss_rate**agreed > share:
                return (
                    f"the candidate shows it, but on record are only {agreed} healthy runs of the baseline to deny it"
                )
        if change is Change.WORSE:
            anomalous = sum(reading.verdict.is_anomalous for reading in self._readings.get(workload, ()))
            if tail(anomalous, anomalous // 2 + 1, recipe.noise.stray_rate) > share:
                return f"the candidate shows more of it, but the baseline's record has it only {anomalous} times"
        return None


class CaseOrigin(StrEnum):
    """The origin of a case."""

    KNOWN = "known"
    BASELINE = "baseline"
    NEIGHBOUR = "neighbour"
    FOUND = "found"


@dataclass(frozen=True, slots=True)
class GateCase:
    """One workload to compare.

    Attributes:
        mfs: the conditions of the anomaly. A neighbour has only those that it keeps.
        complete: whether all conditions are known. Otherwise the known conditions explain no workload.
        anomaly: argument of `collie reproduce`. A neighbour has that of its anomaly.
        symptom: None for a neighbour.
        beside: for a neighbour, the test whether another workload breaks the same condition and no other.
        on: the set-up that the anomaly needs, after the phases that bring it. None: any set-up of its own.
    """

    name: str
    kind: CaseOrigin
    title: str
    workload: Workload
    mfs: Mfs
    anomaly: str
    symptom: Symptom | None = None
    complete: bool = True
    beside: Callable[[Workload], bool] | None = field(default=None, compare=False)
    on: SetUp | None = None

    @property
    def label(self) -> str:
        """The name. A find says that it is one, because the baseline's own `a1` differs from that of this gate."""
        return f"{self.name} (found by this gate)" if self.kind is CaseOrigin.FOUND else self.name

    @property
    def recorded_as(self) -> str:
        """The id of the candidate's anomaly in the gate's record."""
        return anomaly_id(self.name.replace("/", "."))

    def explains(self, workload: Workload) -> bool:
        """Whether a workload on a set-up of its own shows the same anomaly, by its explanation."""
        return self.complete and self.on is None and self.mfs.covers(workload)

    def is_alike(self, workload: Workload) -> bool:
        """Whether the baseline's readings of another workload apply to this one."""
        if self.beside is not None:
            return self.beside(workload)
        return workload == self.workload or self.explains(workload)


def neighbours(case: GateCase, space: Space, record: Record | None) -> list[GateCase]:
    """Return the healthy neighbours of an anomaly: for each condition, a workload that breaks only this condition.

    If the baseline answers from a record, a neighbour must be healthy on record, which keeps no run after a history.
    """
    found = []
    on = case.on
    for condition in case.mfs.conditions:
        others = tuple(other for other in case.mfs.conditions if other != condition)
        beside = partial(_breaks_alone, condition, others)
        workload: Workload | None = None
        if record is None:
            workload = broken_on(on, case.workload, case.mfs, condition, space)
        elif on is None:
            workload = next(iter(record.healthy(beside)), None)
        if workload is not None:
            name = f"{case.name}/without-{condition.dimension}{_ENDS.get(condition.op, '')}"
            title = f"neighbour of {case.name}: without {condition}"
            found.append(
                GateCase(name, CaseOrigin.NEIGHBOUR, title, workload, Mfs(others), case.anomaly, beside=beside, on=on)
            )
    return found


_ENDS = {Op.AT_LEAST: "-min", Op.AT_MOST: "-max"}


def _breaks_alone(condition: Condition, others: Sequence[Condition], workload: Workload) -> bool:
    return not condition.holds(workload) and all(other.holds(workload) for other in others)


def case_of(anomaly: Anomaly, kind: CaseOrigin, name: str, reproduce: str) -> GateCase:
    """Return an anomaly as a case, with its argument of `collie reproduce`."""
    return GateCase(
        name=name,
        kind=kind,
        title=anomaly.sentence,
        workload=anomaly.workload,
        mfs=anomaly.mfs,
        anomaly=reproduce,
        symptom=anomaly.symptom,
        complete=anomaly.complete,
        on=anomaly.set_up,
    )
