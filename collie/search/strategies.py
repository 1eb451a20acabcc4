"""Every strategy by its name in a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from collie.counters.catalog import Catalog
from collie.search.annealing import Annealing
from collie.search.guided import Guided
from collie.search.random_search import RandomSearch
from collie.search.recipe import Recipe, StrategyName
from collie.search.strategy import Strategy
from collie.workloads.space import Space


def build(recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> Strategy:
    """Return the strategy that a recipe names."""
    return STRATEGIES[recipe.strategy](recipe, space, catalog, rng)


def _bayesian(recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> Strategy:
    from collie.search.bayesian import BayesianSearch  # optuna is an extra, and slow to import

    return BayesianSearch(recipe, space, catalog, rng)


STRATEGIES: Mapping[StrategyName, Callable[[Recipe, Space, Catalog, Random], Strategy]] = {
    StrategyName.ANNEALING: Annealing,
    StrategyName.RANDOM: lambda _recipe, space, _catalog, rng: RandomSearch(space, rng),
    StrategyName.OPTUNA: _bayesian,
    StrategyName.GUIDED: Guided,
}
