"""Stability of the rates of sinks in a window. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collie.counters.series import is_level, is_stable, variation
from collie.readings.delivery import Curve, accounting_step_bytes, curves_of, step_rates
from collie.readings.policy import WindowPolicy
from collie.readings.recording import Recording, Timeline, between
from collie.workloads.plan import sinks, streams
from collie.workloads.workload import Workload


def is_settled(
    workload: Workload,
    window: Mapping[str, Timeline],
    curves: Mapping[str, Sequence[Curve | None]],
    policy: WindowPolicy,
    *,
    whole: bool,
) -> bool:
    """Whether every sink's rate has one level in a window, and is known finely enough.

    With `whole` the window is the whole run, and the mean must be as certain as that of a stable window.
    """
    found = [_sink_rate(sink, curves[sink], window[sink], workload, policy) for sink in sinks(workload)]
    return all(rate is not None and rate.is_settled(policy, whole=whole) for rate in found)


def may_settle(workload: Workload, recording: Recording, policy: WindowPolicy) -> bool:
    """Whether the rates could settle in the longest run if they continue to vary as before."""
    timelines = recording.timelines()
    window = between(timelines, policy.warm_up_seconds, recording.end)
    found = [
        _sink_rate(sink, curves_of(sink, timelines, workload), window[sink], workload, policy)
        for sink in sinks(workload)
    ]
    return all(rate is not None and rate.may_settle(policy) for rate in found)


@dataclass(frozen=True, slots=True)
class _SinkRate:
    """The rate of a sink in a window, in bits/s per sample.

    Attributes:
        tolerance: largest coefficient of variation of a stable window.
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
            return is_level(self.values, self.tolerance, policy.window_seconds / policy.period_seconds)
        return is_stable(self.values, self.tolerance)

    def may_settle(self, policy: WindowPolicy) -> bool:
        wider = math.sqrt(policy.longest_seconds / policy.window_seconds)
        return (
            self.step_seconds <= policy.resolution * policy.longest_seconds
            and variation(self.values) <= self.tolerance * wider
        )


def _sink_rate(
    sink: str, curves: Sequence[Curve | None], window: Timeline, workload: Workload, policy: WindowPolicy
) -> _SinkRate | None:
    """Return the rate of a sink, if known.

    Payload moves in steps: one chain per queue pair. The difference of two samples has the variance of two roundings,
    step^2 / 6. The tolerance includes it.
    """
    received = step_rates(curves, window)
    if received is None:
        return None
    seconds = window[-1][0] - window[0][0]
    mean = sum(received) / len(received)
    if mean <= 0:
        return _SinkRate(received, policy.stability, seconds, math.inf)
    steps_at_once = (accounting_step_bytes(workload, stream) for stream in streams(workload) if stream.sink == sink)
    step_seconds = 8 * math.sqrt(workload.qps * sum(step * step for step in steps_at_once)) / mean
    rounding = step_seconds / (seconds / len(received)) / math.sqrt(6)
    return _SinkRate(received, math.hypot(policy.stability, rounding), seconds, step_seconds)
