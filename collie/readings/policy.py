"""The timing of a run. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collie.counters.catalog import Catalog


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    """The timing of a run.

    Attributes:
        period_seconds: between samples.
        warm_up_seconds: dropped after the start of traffic.
        window_seconds: time that rates are over.
        patience_seconds: extra time for a window to become stable and fine enough.
        averaging_seconds: further time for a rate that varies about one level, until its mean is known as well.
        stability: largest coefficient of variation of a stable window. An emulated CPU shows 5 to 10 % between samples
            of 250 ms on plain traffic.
        resolution: largest share of a window's payload in one step of the accounting.
    """

    period_seconds: float = 0.25
    warm_up_seconds: float = 0.4
    window_seconds: float = 1.5
    patience_seconds: float = 2.0
    averaging_seconds: float = 7.5
    stability: float = 0.15
    resolution: float = 0.05

    def for_catalog(self, catalog: Catalog) -> WindowPolicy:
        """Return the policy with a window of several refreshes of the slowest counter that verdicts read."""
        return replace(self, window_seconds=max(self.window_seconds, _REFRESHES * catalog.slowest_deciding_seconds))

    @property
    def usual_samples(self) -> float:
        """Samples per window."""
        return self.window_seconds / self.period_seconds

    @property
    def longest_seconds(self) -> float:
        """Longest time that rates are over."""
        return self.window_seconds + self.averaging_seconds


_REFRESHES = 4
"""A rate over n refreshes is off by at most a sampling period in n refreshes."""
