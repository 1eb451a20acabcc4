"""The timing of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collie.counters.catalog import Catalog


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    """The timing of a run.

    Attributes:
        patience_seconds: extra time for a window to become stable and fine enough.
        averaging_seconds: more time for the mean of a rate that varies about one level.
        stability: largest coefficient of variation of a stable window. Plain traffic on an emulated CPU has 5 to 10 %.
        resolution: largest share of a window's payload that one step of its accounting may have.
    """

    period_seconds: float = 0.25
    warm_up_seconds: float = 0.4
    window_seconds: float = 1.5
    patience_seconds: float = 2.0
    averaging_seconds: float = 7.5
    stability: float = 0.15
    resolution: float = 0.05

    def for_catalog(self, catalog: Catalog) -> WindowPolicy:
        """Return the policy with a window of several refreshes of the slowest deciding counter."""
        return replace(self, window_seconds=max(self.window_seconds, _REFRESHES * catalog.slowest_deciding_seconds))

    @property
    def longest_seconds(self) -> float:
        """Longest window."""
        return self.window_seconds + self.averaging_seconds


_REFRESHES = 4
"""Over n refreshes, the relative error of a rate is at most one sampling period divided by n refresh periods."""
