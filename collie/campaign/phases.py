"""Workloads measured one after another on one set-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from collie.campaign.lanes import Lane, LaneTask, PhaseOf
from collie.campaign.measure import Measurer
from collie.detect.measurement import Measurement
from collie.detect.symptom import Symptom, Verdict, inconclusive
from collie.ports import HostLost, Measured, RunRecord, SetupFailed, Unsupported
from collie.search.history import History, shortest_history
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

T = TypeVar("T")

HISTORY = "history"
"""Purpose of runs that look for the shortest history of an anomaly."""

_TRIES = 3
"""Limit on set-ups for one answer. Without an answer, the phases count as not bringing the symptom."""

Judged = tuple[RunRecord, Verdict | None]
"""A run, with its verdict if it was measured."""


async def judging_phases(
    measurer: Measurer, lane: Lane, made_for: Workload, workloads: Sequence[Workload], purpose: str
) -> list[Judged]:
    """Run workloads in order on one new set-up, and then judge them. A phase that ends the set-up is the last."""
    records: list[RunRecord] = []
    for workload in workloads:
        if records and lane.set_up is None:
            break
        records.append(await measurer.recording(lane, workload, purpose, PhaseOf(made_for, first=not records)))
    lane.set_up = lane.set_up_by = None  # a plain sibling must not meet what these phases left behind
    return [(record, await measurer.judging_record(lane, record)) for record in records]


def last_phase(
    measurer: Measurer, workload: Workload, on: SetUp, purpose: str
) -> tuple[Verdict, Measurement | None] | None:
    """Run the phases of a set-up and then a workload, and judge that, on the only lane.

    Return an inconclusive verdict alone if they cannot be run on one set-up, and None if the device cannot run the
    workload.
    """
    phases, why = (*on.before, workload), ""
    if harm := next((measurer.lost[each] for each in phases if each in measurer.lost), None):
        return inconclusive(f"not run again: it cost host {harm.host}"), None
    for _ in range(_TRIES):
        runs = on_only_lane(measurer, lambda lane: judging_phases(measurer, lane, on.made_for, phases, purpose))
        record, verdict = runs[-1]
        if len(runs) == len(phases) and isinstance(record.result, Measured) and verdict is not None:
            return verdict, record.result.measurement
        if workload in measurer.refused:
            return None
        why = f"phase {len(runs)} of {len(phases)} {_end(record)}"
        if record.workload in measurer.refused or record.workload in measurer.lost:
            break
    return inconclusive(f"its phases could not be run on one set-up: {why}"), None


def _end(record: RunRecord) -> str:
    match record.result:
        case SetupFailed(cause, _):
            return f"could not be set up: {cause}"
        case Unsupported(reason, _):
            return f"is unsupported: {reason}"
        case HostLost(host, _, _):
            return f"cost host {host}"
        case _:
            return "ended the set-up"


async def finding_history(
    measurer: Measurer, lane: Lane, on: SetUp, workload: Workload, symptom: Symptom
) -> History | None:
    """Find the shortest part of a set-up's phases after which a workload shows a symptom.

    Each question takes a new set-up. Return an empty history if the set-up alone brings the symptom, and None if it
    does not show again.
    """
    search = shortest_history(on.before, workload)
    try:
        phases = next(search)
        while True:
            phases = search.send(await _brings(measurer, lane, on.made_for, phases, symptom))
    except StopIteration as stop:
        history: History | None = stop.value
        return history


async def _brings(
    measurer: Measurer, lane: Lane, made_for: Workload, phases: Sequence[Workload], symptom: Symptom
) -> bool:
    for _ in range(_TRIES):
        runs = await judging_phases(measurer, lane, made_for, phases, HISTORY)
        _, verdict = runs[-1]
        if len(runs) == len(phases) and verdict is not None and not verdict.is_inconclusive:
            return symptom.is_related(verdict.symptom)
    return False


def on_only_lane(measurer: Measurer, task: Callable[[Lane], LaneTask[T]]) -> T:
    """Run a task on the lane of a testbed that has only one, and wait for its result."""
    (lane,) = measurer.lanes
    return measurer.scheduler.drive({lane: task(lane)})[lane]
