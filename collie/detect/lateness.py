"""Latencies against those of plain traffic at the same load."""

from __future__ import annotations

from typing import NamedTuple

from collie.detect.measurement import Latency
from collie.workloads.units import format_share, format_short_seconds


class Lateness(NamedTuple):
    """A quantile of a latency against its reference, the one with the largest margin.

    Attributes:
        margin: multiple of both thresholds, of the ratio and of the excess, that it reaches. Above 1 it is late.
        whose: the share of the messages within `seconds`, `half` or `99%`.
    """

    margin: float = 0.0
    seconds: float = 0.0
    usual_seconds: float = 0.0
    whose: str = ""

    @property
    def severity(self) -> float:
        """The share of the latency that is waiting, 0 to 1. Undefined where there is no lateness."""
        return 1.0 - self.usual_seconds / self.seconds

    def in_words(self, text: str) -> str:
        """Fill in `{whose}`, `{here}` and `{usual}`, and add the severity."""
        here, usual = format_short_seconds(self.seconds), format_short_seconds(self.usual_seconds)
        text = text.format(whose=self.whose, here=here, usual=usual)
        return f"{text}: waiting is {format_share(self.severity)} of the latency"


def lateness(measured: Latency, reference: Latency, ratio: float, excess_seconds: float) -> Lateness:
    """Compare the median and 99 %. What is late exceeds its reference by the `ratio` and by `excess_seconds`."""
    quantiles = (
        (measured.median_seconds, reference.median_seconds, "half"),
        (measured.p99_seconds, reference.p99_seconds, "99%"),
    )
    found = (
        Lateness(min(here / usual / ratio, (here - usual) / excess_seconds), here, usual, whose)
        for here, usual, whose in quantiles
        if here and usual
    )
    return max(found, default=Lateness())
