"""Whether the rate of a sink in a window is stable, or varies about one level. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collie.counters.series import is_level, is_stable, variation
from collie.readings.delivery import accounting_step_bytes, step_rates
from collie.readings.policy import WindowPolicy
from collie.readings.recording import Recording, Timeline, between
from collie.workloads.plan import sinks, streams
from collie.workloads.workload import Workload


def is_settled(
    workload: Workload,
    window: Mapping[str, Timeline],
    timelines: Mapping[str, Timeline],
    policy: WindowPolicy,
    *,
    whole: bool,
) -> bool:
    """Whether every sink's rate has one level in a window, known finely enough.

    With `whole` the window is the whole run, whose mean must be known as well as that of a stable window.
    """
    found = [_sink_rate(sink, window, timelines, workload, policy) for sink in sinks(workload)]
    return all(rate is not None and rate.is_settled(policy, whole=whole) for rate in found)


def may_settle(workload: Workload, recording: Recording, policy: WindowPolicy) -> bool:
    """Whether the longest run could settle if rates go on to vary as before."""
    timelines = recording.timelines()
    window = between(timelines, policy.warm_up_seconds, recording.end)
    found = [_sink_rate(sink, window, timelines, workload, policy) for sink in sinks(workload)]
    return all(rate is not None and rate.may_settle(policy) for rate in found)


@dataclass(frozen=True, slots=True)
class _SinkRate:
    """The rate of a sink in a window.

    Attributes:
        values: bits/s per sample.
        tolerance: largest coefficient of variation of a stable window.
        seconds: length of the window.
        step_seconds: time per step of the payload's accounting. Infinite where nothing moves.
    """

    values: Sequence[float]
    tolerance: float
    seconds: float
    step_seconds: float

    def is_settled(self, policy: WindowPolicy, *, whole: bool) -> bool:
        if not any(self.values):
            return is_stable(self.values, self.tolerance)
        if self.step_seconds > policy.resolution * self.seconds:
            return False
        if whole:
            return is_level(self.values, self.tolerance, policy.usual_samples)
        return is_stable(self.values, self.tolerance)

    def may_settle(self, policy: WindowPolicy) -> bool:
        wider = math.sqrt(policy.longest_seconds / policy.window_seconds)
        return (
            self.step_seconds <= policy.resolution * policy.longest_seconds
            and variation(self.values) <= self.tolerance * wider
        )


def _sink_rate(
    sink: str,
    window: Mapping[str, Timeline],
    timelines: Mapping[str, Timeline],
    workload: Workload,
    policy: WindowPolicy,
) -> _SinkRate | None:
    """Return the rate of a sink. None where it is unknown in part of the window.

    A requester gets one completion per chain, so payload moves in steps of a chain. Each difference between two samples
    is off by the difference of two roundings, with variance step^2 / 6 per queue pair, which is no instability.
    """
    received = step_rates(sink, window, timelines, workload)
    if received is None:
        return None
    seconds = window[sink][-1][0] - window[sink][0][0]
    mean = sum(received) / len(received)
    if mean <= 0:
        return _SinkRate(received, policy.stability, seconds, math.inf)
    steps_at_once = (accounting_step_bytes(workload, stream) for stream in streams(workload) if stream.sink == sink)
    step_seconds = 8 * math.sqrt(workload.qps * sum(step * step for step in steps_at_once)) / mean
    rounding = step_seconds / (seconds / len(received)) / math.sqrt(6)
    return _SinkRate(received, math.hypot(policy.stability, rounding), seconds, step_seconds)
