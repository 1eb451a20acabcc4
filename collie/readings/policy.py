"""How a run is timed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collie.counters.catalog import Catalog


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    """How a run is timed.

    Attributes:
        period_seconds: between samples.
        warm_up_seconds: dropped after the start of traffic.
        window_seconds: that rates are over.
        patience_seconds: how much longer to wait for a window that is stable and holds enough steps.
        averaging_seconds: how much longer than the window a run may get, after that, where its rate swings about one
            level: a mean over more samples is as good as that of a stable window.
        stability: largest coefficient of variation of a stable window. An emulated CPU shows 5 to 10 % between samples
            of 250 ms on plain traffic.
        resolution: largest share of a window's payload that one step of the accounting may be.
    """

    period_seconds: float = 0.25
    warm_up_seconds: float = 0.4
    window_seconds: float = 1.5
    patience_seconds: float = 2.0
    averaging_seconds: float = 7.5
    stability: float = 0.15
    resolution: float = 0.05

    def for_catalog(self, catalog: Catalog) -> WindowPolicy:
        """Return the policy with a window that holds several refreshes of the slowest counter that verdicts read."""
        return replace(self, window_seconds=max(self.window_seconds, _REFRESHES * catalog.slowest_deciding_seconds))

    @property
    def usual_samples(self) -> float:
        """How many samples a window holds."""
        return self.window_seconds / self.period_seconds

    @property
    def longest_seconds(self) -> float:
        """Longest time that rates are over."""
        return self.window_seconds + self.averaging_seconds


_REFRESHES = 4
"""A rate over n steps is off by at most a sampling period in n refreshes."""
