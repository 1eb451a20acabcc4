"""What a victim loses beside a workload, against what it keeps beside plain traffic. Pure."""

from __future__ import annotations

from collie.detect.bounds import Bound
from collie.detect.measurement import Victim
from collie.workloads.units import format_rate


def carries_its_load(victim: Victim, load_missed: float) -> bool:
    """Whether a victim receives what it offers, up to a share `load_missed`. A full send queue offers no load."""
    return bool(victim.offered_bps) and (victim.beside_bps or 0.0) >= (1.0 - load_missed) * victim.offered_bps


def usual_of(victim: Victim, bound: Bound) -> float:
    """Return what a victim keeps beside plain traffic in bit/s, or alone where that is unknown."""
    return (victim.alone_bps or 0.0) if bound.victim_bps is None else bound.victim_bps


def lost_by(victim: Victim, bound: Bound) -> tuple[float, str]:
    """Return the share that a victim loses and its figures in words.

    It is compared with the victim beside plain traffic of the same load, or alone where that is unknown.
    """
    usual, kept = usual_of(victim, bound), victim.beside_bps or 0.0
    beside = "alone" if bound.victim_bps is None else "beside its plain sibling"
    lost = 1.0 - kept / usual if usual else 0.0
    return lost, f"a plain flow keeps {format_rate(kept)} beside the workload, {format_rate(usual)} {beside}"
