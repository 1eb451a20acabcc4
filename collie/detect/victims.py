"""What a victim loses beside a workload, against what it keeps beside plain traffic."""

from __future__ import annotations

from collie.detect.bounds import NOT_CARRIED, Bound
from collie.detect.measurement import Victim
from collie.workloads.units import format_rate

VICTIM_BYTES = 65536
"""Bytes of each message of a victim."""
_LEAST_MESSAGES = 8
"""Messages that a victim must move in a window beside plain traffic. Of one, the next run can lose all by chance."""


def carries_its_load(victim: Victim) -> bool:
    """Whether what a victim offers arrives. A full send queue offers no load."""
    return bool(victim.offered_bps) and (victim.beside_bps or 0.0) >= (1.0 - NOT_CARRIED) * victim.offered_bps


def lost_by(victim: Victim, bound: Bound) -> tuple[float, str]:
    """Return the share that a victim loses and its figures in words.

    The share is 0 to 1, or negative where it keeps more. It is compared with the victim beside plain traffic of the
    same load, or alone where that is unknown. If both are, no throughput is known to suffice, so the share is 1 and the
    caller must measure the plain sibling.
    """
    usual, kept = _usual_bps(victim, bound), victim.beside_bps or 0.0
    figures = f"a plain flow keeps {format_rate(kept)} beside the workload"
    if usual is None:
        return 1.0, figures
    if usual <= 0.0:
        return 0.0, figures
    beside = "alone" if bound.victim_bps is None else "beside its plain sibling"
    return 1.0 - kept / usual, f"{figures}, {format_rate(usual)} {beside}"


def has_too_little(victim: Victim, bound: Bound, window_seconds: float) -> bool:
    """Whether a victim moves hardly anything beside plain traffic, so that it cannot be told what it loses."""
    usual = _usual_bps(victim, bound)
    return usual is not None and 0.0 <= usual * window_seconds < 8 * _LEAST_MESSAGES * VICTIM_BYTES


def _usual_bps(victim: Victim, bound: Bound) -> float | None:
    """Return what a victim keeps beside plain traffic, or alone where that is unknown. None if neither is known."""
    return victim.alone_bps if bound.victim_bps is None else bound.victim_bps
