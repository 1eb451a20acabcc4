"""Shows the samples of a run to a `Watch` as they arrive. Pure.

A sample is shown once its host has two samples. Other hosts are not awaited, because a storm may silence them. Only one
end of a flow counts its payload, so a host's rates come from the newest reading of each flow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from collie.counters.catalog import Catalog
from collie.detect.measurement import Sample, Watch
from collie.readings.pause import SentPause
from collie.readings.recording import Recording, Timeline
from collie.readings.samples import FlowTotals
from collie.workloads.plan import Flow


class SampleMonitor:
    """Shows each sample once, until there is a `reason` to stop the run."""

    def __init__(self, watch: Watch | None, catalog: Catalog, flows: Sequence[Flow]) -> None:
        self._watch = watch
        self._flows = flows
        self._sent_pause = SentPause(catalog)
        self._shown_counts: dict[str, int] = {}
        self._offsets: dict[str, float] = {}
        self._bps: dict[_Direction, float] = {}
        self.reason: str | None = None

    def show(self, recording: Recording) -> str | None:
        """Show new samples. Return the reason to stop the run, if any."""
        if self._watch is None:
            return None
        for role, samples in recording.samples.items():
            timeline = recording.timeline(role)
            for index in range(max(1, self._shown_counts.get(role, 0)), len(samples)):
                if self.reason is None:
                    self.reason = self._watch(self._sample(role, timeline, index))
            self._shown_counts[role] = len(samples)
        return self.reason

    def _sample(self, role: str, timeline: Timeline, index: int) -> Sample:
        self._bps.update(self._rates(timeline, index))
        values = {
            "tx_pause_ratio": self._sent_pause.ratio(timeline, index),
            "delivered_bps": _sum([bps for direction, bps in self._bps.items() if direction.sink == role]),
            "sent_bps": _sum([bps for direction, bps in self._bps.items() if direction.source == role]),
        }
        seconds, sample = timeline[index]
        return Sample(sample.clock + self._offsets.setdefault(role, seconds - sample.clock), role, values)

    def _rates(self, timeline: Timeline, index: int) -> Iterator[tuple[_Direction, float]]:
        (begin, before), (end, after) = timeline[index - 1 : index + 1]
        for flow in self._flows if end > begin else ():
            for key in (f"{flow.name}/responder", f"{flow.name}/requester"):
                earlier, later = _delivered(flow, before.flows.get(key)), _delivered(flow, after.flows.get(key))
                for direction in earlier.keys() & later.keys():
                    yield direction, 8 * (later[direction] - earlier[direction]) / (end - begin)


class _Direction(NamedTuple):
    """One direction of a flow. Both directions of loopback have the same source and sink."""

    flow: str
    returned: bool
    source: str
    sink: str


def _delivered(flow: Flow, totals: FlowTotals | None) -> dict[_Direction, int]:
    """Return the delivered bytes that one end of a flow counts, per direction."""
    if totals is None:
        return {}
    directions = {_Direction(flow.name, False, flow.source, flow.sink): totals.delivered_bytes}
    if flow.is_mixed:
        directions[_Direction(flow.name, True, flow.sink, flow.source)] = totals.returned_bytes
    return {direction: delivered for direction, delivered in directions.items() if delivered is not None}


def _sum(rates: Sequence[float]) -> float | None:
    return sum(rates) if rates else None
