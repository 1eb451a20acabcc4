"""From where on a run inside a set shows more than the set's cause.

A cause limits a rate. What it costs a packet, it costs a small packet, too, so with smaller messages the share of lost
throughput grows although no other cause adds to it. So where the rates of two runs are known, they are compared: as
many packets/s or bits/s are as much as the same limit allows. Otherwise the severity decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from collie.detect.symptom import Outcome, Received, Verdict

_SLOWER = 1.5
"""Factor between the rates, or between the shares of the throughput that are left, from which a second cause adds."""
_MOST_SEVERE = 0.99
"""The shares left of more severe runs are not told from each other."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The least that a run must show to count as shown.

    Attributes:
        severity: of its verdict.
        milder: what the host with the symptom receives where only the milder cause shows. If that and the
            verdict's rates are known, the run must be slower by the factor `slower` instead.
    """

    severity: float = 0.0
    milder: Received | None = None
    slower: float = 1.0

    @property
    def most_received(self) -> Received | None:
        """What a host with the symptom receives at most."""
        return None if self.milder is None else self.milder.slower_by(self.slower)

    def at_least(self, severity: float) -> Floor:
        """Return a floor with this severity or more."""
        return replace(self, severity=max(self.severity, severity))

    def apply(self, verdict: Verdict) -> Verdict:
        """Return a verdict, as a normal one if it shows less."""
        if not verdict.is_anomalous or self._is_reached_by(verdict):
            return verdict
        return Verdict(Outcome.NORMAL, f"{verdict.reason}, as the set around it predicts")

    def _is_reached_by(self, verdict: Verdict) -> bool:
        if self.milder is None or verdict.received is None:
            return verdict.severity >= self.severity
        return not verdict.received.shares_limit_with(self.milder, self.slower)


NO_FLOOR = Floor()


def is_more_severe(verdict: Verdict, severity: float) -> bool:
    """Whether a verdict is so much more severe than another cause that a second one can add to it."""
    return (1.0 - severity) > _SLOWER * (1.0 - verdict.severity)


def is_beyond(verdict: Verdict, other: Verdict) -> bool:
    """Whether a verdict shows a second cause beside that of another one: more severe, and not by the same limit."""
    if not is_more_severe(verdict, other.severity):
        return False
    if verdict.received is None or other.received is None:
        return True
    return not verdict.received.shares_limit_with(other.received, _SLOWER)


def floor_between(alone: Verdict | None, covered: Verdict) -> Floor:
    """Return the floor between a set's cause alone and a run with a second one, or `NO_FLOOR` without that.

    It is about as slow as that run, and at least half way to it.
    """
    if alone is None or not alone.is_anomalous:
        return Floor(_between(0.0, covered.severity)) if is_more_severe(covered, 0.0) else NO_FLOOR
    if not is_beyond(covered, alone):
        return NO_FLOOR
    severity = _between(alone.severity, covered.severity)
    if alone.received is None or covered.received is None:
        return Floor(severity)
    factor = covered.received.times_slower_than(alone.received)
    return Floor(severity, alone.received, max(math.sqrt(factor), factor / _SLOWER))


def _between(severity: float, worse: float) -> float:
    return 1.0 - math.sqrt((1.0 - severity) * (1.0 - min(worse, _MOST_SEVERE)))
