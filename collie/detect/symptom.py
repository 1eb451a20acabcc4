"""Symptoms and verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn

from collie.detect.signature import Signature


class Symptom(StrEnum):
    """How an anomaly shows. A run that shows several is called by the first of them, in this order."""

    WRONG_PAYLOAD = "wrong_payload"
    """Bytes arrive that differ from those that were sent."""
    PAUSE = "pause"
    """A host sends PFC pause frames on an uncongested network."""
    COMPLETION_ERRORS = "completion_errors"
    """Work requests complete with an error although nothing was wrong with them."""
    RNR_STORM = "rnr_storm"
    """Messages are turned away again and again because no receive is posted for them."""
    LOSS = "loss"
    """A host without pause counters discards packets or sees them out of sequence."""
    RETRANSMISSION = "retransmission"
    """A host receives again what it has received before, and nothing was lost on the way."""
    UNFAIRNESS = "unfairness"
    """One queue pair among many like it hardly gets a turn."""
    LOW_THROUGHPUT = "low_throughput"
    """Both bits/s and packets/s stay under what the same bytes in flight achieve otherwise."""

    @property
    def words(self) -> str:
        """The symptom as text for people: `low throughput`."""
        return self.replace("_", " ")

    def is_related(self, other: Symptom | None) -> bool:
        """Whether two symptoms may be one cause that shows now so, now so.

        What retransmits too early loses throughput, packets or whole queue pairs, from one run to the next. Pause is
        kin to nothing else: a paused sender loses throughput too, and pause is what is named then. Neither is a payload
        that arrives wrong: whatever is merely slow or lost arrives right in the end.
        """
        return other is self or (other is not None and _ALONE.isdisjoint((self, other)))

    def is_looked_for_before(self, other: Symptom) -> bool:
        """Whether a run that is called by the other symptom has been found not to show this one."""
        order = list(Symptom)
        return order.index(self) < order.index(other)


_ALONE = frozenset({Symptom.WRONG_PAYLOAD, Symptom.PAUSE})


class Outcome(StrEnum):
    """The three values of a verdict."""

    NORMAL = "normal"
    ANOMALOUS = "anomalous"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a measurement means. It has no truth value: `if verdict` would read inconclusive as one of the others.

    Attributes:
        outcome: normal, anomalous or inconclusive.
        symptom: how the anomaly shows; None unless anomalous.
        severity: max(pause ratio, 1 - delivered / bound), 0..1; 0 unless anomalous.
        host: the host that shows it; None unless anomalous.
        reason: one sentence with the figures.
        margin: how many times its threshold the deciding reading is, 1 when that may owe something to a disturbance; 0
            unless anomalous.
        signature: the counters that read more than in healthy runs; None where nobody looked.
    """

    outcome: Outcome
    reason: str
    symptom: Symptom | None = None
    severity: float = 0.0
    host: str | None = None
    margin: float = 0.0
    signature: Signature | None = field(default=None, compare=False)

    def __bool__(self) -> NoReturn:
        raise TypeError("a verdict has three values; compare its outcome")

    @property
    def is_anomalous(self) -> bool:
        """Whether the outcome is anomalous, and neither of the two others."""
        return self.outcome is Outcome.ANOMALOUS

    @property
    def is_normal(self) -> bool:
        """Whether the outcome is normal, and neither of the two others."""
        return self.outcome is Outcome.NORMAL

    @property
    def is_inconclusive(self) -> bool:
        """Whether nothing can be said."""
        return self.outcome is Outcome.INCONCLUSIVE


def inconclusive(reason: str) -> Verdict:
    """Return the verdict that says nothing but why."""
    return Verdict(Outcome.INCONCLUSIVE, reason)
