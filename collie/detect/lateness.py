"""Latencies against those of plain traffic at the same load, and what a victim loses against it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from collie.detect.measurement import Latency, Victim
from collie.workloads.units import format_rate, format_short_seconds

if TYPE_CHECKING:
    from collie.detect.bounds import Bound


class Lateness(NamedTuple):
    """A quantile of a latency against its reference, the one whose ratio is largest. A ratio of 0 is no lateness."""

    ratio: float = 0.0
    seconds: float = 0.0
    usual_seconds: float = 0.0
    whose: str = ""

    @property
    def severity(self) -> float:
        """The share of the latency that is waiting."""
        return 1.0 - 1.0 / self.ratio

    def in_words(self, text: str) -> str:
        """Fill in `{whose}`, `{here}` and `{usual}`, and add the severity."""
        here, usual = format_short_seconds(self.seconds), format_short_seconds(self.usual_seconds)
        text = text.format(whose=self.whose, here=here, usual=usual)
        return f"{text}: waiting is {self.severity:.0%} of the latency"


def lateness(measured: Latency, reference: Latency, least_seconds: float) -> Lateness:
    """Compare the median and 99 %. Only excesses of more than `least_seconds` count."""
    quantiles = (
        (measured.median_seconds, reference.median_seconds, "half"),
        (measured.p99_seconds, reference.p99_seconds, "99%"),
    )
    found = (
        Lateness(here / usual, here, usual, whose)
        for here, usual, whose in quantiles
        if here and usual and here - usual > least_seconds
    )
    return max(found, default=Lateness())


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
