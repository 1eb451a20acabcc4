"""Every strategy by its name in a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from collie.counters.catalog import Catalog
from collie.errors import UsageError
from collie.search.annealing import Annealing
from collie.search.guided import Guided
from collie.search.random_search import RandomSearch
from collie.search.recipe import Recipe, StrategyName, plugins
from collie.search.strategy import Strategy
from collie.workloads.space import Space

Builder = Callable[[Recipe, Space, Catalog, Random], Strategy]
"""Makes a strategy. A plug-in's entry point names such a function or class."""


def build(recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> Strategy:
    """Return the strategy that a recipe names."""
    return STRATEGIES[recipe.strategy](recipe, space, catalog, rng)


def _plugin(recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> Strategy:
    entry = plugins()[recipe.plugin]
    try:
        builder: Builder = entry.load()
        return builder(recipe, space, catalog, rng)
    except Exception as error:  # another package's code can fail in any way
        raise UsageError(
            f"strategy {recipe.plugin} ({entry.value}) cannot be used: {type(error).__name__}: {error}"
        ) from error


def _bayesian(recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> Strategy:
    from collie.search.bayesian import BayesianSearch  # optuna is an extra, and slow to import

    return BayesianSearch(recipe, space, catalog, rng)


STRATEGIES: Mapping[StrategyName, Builder] = {
    StrategyName.ANNEALING: Annealing,
    StrategyName.RANDOM: lambda _recipe, space, _catalog, rng: RandomSearch(space, rng),
    StrategyName.OPTUNA: _bayesian,
    StrategyName.GUIDED: Guided,
    StrategyName.PLUGIN: _plugin,
}
