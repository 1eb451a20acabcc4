"""A quantity that only grows, known at some moments. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


class Curve:
    """Linear between its points, constant outside. `points` are (seconds, value), at least one, in order of time."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._seconds = [seconds for seconds, _ in points]
        self._values = [value for _, value in points]

    def at(self, seconds: float) -> float:
        """Return the value at a moment."""
        after = bisect_right(self._seconds, seconds)
        if after == 0:
            return self._values[0]
        if after == len(self._seconds):
            return self._values[-1]
        begin, end = self._seconds[after - 1], self._seconds[after]
        low, high = self._values[after - 1], self._values[after]
        return low + (high - low) * (seconds - begin) / (end - begin)

    def advance(self, begin: float, end: float) -> float:
        """Return the growth between two moments."""
        return self.at(end) - self.at(begin)
