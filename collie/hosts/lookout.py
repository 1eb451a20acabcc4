"""Shows the samples of a run to a `Watch` as they come. Pure.

A host's sample is shown as soon as two of its readings are there, without waiting for the other hosts: a storm may be
why they are silent. So a flow's rate is shown at the end that counts it, which need not be the receiver.

A later sample may have travelled faster and show that the first came late. What was shown stays where it was, and the
host's clock goes on from there: samples come forward in time.
"""

from __future__ import annotations

from collie.counters.catalog import Catalog
from collie.detect.measurement import Sample, Watch
from collie.hosts.pause import SentPause
from collie.hosts.recording import Placed, Recording


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
        self._sent = SentPause(catalog)
        self._shown: dict[str, int] = {}
        self._offsets: dict[str, float] = {}
        self.reason: str | None = None

    def show(self, recording: Recording) -> str | None:
        """Show what is new of each host's samples; return why the run has to stop, if it has to."""
        for role, taken in recording.samples.items() if self._watch else ():
            first = self._shown.get(role, 0)
            if len(taken) > first + 1:
                self._shown[role] = len(taken) - 1
                self._look(role, recording.placed(role), first)
        return self.reason

    def _look(self, role: str, samples: Placed, first: int) -> None:
        for index in range(first + 1, len(samples)):
            if self._watch and self.reason is None:
                self.reason = self._watch(self._sample(role, samples, index))

    def _sample(self, role: str, samples: Placed, index: int) -> Sample:
        values = {"tx_pause_ratio": self._sent.ratio(samples, index), "delivered_bps": _counted_bps(samples, index)}
        seconds, sample = samples[index]
        return Sample(sample.clock + self._offsets.setdefault(role, seconds - sample.clock), role, values)


def _counted_bps(samples: Placed, index: int) -> float | None:
    """Return the payload rate of the flows that this host counts; None when it counts none."""
    (begin, before), (end, after) = samples[index - 1 : index + 1]
    seconds = end - begin
    known = [
        totals.delivered_bytes - earlier.delivered_bytes
        for key, totals in after.flows.items()
        if (earlier := before.flows.get(key)) is not None
        and totals.delivered_bytes is not None
        and earlier.delivered_bytes is not None
    ]
    return 8 * sum(known) / seconds if known and seconds > 0 else None
