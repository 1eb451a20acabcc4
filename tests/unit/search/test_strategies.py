"""Strategies by name."""

from __future__ import annotations

from random import Random

from collie.content.spaces import load_space
from collie.search.recipe import Recipe, StrategyName
from collie.search.strategies import STRATEGIES, build
from tests.support.driven_counters import CATALOG

SPACE = load_space("nsdi22")


def test_every_named_strategy_can_be_built() -> None:
    assert set(STRATEGIES) == set(StrategyName)
    for name in set(StrategyName) - {StrategyName.PLUGIN}:
        strategy = build(Recipe("test", strategy=name), SPACE, CATALOG, Random(0))
        assert SPACE.complaints(strategy.ask()) == []
