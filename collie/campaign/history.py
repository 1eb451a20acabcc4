"""Runs of a workload as the last phase of a set-up, after the phases that bring its anomaly."""

from __future__ import annotations

from dataclasses import replace

from collie.campaign.lanes import Lane, PhaseOf
from collie.campaign.measure import Measurer, not_run_again
from collie.detect.reading import RunReading, reading_of
from collie.detect.symptom import Symptom, Verdict, inconclusive
from collie.ports import Measured, RunResult, SetupFailed, Unsupported, is_anew
from collie.search.breaking import breakings
from collie.search.history import shortest_history
from collie.workloads.feature import Condition, Mfs
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload

HISTORY = "history"
"""Purpose of the phases before the last one."""

_TRIES = 3
"""Limit on attempts to run one sequence of phases."""


def broken_on(on: SetUp | None, workload: Workload, mfs: Mfs, condition: Condition, space: Space) -> Workload | None:
    """Return a workload that breaks only one condition of a set, and can run after the same phases if there are any."""
    found = breakings(workload, mfs, condition, space)
    return next((each for each in found if on is None or space.misfit(each, on.made_for) is None), None)


async def judging_after(
    measurer: Measurer, lane: Lane, workload: Workload, on: SetUp, purpose: str
) -> tuple[RunResult, Verdict | None]:
    """Run the phases of a set-up again, on a new one, and then a workload. Return its result and verdict.

    A sequence that breaks off counts as a failed set-up of the workload, because it says nothing of it.
    """
    for number, phase in enumerate(on.before, start=1):
        result = (await measurer.running(lane, phase, HISTORY, PhaseOf(on.made_for, first=number == 1))).result
        if lane.set_up is None or is_anew(result):
            return _broken_off(result, f"phase {number} of {len(on.before)} before it"), None
    record = await measurer.recording(lane, workload, purpose, PhaseOf(on.made_for, first=not on.before))
    lane.set_up = lane.set_up_by = (
        None  # what the phases left behind must not lower the plain sibling, which is a bound
    )
    if is_anew(record.result):
        measurer.leave_unjudged(lane, record)
        return _broken_off(record.result, f"phase {len(on.before)} of {len(on.before)} before it"), None
    return record.result, await measurer.judging_record(lane, record)


async def probing_after(
    measurer: Measurer, lane: Lane, workload: Workload, on: SetUp, purpose: str
) -> RunReading | None:
    """Run `judging_after`, and repeat a sequence that breaks off. Return None if the device cannot run a phase."""
    cause = ""
    for _ in range(_TRIES):
        if (lost := measurer.lost_to(workload, on)) is not None:
            return not_run_again(lost)
        result, verdict = await judging_after(measurer, lane, workload, on, purpose)
        match result:
            case Measured(measurement) if verdict is not None:
                return reading_of(verdict, measurement)
            case Unsupported():
                return None
            case SetupFailed():
                cause = result.cause
    return RunReading(inconclusive(f"its phases could not be run on one set-up {_TRIES} times: {cause}"))


async def tracing(
    measurer: Measurer, lane: Lane, workload: Workload, on: SetUp, purpose: str, symptom: Symptom
) -> SetUp | None:
    """Return the set-up with the fewest phases after which a workload shows a symptom or a related one.

    `shortest_history` asks. An answer is one run, so the result needs a confirmation. Return None if the symptom does
    not show again after all phases of `on`.
    """
    probes = shortest_history(on.before)
    try:
        before = next(probes)
        while True:
            reading = await probing_after(measurer, lane, workload, replace(on, before=before), purpose)
            before = probes.send(reading is not None and symptom.is_related(reading.verdict.symptom))
    except StopIteration as stop:
        return None if stop.value is None else replace(on, before=stop.value)


def judge_after(measurer: Measurer, workload: Workload, on: SetUp, purpose: str) -> tuple[RunResult, Verdict | None]:
    """Run `judging_after` on the only lane, and wait for the result."""
    (lane,) = measurer.lanes
    return measurer.scheduler.drive({lane: judging_after(measurer, lane, workload, on, purpose)})[lane]


def probe_after(measurer: Measurer, workload: Workload, on: SetUp, purpose: str) -> RunReading | None:
    """Run `probing_after` on the only lane, and wait for the result."""
    (lane,) = measurer.lanes
    return measurer.scheduler.drive({lane: probing_after(measurer, lane, workload, on, purpose)})[lane]


def _broken_off(result: RunResult, which: str) -> RunResult:
    match result:
        case Measured(measurement):
            end = f"was stopped: {measurement.stopped}" if measurement.stopped else "left no set-up to go on with"
            return SetupFailed(f"{which} {end}", "the workload itself was not run", result.elapsed_seconds)
        case SetupFailed(cause):
            return replace(result, cause=f"{which} could not be set up: {cause}")
    return result
