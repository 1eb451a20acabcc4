"""The cases of a gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from collie.campaign.gate.record import Record
from collie.detect.symptom import Symptom
from collie.search.anomaly import Anomaly
from collie.search.breaking import broken
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import Space
from collie.workloads.workload import Workload


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
        mfs: the conditions of the anomaly. Of a neighbour, those that it keeps.
        complete: all conditions are known. Otherwise the known ones cover no other workload.
        anomaly: argument of `collie reproduce`, also of a neighbour.
        symptom: None for a neighbour.
        beside: of a neighbour, whether a workload breaks the same condition alone.
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

    def explains(self, workload: Workload) -> bool:
        """Whether a workload shows the same anomaly, by its explanation."""
        return self.complete and self.mfs.covers(workload)

    def is_alike(self, workload: Workload) -> bool:
        """Whether the baseline's readings of another workload apply to this one."""
        if self.beside is not None:
            return self.beside(workload)
        return workload == self.workload or self.explains(workload)


def neighbours(case: GateCase, space: Space, record: Record | None) -> list[GateCase]:
    """Return the healthy neighbours of an anomaly: per condition, a workload that breaks it alone.

    A baseline's record restricts them to its healthy workloads.
    """
    found = []
    for condition in case.mfs.conditions:
        others = tuple(other for other in case.mfs.conditions if other != condition)
        beside = partial(_breaks_alone, condition, others)
        if record is None:
            workload = broken(case.workload, case.mfs, condition, space)
        else:
            workload = next(iter(record.healthy(beside)), None)
        if workload is not None:
            name = f"{case.name}/without-{condition.dimension}{_ENDS.get(condition.op, '')}"
            title = f"healthy neighbour of {case.name}: without {condition}"
            found.append(
                GateCase(name, CaseOrigin.NEIGHBOUR, title, workload, Mfs(others), case.anomaly, beside=beside)
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
    )
