"""Workloads measured one after another on one set-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from collie.campaign.lanes import Lane, LaneTask, PhaseOf
from collie.campaign.measure import Measurer
from collie.detect.symptom import Verdict
from collie.ports import RunRecord
from collie.workloads.workload import Workload

T = TypeVar("T")

Judged = tuple[RunRecord, Verdict | None]
"""A run, with its verdict if it was measured."""


async def judging_phases(
    measurer: Measurer, lane: Lane, made_for: Workload, workloads: Sequence[Workload], purpose: str
) -> list[Judged]:
    """Run workloads in order on one new set-up, and judge them. A phase that ends the set-up is the last."""
    records: list[RunRecord] = []
    for workload in workloads:
        if records and lane.set_up is None:
            break
        records.append(await measurer.recording(lane, workload, purpose, PhaseOf(made_for, first=not records)))
    # A verdict can take a run of the plain sibling, which would end the set-up.
    return [(record, await measurer.judging_record(lane, record)) for record in records]


def on_only_lane(measurer: Measurer, task: Callable[[Lane], LaneTask[T]]) -> T:
    """Run a task on the lane of a testbed that has only one, and wait for its result."""
    (lane,) = measurer.lanes
    return measurer.scheduler.drive({lane: task(lane)})[lane]
