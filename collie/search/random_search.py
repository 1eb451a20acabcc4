"""Random search: the baseline that learns nothing (paper, section 7.2)."""

from __future__ import annotations

from random import Random

from collie.search.phases import first_fit, mostly_full, on_set_up
from collie.search.strategy import Answer
from collie.workloads.setup import SetUp
from collie.workloads.space import Space, drawn_uniformly
from collie.workloads.workload import Workload


class RandomSearch:
    """Draws each workload independently."""

    driven: str | None = None
    temperature: float | None = None

    def __init__(self, space: Space, rng: Random) -> None:
        self._space = space
        self._rng = rng

    def ask(self) -> Workload:
        """Draw a workload."""
        return self._space.sample(self._rng)

    def ask_on(self, set_up: SetUp) -> Workload | None:
        """Draw a workload that fits a set-up."""
        pick = on_set_up(set_up, mostly_full(drawn_uniformly(self._rng), self._rng))
        return first_fit(self._space, set_up, lambda: self._space.construct(pick))

    def tell(self, workload: Workload, answer: Answer) -> None:
        """Learn nothing."""
