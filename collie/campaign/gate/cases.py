"""What a gate compares: known anomalies, those of its baseline, their healthy neighbours, and what it finds."""

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
    """Where a case comes from."""

    KNOWN = "known"
    BASELINE = "baseline"
    NEIGHBOUR = "neighbour"
    FOUND = "found"


@dataclass(frozen=True, slots=True)
class GateCase:
    """One workload to compare.

    Attributes:
        name: unique within a gate.
        kind: where it comes from.
        title: one line for people.
        workload: what runs.
        mfs: the conditions of the anomaly; of a neighbour, those that it keeps.
        complete: all of its conditions are known; where some are missing, the others say nothing of other workloads.
        anomaly: what `collie reproduce` calls the anomaly that it is, or is a neighbour of.
        symptom: how the anomaly shows; None of a neighbour.
        beside: of a neighbour, whether a workload is healthy for the same reason: it breaks the same condition alone.
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
        """Whether a workload shows the same anomaly, by all that is known of it."""
        return self.complete and self.mfs.covers(workload)

    def is_alike(self, workload: Workload) -> bool:
        """Whether what a baseline showed of another workload says what it would have shown of this one."""
        if self.beside is not None:
            return self.beside(workload)
        return workload == self.workload or self.explains(workload)


def neighbours(case: GateCase, space: Space, record: Record | None) -> list[GateCase]:
    """Return the healthy neighbours of an anomaly: for each condition, a workload that breaks it and keeps the others.

    Args:
        case: the anomaly; satisfies its conditions.
        space: gives values.
        record: of a baseline that cannot be measured; then only what it saw healthy is a neighbour.
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


def found(anomaly: Anomaly, reproduce: str) -> GateCase:
    """Return what a search has found as a case.

    Args:
        anomaly: the find.
        reproduce: what `collie reproduce` calls it.
    """
    return GateCase(
        name=anomaly.id,
        kind=CaseOrigin.FOUND,
        title=anomaly.sentence,
        workload=anomaly.workload,
        mfs=anomaly.mfs,
        anomaly=reproduce,
        symptom=anomaly.symptom,
        complete=anomaly.complete,
    )
