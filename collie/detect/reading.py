"""The reading of one run for a comparison with another, and the differences that count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from collie.detect.measurement import Measurement
from collie.detect.symptom import Symptom, Verdict
from collie.detect.thresholds import Thresholds

_PAUSE_FACTOR = 2.0
_MARGIN_FACTOR = 2.0
_ABSOLUTE = frozenset({Symptom.WRONG_PAYLOAD, Symptom.COMPLETION_ERRORS, Symptom.UNFAIRNESS})
"""Symptoms that are only present or absent. They have no reading that could double."""


@dataclass(frozen=True, slots=True)
class RunReading:
    """The comparable part of one run.

    Attributes:
        delivered_bps: payload bits/s over all receiving hosts.
        pause_ratio: the largest pause ratio of any host.
        unbounded: whether the run lacks only a bound. Its throughput can then be compared with the other side's.
        victim_lost_ratio: share of its throughput alone that the flow beside the workload lost.
    """

    verdict: Verdict
    delivered_bps: float | None = None
    pause_ratio: float | None = None
    unbounded: bool = False
    victim_lost_ratio: float | None = None


def reading_of(verdict: Verdict, measurement: Measurement) -> RunReading:
    """Return the reading of a judged run, without the throughput of a run that was stopped early."""
    received = [host.delivered_bps for host in measurement.hosts if host.delivered_bps is not None]
    paused = [host.tx_pause_ratio for host in measurement.hosts if host.tx_pause_ratio is not None]
    delivered = sum(received) if received and not measurement.stopped else None
    lost = measurement.victim.lost_ratio if measurement.victim is not None else None
    return RunReading(verdict, delivered, max(paused, default=None), victim_lost_ratio=lost)


def typical(readings: Sequence[RunReading]) -> RunReading | None:
    """Return the middle reading of the more frequent outcome, or None without a conclusive reading."""
    conclusive = [reading for reading in readings if not reading.verdict.is_inconclusive]
    reproduced = [reading for reading in conclusive if reading.verdict.is_anomalous]
    agreed = reproduced if 2 * len(reproduced) > len(conclusive) else [r for r in conclusive if r.verdict.is_normal]
    ordered = sorted(agreed, key=lambda reading: (reading.verdict.severity, -(reading.delivered_bps or 0.0)))
    return ordered[len(ordered) // 2] if ordered else None


@dataclass(frozen=True, slots=True)
class Resolution:
    """Differences between two readings that count.

    Attributes:
        pause_ratio: share of time above which pause is an anomaly. Two shares differ by a factor of 2, or by `lost`.
        lost: share of the other side's throughput that an anomalous run must lack.
        lost_when_normal: share that a normal run must lack.
    """

    pause_ratio: float
    lost: float
    lost_when_normal: float


def resolution(thresholds: Thresholds) -> Resolution:
    """Return the resolution: half of the threshold of missing throughput, or all of it for normal runs."""
    deficit = thresholds.throughput_deficit
    return Resolution(thresholds.pause_ratio, deficit / 2, deficit)


class Sign(StrEnum):
    """The difference of one pair: the candidate against the baseline."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"


def sign_of(before: RunReading, after: RunReading, limits: Resolution) -> Sign | None:
    """Return the sign of a pair, or None when a run is inconclusive."""
    if before.unbounded != after.unbounded:
        return _sign_by_throughput(before, after, limits)
    if before.verdict.is_inconclusive or after.verdict.is_inconclusive:
        return None
    if _exceeds(after, before, limits):
        return Sign.WORSE
    return Sign.BETTER if _exceeds(before, after, limits) else Sign.SAME


def _sign_by_throughput(before: RunReading, after: RunReading, limits: Resolution) -> Sign | None:
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
    # Without a bound, a faster candidate can still be slow.
    return None if after.unbounded else Sign.BETTER


def worse_by(before: RunReading, after: RunReading, limits: Resolution) -> str:
    """Return the rule by which the second reading is worse than the first, in words, or an empty text."""
    lost = _lost(before, after)
    if lost is not None and lost >= (limits.lost if after.verdict.is_anomalous else limits.lost_when_normal):
        return "throughput"
    if not after.verdict.is_anomalous:
        return ""
    if _pauses_more(after, before, limits):
        return (
            f"pause, which counts when it is {_PAUSE_FACTOR:g} times as long or by {100 * limits.lost:g} points longer"
        )
    symptom = after.verdict.symptom
    return symptom.words if symptom is not None and _shows_more(after.verdict, before.verdict, limits) else ""


def _exceeds(one: RunReading, other: RunReading, limits: Resolution) -> bool:
    """Whether one reading is worse than another by more than the resolution."""
    return bool(worse_by(other, one, limits))


def _lost(than: RunReading, reading: RunReading) -> float | None:
    if reading.delivered_bps is None or not than.delivered_bps:
        return None
    return 1.0 - reading.delivered_bps / than.delivered_bps


def _pauses_more(one: RunReading, other: RunReading, limits: Resolution) -> bool:
    if one.pause_ratio is None or other.pause_ratio is None or one.pause_ratio <= limits.pause_ratio:
        return False
    return one.pause_ratio >= min(_PAUSE_FACTOR * other.pause_ratio, other.pause_ratio + limits.lost)


def _shows_more(one: Verdict, other: Verdict, limits: Resolution) -> bool:
    """Whether a symptom other than pause and throughput is present, and absent or much weaker on the other side."""
    symptom = one.symptom
    if symptom in (Symptom.PAUSE, Symptom.LOW_THROUGHPUT):
        return False
    if other.symptom not in (None, symptom):
        return one.severity - other.severity >= limits.lost
    if symptom in _ABSOLUTE:
        return other.symptom is None
    return one.margin >= _MARGIN_FACTOR * max(1.0, other.margin)
