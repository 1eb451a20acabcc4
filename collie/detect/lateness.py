"""Latencies against those of plain traffic at the same load."""

from __future__ import annotations

from typing import NamedTuple

from collie.detect.measurement import Latency
from collie.workloads.units import format_share, format_short_seconds


class Lateness(NamedTuple):
    """A quantile of a latency against its reference, the one whose ratio is largest. A ratio of 0 is no lateness.

    Attributes:
        ratio: `seconds` over `usual_seconds`.
        whose: the share of the messages within `seconds`, `half` or `99%`.
    """

    ratio: float = 0.0
    seconds: float = 0.0
    usual_seconds: float = 0.0
    whose: str = ""

    @property
    def severity(self) -> float:
        """The share of the latency that is waiting, 0 to 1. Undefined where there is no lateness."""
        return 1.0 - 1.0 / self.ratio

    def in_words(self, text: str) -> str:
        """Fill in `{whose}`, `{here}` and `{usual}`, and add the severity."""
        here, usual = format_short_seconds(self.seconds), format_short_seconds(self.usual_seconds)
        text = text.format(whose=self.whose, here=here, usual=usual)
        return f"{text}: waiting is {format_share(self.severity)} of the latency"


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
