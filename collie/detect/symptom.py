"""Symptoms and verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn

from collie.detect.signature import Signature


class Symptom(StrEnum):
    """How an anomaly shows."""

    PAUSE = "pause"
    """A host sends PFC pause frames on an uncongested network."""
    LOW_THROUGHPUT = "low_throughput"
    """Both bits/s and packets/s stay under what the same bytes in flight achieve otherwise."""
    LOSS = "loss"
    """A host without pause counters discards packets or sees them out of sequence."""
    COMPLETION_ERRORS = "completion_errors"
    """Work requests complete with an error although nothing was wrong with them."""

    def is_kin(self, other: Symptom | None) -> bool:
        """Whether two symptoms may be one cause that shows now so, now so.

        What retransmits too early loses throughput, packets or whole queue pairs, from one run to the next. Pause is
        kin to nothing else: a paused sender loses throughput too, and pause is what is named then.
        """
        return other is self or (other is not None and Symptom.PAUSE not in (self, other))


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
