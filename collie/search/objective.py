"""The objective of a search: a counter and the direction in which it gets worse (paper section 5.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from collie.counters.catalog import Catalog, CounterKind
from collie.detect.measurement import Measurement
from collie.search.recipe import Recipe

_LEAST = 1e-9
"""A counter below this value counts as standing still."""


@dataclass(frozen=True, slots=True)
class Objective:
    """One counter to drive: a diagnostic counter rises, a performance counter falls."""

    counter: str
    rises: bool

    def energy(self, old: float, new: float) -> float:
        """Return the relative change, negative when it gets worse for the NIC.

        From A to B: (B - A) / A for performance counters, (A - B) / B for diagnostic counters (paper, section 5.1).
        """
        if self.rises:
            return (old - new) / max(new, _LEAST)
        return (new - old) / max(old, _LEAST)


class Stages:
    """The objectives of a search, one after another and then from the first again.

    The first measurements rank them, as many as the recipe's `ranking_points`.
    """

    def __init__(self, recipe: Recipe, catalog: Catalog) -> None:
        self._recipe = recipe
        self._catalog = catalog
        self._ranking: list[Measurement] = []
        self._objectives: tuple[Objective, ...] = ()
        self._stage = 0

    @property
    def objective(self) -> Objective | None:
        """The objective of this stage, or None during ranking."""
        return self._objectives[self._stage % len(self._objectives)] if self._objectives else None

    @property
    def driven(self) -> str | None:
        """The counter of this stage, or None during ranking."""
        return self.objective.counter if self.objective else None

    def rank(self, measurement: Measurement) -> None:
        """Add the measurement of a random point."""
        self._ranking.append(measurement)
        if len(self._ranking) >= self._recipe.ranking_points:
            self._objectives = rank(self._catalog, self._ranking, self._recipe.drives)
            self._ranking.clear()

    def advance(self) -> None:
        """Begin the next stage."""
        self._stage += 1


def readings(catalog: Catalog, measurement: Measurement) -> dict[str, float | None]:
    """Return the readings of the drivable counters by name, or None where no host has one."""
    return {
        counter.name: measurement.counter(counter.name)
        for kind in (CounterKind.DIAGNOSTIC, CounterKind.PERFORMANCE)
        for counter in catalog.of_kind(kind)
    }


def rank(
    catalog: Catalog,
    measurements: Sequence[Measurement],
    drives: Sequence[CounterKind] = (CounterKind.DIAGNOSTIC, CounterKind.PERFORMANCE),
) -> tuple[Objective, ...]:
    """Order the counters by std / mean over random points, most variable first, within each kind of `drives`.

    Diagnostic counters move before throughput does. Unknown and constant counters are left out. If none is left,
    performance is driven.
    """
    ranked = [
        Objective(counter.name, kind is CounterKind.DIAGNOSTIC)
        for kind in drives
        for counter in sorted(catalog.of_kind(kind), key=lambda counter: -_variation(counter.name, measurements))
        if _variation(counter.name, measurements) > 0
    ]
    if not ranked:
        ranked = [Objective(counter.name, rises=False) for counter in catalog.of_kind(CounterKind.PERFORMANCE)]
    return tuple(ranked)


def _variation(name: str, measurements: Sequence[Measurement]) -> float:
    known = [value for measurement in measurements if (value := measurement.counter(name)) is not None]
    mean = fmean(known) if known else 0.0
    return pstdev(known) / mean if mean > _LEAST and math.isfinite(mean) else 0.0
