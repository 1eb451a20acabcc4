"""Runs of a workload as the last phase of a set-up, after the phases that bring its anomaly."""

from __future__ import annotations

from collie.campaign.lanes import Lane, PhaseOf
from collie.campaign.measure import Measurer
from collie.detect.reading import RunReading, reading_of
from collie.detect.symptom import inconclusive
from collie.ports import HostLost, Measured, RunRecord, SetupFailed, Unsupported
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

HISTORY = "history"
"""Purpose of the phases before the last one."""

_TRIES = 3
"""Limit on attempts to run one sequence of phases."""


async def probing_after(
    measurer: Measurer, lane: Lane, workload: Workload, on: SetUp, purpose: str
) -> RunReading | None:
    """Run the phases of a set-up again, on a new one, and then a workload. Return its reading.

    A sequence that breaks off says nothing of the workload, so it is run again from its beginning. Return None if the
    device cannot run one of the phases.
    """
    why = ""
    for _ in range(_TRIES):
        if killer := next((each for each in (*on.before, workload) if each in measurer.lost), None):
            return RunReading(inconclusive(f"not run again: it cost host {measurer.lost[killer].host}"))
        for number, phase in enumerate(on.before):
            record = await measurer.recording(lane, phase, HISTORY, PhaseOf(on.made_for, first=number == 0))
            if lane.set_up is None:
                why = f"phase {number + 1} of {len(on.before)} before it {_problem(record)}"
                break
        else:
            record = await measurer.recording(lane, workload, purpose, PhaseOf(on.made_for, first=not on.before))
            verdict = await measurer.judging_record(lane, record)
            if isinstance(record.result, Measured) and verdict is not None:
                return reading_of(verdict, record.result.measurement)
            why = f"it {_problem(record)}"
        if isinstance(record.result, Unsupported):
            return None
    return RunReading(inconclusive(f"its phases could not be run on one set-up {_TRIES} times: {why}"))


def probe_after(measurer: Measurer, workload: Workload, on: SetUp, purpose: str) -> RunReading | None:
    """Run `probing_after` on the only lane, and wait for the result."""
    (lane,) = measurer.lanes
    return measurer.scheduler.drive({lane: probing_after(measurer, lane, workload, on, purpose)})[lane]


def _problem(record: RunRecord) -> str:
    match record.result:
        case SetupFailed(cause):
            return f"could not be set up: {cause}"
        case HostLost(host):
            return f"cost host {host}"
        case Measured(measurement) if measurement.stopped:
            return f"was stopped: {measurement.stopped}"
    return "left no set-up to go on with"
