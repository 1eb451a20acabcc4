"""What one run says beside another one of the same workload, and from where on the two differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from collie.detect.judge import Thresholds
from collie.detect.measurement import Measurement
from collie.detect.symptom import Symptom, Verdict

_PAUSE_FACTOR = 2.0
_MARGIN_FACTOR = 2.0
_ABSOLUTE = frozenset({Symptom.WRONG_PAYLOAD, Symptom.COMPLETION_ERRORS, Symptom.UNFAIRNESS})
"""Symptoms without a reading that could be twice another: they show or they do not."""


@dataclass(frozen=True, slots=True)
class RunReading:
    """What one run says, as far as two sides can be compared by it.

    Attributes:
        verdict: of the run, by the bounds of its own side.
        delivered_bps: payload bits/s over all receiving hosts; None when unknown.
        pause_ratio: share of time for which a host sent pause, the largest over hosts; None when no counter tells.
        unbounded: inconclusive for want of a bound, and sound but for that: what it delivered can be held against what
            the other side did.
    """

    verdict: Verdict
    delivered_bps: float | None = None
    pause_ratio: float | None = None
    unbounded: bool = False


def reading_of(verdict: Verdict, measurement: Measurement) -> RunReading:
    """Return what a judged run says; of a run that was stopped early, nothing about its throughput."""
    received = [host.delivered_bps for host in measurement.hosts if host.delivered_bps is not None]
    paused = [host.tx_pause_ratio for host in measurement.hosts if host.tx_pause_ratio is not None]
    delivered = sum(received) if received and not measurement.stopped else None
    return RunReading(verdict, delivered, max(paused, default=None))


def typical(readings: Sequence[RunReading]) -> RunReading | None:
    """Return the reading in the middle of those that most runs agree with; None where none says anything."""
    telling = [reading for reading in readings if not reading.verdict.is_inconclusive]
    reproduced = [reading for reading in telling if reading.verdict.is_anomalous]
    agreed = reproduced if 2 * len(reproduced) > len(telling) else [r for r in telling if r.verdict.is_normal]
    ordered = sorted(agreed, key=lambda reading: (reading.verdict.severity, -(reading.delivered_bps or 0.0)))
    return ordered[len(ordered) // 2] if ordered else None


@dataclass(frozen=True, slots=True)
class Resolution:
    """From where on two readings differ.

    Attributes:
        pause_ratio: share of time above which pause is an anomaly. Pause differs by a factor of 2, or by `lost`.
        lost: share of the other side's throughput that has to be missing, in a run that is anomalous.
        lost_when_normal: the same in a run that is normal by the bounds of its own side: these fall with it.
    """

    pause_ratio: float
    lost: float
    lost_when_normal: float


def resolution(thresholds: Thresholds) -> Resolution:
    """Return what a testbed can resolve: half of what it takes to be an anomaly, and all of it without a verdict."""
    deficit = thresholds.throughput_deficit
    return Resolution(thresholds.pause_ratio, deficit / 2, deficit)


class Sign(StrEnum):
    """What one pair says of the candidate."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"


def sign_of(before: RunReading, after: RunReading, limits: Resolution) -> Sign | None:
    """Return what a pair says; None when one of its runs says nothing."""
    if before.unbounded != after.unbounded:
        return _sign_by_throughput(before, after, limits)
    if before.verdict.is_inconclusive or after.verdict.is_inconclusive:
        return None
    if _exceeds(after, before, limits):
        return Sign.WORSE
    return Sign.BETTER if _exceeds(before, after, limits) else Sign.SAME


def _sign_by_throughput(before: RunReading, after: RunReading, limits: Resolution) -> Sign | None:
    """Return what a pair says of which one run is known to be slow, and the other lacks a bound to be judged by."""
    judged = after if before.unbounded else before
    if judged.verdict.symptom is not Symptom.LOW_THROUGHPUT:
        return None
    if before.delivered_bps is None or after.delivered_bps is None:
        return None
    most = max(before.delivered_bps, after.delivered_bps)
    lost = (before.delivered_bps - after.delivered_bps) / most if most else 0.0
    if lost >= limits.lost:
        return Sign.WORSE
    if lost > -limits.lost:
        return Sign.SAME
    # A candidate without a bound has gained, and may still be slow: nobody can say how much it should deliver.
    return None if after.unbounded else Sign.BETTER


def _exceeds(one: RunReading, other: RunReading, limits: Resolution) -> bool:
    """Whether one reading is worse than another by more than the testbed can resolve."""
    lost = _lost(other, one)
    if not one.verdict.is_anomalous:
        return lost is not None and lost >= limits.lost_when_normal
    return (
        (lost is not None and lost >= limits.lost)
        or _pauses_more(one, other, limits)
        or _shows_more(one.verdict, other.verdict, limits)
    )


def _lost(than: RunReading, reading: RunReading) -> float | None:
    """Return the share of another reading's throughput that is missing."""
    if reading.delivered_bps is None or not than.delivered_bps:
        return None
    return 1.0 - reading.delivered_bps / than.delivered_bps


def _pauses_more(one: RunReading, other: RunReading, limits: Resolution) -> bool:
    if one.pause_ratio is None or other.pause_ratio is None or one.pause_ratio <= limits.pause_ratio:
        return False
    return one.pause_ratio >= min(_PAUSE_FACTOR * other.pause_ratio, other.pause_ratio + limits.lost)


def _shows_more(one: Verdict, other: Verdict, limits: Resolution) -> bool:
    """Whether a symptom that neither pause nor throughput tells shows, and on the other side much less or not."""
    symptom = one.symptom
    if symptom in (Symptom.PAUSE, Symptom.LOW_THROUGHPUT):
        return False
    if other.symptom not in (None, symptom):
        return one.severity - other.severity >= limits.lost
    if symptom in _ABSOLUTE:
        return other.symptom is None
    return one.margin >= _MARGIN_FACTOR * max(1.0, other.margin)
