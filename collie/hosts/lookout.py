"""Shows the samples of a run to a `Watch` as they come. Pure.

A host's sample is shown as soon as two of its readings are there, without waiting for the other hosts: a storm may be
why they are silent. So a flow's rate is shown at the end that counts it, which need not be the receiver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from collie.counters.catalog import Catalog, Role
from collie.counters.series import rates
from collie.detect.measurement import Sample, Watch
from collie.hosts.samples import AgentSample, snapshot
from collie.hosts.window import Recording, pause_ratio

Placed = tuple[float, AgentSample]
"""Seconds since traffic began, and the sample."""


class Lookout:
    """Shows each sample once.

    Args:
        watch: who looks; None when nobody does.
        catalog: counters of the hosts' driver.

    Attributes:
        reason: why the run has to stop; None while it may go on.
    """

    def __init__(self, watch: Watch | None, catalog: Catalog) -> None:
        self._watch = watch
        self._pause = replace(catalog, counters=catalog.of_role(Role.TX_PAUSE))
        self._shown: dict[str, int] = {}
        self.reason: str | None = None

    def show(self, recording: Recording) -> str | None:
        """Show what is new of each host's samples; return why the run has to stop, if it has to."""
        for role, taken in recording.samples.items() if self._watch else ():
            first = self._shown.get(role, 0)
            if len(taken) > first + 1:
                self._shown[role] = len(taken) - 1
                self._look(role, recording.placed(role)[first:])
        return self.reason

    def _look(self, role: str, samples: Sequence[Placed]) -> None:
        for before, after in pairwise(samples):
            if self._watch and self.reason is None:
                self.reason = self._watch(self._sample(role, before, after))

    def _sample(self, role: str, before: Placed, after: Placed) -> Sample:
        snapshots = [snapshot(sample, self._pause) for _, sample in (before, after)]
        paused = pause_ratio(self._pause, rates(self._pause, snapshots), Role.TX_PAUSE)
        return Sample(after[0], role, {"tx_pause_ratio": paused, "delivered_bps": _counted_bps(before, after)})


def _counted_bps(before: Placed, after: Placed) -> float | None:
    """Return the payload rate of the flows that this host counts; None when it counts none."""
    seconds = after[1].clock - before[1].clock
    known = [
        totals.delivered_bytes - earlier.delivered_bytes
        for key, totals in after[1].flows.items()
        if (earlier := before[1].flows.get(key)) is not None
        and totals.delivered_bytes is not None
        and earlier.delivered_bytes is not None
    ]
    return 8 * sum(known) / seconds if known and seconds > 0 else None
