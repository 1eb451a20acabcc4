"""Deviation of a rate from earlier rates of the same counter on the same host, in median absolute deviations."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median

from collie.counters.catalog import Catalog, Counter, CounterKind
from collie.counters.series import robust_spread

MAX_UNUSUAL = 10.0
_MIN_SAMPLES = 5
_KEPT = 240
_MIN_SPREAD = 0.02
"""Minimum spread as a share of the median: the usual variation of traffic between periods."""
_TROUBLE = frozenset({CounterKind.DIAGNOSTIC, CounterKind.PAUSE, CounterKind.ERROR})


class CounterBaseline:
    """The earlier rates of a host's counters, against which new rates are judged."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._history: dict[str, deque[float]] = {}

    def judge(self, rates: Mapping[str, float | None]) -> dict[str, float | None]:
        """Return the score of each rate by counter name, and record the rate.

        A score is 0 (usual) to `MAX_UNUSUAL`. It is None for an unknown rate or too few samples.
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
