"""Strategies propose workloads and hear what came of them. They never run anything.

A strategy is deterministic: with one seed and the same answers it asks the same workloads, which is what lets a killed
campaign be resumed by telling it again what is on record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Protocol

from collie.counters.catalog import Catalog
from collie.detect.measurement import Measurement
from collie.search.recipe import Recipe, StrategyName
from collie.workloads.space import Space
from collie.workloads.workload import Workload


class ProposalOutcome(StrEnum):
    """What became of a proposal."""

    MEASURED = "measured"
    SKIPPED = "skipped"
    """A known anomaly covers it."""
    FAILED = "failed"
    """Its traffic could not be set up: neither good nor bad."""
    UNSUPPORTED = "unsupported"
    """The device cannot run it; proposing it again is pointless."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a strategy hears of its proposal.

    Attributes:
        fate: what became of it.
        measurement: with `measured` only.
        found: it was confirmed as an anomaly.
    """

    fate: ProposalOutcome
    measurement: Measurement | None = None
    found: bool = False


class Strategy(Protocol):
    """Who proposes workloads."""

    @property
    def driven(self) -> str | None:
        """The counter that the next proposal is meant to drive, if any."""
        ...

    @property
    def temperature(self) -> float | None:
        """How readily the strategy accepts what is worse, falling from 1; None when it knows no temperature."""
        ...

    def ask(self) -> Workload:
        """Propose a workload of the space."""
        ...

    def tell(self, workload: Workload, answer: Answer) -> None:
        """Hear what became of the last proposal."""
        ...


class RandomSearch:
    """Draws every workload afresh: the baseline that any other strategy has to beat."""

    driven: str | None = None
    temperature: float | None = None

    def __init__(self, space: Space, rng: Random) -> None:
        self._space = space
        self._rng = rng

    def ask(self) -> Workload:
        """Draw a workload."""
        return self._space.sample(self._rng)

    def tell(self, workload: Workload, answer: Answer) -> None:
        """Learn nothing."""


def build(recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> Strategy:
    """Return the strategy that a recipe names."""
    return STRATEGIES[recipe.strategy](recipe, space, catalog, rng)


def _annealing(recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> Strategy:
    from collie.search.annealing import Annealing

    return Annealing(recipe, space, catalog, rng)


def _guided(recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> Strategy:
    from collie.search.guided import Guided

    return Guided(recipe, space, catalog, rng)


def _bayesian(recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> Strategy:
    from collie.search.bayesian import BayesianSearch  # optuna is an extra, and takes long to import

    return BayesianSearch(recipe, space, catalog, rng)


STRATEGIES: Mapping[StrategyName, Callable[[Recipe, Space, Catalog, Random], Strategy]] = {
    StrategyName.ANNEALING: _annealing,
    StrategyName.RANDOM: lambda _recipe, space, _catalog, rng: RandomSearch(space, rng),
    StrategyName.OPTUNA: _bayesian,
    StrategyName.GUIDED: _guided,
}
"""How to build each strategy; adding one here and in `StrategyName` makes it usable in recipes."""
