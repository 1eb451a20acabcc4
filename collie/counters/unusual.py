"""How unusual a rate is against those that the same counter of the same host has shown before.

The yardstick is the median so far and the spread around it (median absolute deviation): a few outliers do not move
either. A counter of trouble that mostly stands at zero needs no spread: that it moves at all is unusual.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median

from collie.counters.catalog import Catalog, Counter, CounterKind
from collie.counters.spread import robust_spread

MAX_UNUSUAL = 10.0
"""Deviations from the median beyond which nothing is told apart any more."""
_MIN_SAMPLES = 5
"""Rates of a counter before a spread means anything."""
_KEPT = 240
_MIN_SPREAD = 0.02
"""Of the median: traffic differs by so much from period to period without anybody calling it unusual."""
_TROUBLE = frozenset({CounterKind.DIAGNOSTIC, CounterKind.PAUSE, CounterKind.ERROR})


class CounterBaseline:
    """What the counters of one host have shown so far.

    Args:
        catalog: of its NIC.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._history: dict[str, deque[float]] = {}

    def judge(self, rates: Mapping[str, float | None]) -> dict[str, float | None]:
        """Return how unusual each rate is, and remember it.

        Args:
            rates: by counter name, as `series.rates` gives them.

        Returns:
            By counter name: 0 for usual, up to `MAX_UNUSUAL`; None for an unknown rate, and while too little is known.
        """
        judged = {counter.name: self._score(counter, rates.get(counter.name)) for counter in self._catalog.counters}
        for name, rate in rates.items():
            if rate is not None:
                self._history.setdefault(name, deque(maxlen=_KEPT)).append(rate)
        return judged

    def _score(self, counter: Counter, rate: float | None) -> float | None:
        known = self._history.get(counter.name, ())
        if rate is None or not known:
            return None
        middle = median(known)
        if counter.kind in _TROUBLE and rate and middle == 0:
            return MAX_UNUSUAL
        if len(known) < _MIN_SAMPLES:
            return None
        spread = robust_spread(known, middle)
        spread = max(spread, _MIN_SPREAD * abs(middle))
        if spread == 0:
            return MAX_UNUSUAL if rate else 0.0
        return min(MAX_UNUSUAL, abs(rate - middle) / spread)
