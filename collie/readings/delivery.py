"""The payload that sinks receive, as curves over time. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

from collie.readings.recording import Timeline
from collie.workloads.plan import Stream, streams
from collie.workloads.workload import QpType, Workload


class Curve:
    """A function, linear between its points (seconds, value), constant outside. It has one point or more, in order."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._seconds = [seconds for seconds, _ in points]
        self._values = [value for _, value in points]

    def at(self, seconds: float) -> float:
        """Return the value at a moment."""
        after = bisect_right(self._seconds, seconds)
        if after == 0:
            return self._values[0]
        if after == len(self._seconds):
            return self._values[-1]
        begin, end = self._seconds[after - 1], self._seconds[after]
        low, high = self._values[after - 1], self._values[after]
        return low + (high - low) * (seconds - begin) / (end - begin)

    def advance(self, begin: float, end: float) -> float:
        """Return the growth between two moments."""
        return self.at(end) - self.at(begin)


def curves_of(sink: str, timelines: Mapping[str, Timeline], workload: Workload) -> list[Curve | None]:
    """Return a curve per stream to a sink. None for a stream that neither end of the flow counts."""
    return [_curve(stream, timelines) for stream in streams(workload) if stream.sink == sink]


def _curve(stream: Stream, timelines: Mapping[str, Timeline]) -> Curve | None:
    flow = stream.flow
    at_responder = curve_of_end(f"{flow.name}/responder", timelines[flow.responder], returned=stream.returned)
    return at_responder or curve_of_end(f"{flow.name}/requester", timelines[flow.requester], returned=stream.returned)


def curve_of_end(end: str, timeline: Timeline, *, returned: bool = False) -> Curve | None:
    """Return the payload that one end of a flow counts. `returned` selects what comes back to the requester."""
    points = [
        (seconds, delivered)
        for seconds, sample in timeline
        if (totals := sample.flows.get(end)) is not None
        and (delivered := totals.returned_bytes if returned else totals.delivered_bytes) is not None
    ]
    return Curve(points) if len(points) > 1 else None


def received_bps(curves: Sequence[Curve | None], begin: float, end: float) -> float | None:
    """Return the summed rate of curves, in bits/s. None where one is unknown."""
    advances = [curve.advance(begin, end) if curve else None for curve in curves]
    if end <= begin or not advances or None in advances:
        return None
    return 8 * sum(advance for advance in advances if advance is not None) / (end - begin)


def received_inside(curves: Sequence[Curve | None], window: Timeline) -> float:
    """Return a sink's rate without the first and last step, which other hosts' windows may lack. 0 means unknown."""
    inner = window[1:-1]
    return 0.0 if len(inner) < 2 else received_bps(curves, inner[0][0], inner[-1][0]) or 0.0


def step_rates(curves: Sequence[Curve | None], window: Timeline) -> list[float] | None:
    """Return a sink's rates from sample to sample, in bits/s. None where one is unknown."""
    steps = pairwise(seconds for seconds, _ in window)
    received = [received_bps(curves, begin, end) for begin, end in steps]
    known = [value for value in received if value is not None]
    return known if known and len(known) == len(received) else None


def accounting_step_bytes(workload: Workload, stream: Stream) -> float:
    """Return the payload per completion: a message at the responder, a chain of work requests at the requester."""
    delivering = [opcode for opcode in workload.opcodes if not opcode.fetches]
    counted_at_responder = not stream.returned and delivering and all(opcode.consumes_receive for opcode in delivering)
    if counted_at_responder or workload.qp_type is QpType.UC:
        return sum(stream.payloads) / len(stream.payloads)
    return stream.per_request * workload.messages_per_signal
