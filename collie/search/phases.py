"""Set-ups for a search: how much capacity they get, and what fits them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from collie.workloads.dimension import Choice, Dimension, Vector
from collie.workloads.setup import CAPACITIES, SetUp, made_for_all
from collie.workloads.space import Space
from collie.workloads.workload import Direction, Workload

Pick = Callable[[Dimension, list[Any]], Any]
"""Chooses among the values that fit a dimension (`Space.construct`)."""

_DRAWS = 20
_FULL = 0.9
"""Chance that a drawn phase uses a capacity of its set-up in full."""
_FLOWS = {"direction": Direction.BIDIRECTIONAL, "loopback": True}


def roomy(space: Space, workload: Workload, *others: Workload) -> Workload:
    """Return the workload whose set-up serves phases like this one with more flows, and with the others' capacities.

    Flows and capacities that break a limit of the space are left out. The gather lists stay as long as the workload's:
    longer ones make longer work requests, which caches hold fewer of.
    """
    flows = {
        name: most
        for name, most in _FLOWS.items()
        if isinstance(dimension := space.dimensions.get(name), Choice) and most in dimension.values
    }
    larger = [
        made_for_all((workload, *others[:count])).with_(sge_count=workload.sge_count)
        for count in range(len(others), 0, -1)
    ]
    choices = (*(large.with_(**flows) for large in larger), workload.with_(**flows), *larger)
    return next((each for each in choices if space.allows(each) and space.misfit(workload, each) is None), workload)


def answers(space: Space, workload: Workload, on: SetUp | None) -> bool:
    """Whether a question on a workload can be a phase of the set-up that stands: it fits, with gather lists as long."""
    if on is None or workload.sge_count != on.made_for.sge_count:
        return False
    return space.misfit(workload, on.made_for) is None


def mostly_full(draw: Pick, rng: Random) -> Pick:
    """Return a draw that usually takes all of a capacity, for the phases of a set-up (`on_set_up`).

    A set-up offers every value up to its own, which was itself drawn. A value drawn below a drawn one is small: limits
    that many queue pairs or long queues exceed would hardly ever be.
    """

    def drawn(dimension: Dimension, fitting: list[Any]) -> Any:
        takes_all = dimension.name in CAPACITIES and rng.random() < _FULL
        return max(fitting) if takes_all else draw(dimension, fitting)

    return drawn


def first_fit(space: Space, set_up: SetUp | None, draw: Callable[[], Workload]) -> Workload | None:
    """Return the first of several draws that fits a set-up, or None. Without a set-up, the first draw fits.

    A draw that does not fit has most values of the set-up all the same. A search that went on from its set-up would
    hardly leave them.
    """
    for _ in range(_DRAWS):
        drawn = draw()
        if set_up is None or space.misfit(drawn, set_up.made_for) is None:
            return drawn
    return None


def on_set_up(set_up: SetUp | None, pick: Pick) -> Pick:
    """Return a choice among the values that a set-up offers, where it offers any."""
    if set_up is None:
        return pick

    def chosen(dimension: Dimension, fitting: list[Any]) -> Any:
        if isinstance(dimension, Vector) and set_up.fixes(dimension.name):
            sizes: tuple[int, ...] = set_up.made_for.get(dimension.name)
            return sizes if {(size,) for size in sizes} <= set(fitting) else pick(dimension, fitting)
        offered = [value for value in fitting if set_up.offers(dimension.name, value)]
        return pick(dimension, offered or fitting)

    return chosen
