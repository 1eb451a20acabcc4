"""Where some traffic meets a known anomaly: what both have in common, and a workload of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from collie.advise.effort import Effort
from collie.advise.solver import find
from collie.workloads.application import Traffic, Values
from collie.workloads.dimension import Ordered
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Known:
    """An anomaly that somebody has found.

    Attributes:
        id: as reports name it.
        sentence: what an engineer reads first.
        mfs: its conditions.
        seen: a workload that showed it.
        subsystem: what it was seen on; empty where that is not on record.
        cure: what cures it without a change of the application; empty where nothing is known to.
        is_coarse: its thresholds were published, and not extracted step by step.
    """

    id: str
    sentence: str
    mfs: Mfs
    seen: Workload
    subsystem: str = ""
    cure: str = ""
    is_coarse: bool = False


@dataclass(frozen=True)
class Overlap:
    """What some traffic and an anomaly have in common.

    Attributes:
        example: one workload of it, as near as it gets to the one that showed the anomaly.
        reach: of each dimension that the anomaly leaves only a part of, that part; the least and the greatest value
            where it has an order. `messages` stands for single sizes.
    """

    example: Workload
    reach: Mapping[str, Values]


def overlap(traffic: Traffic, space: Space, known: Known, effort: Effort | None = None) -> Overlap | None:
    """Return what traffic and an anomaly have in common; None when that is nothing.

    Raises:
        Undecided: the effort is spent.
    """
    effort = effort or Effort()
    example = find(traffic, space, known.mfs, known.seen, effort)
    if example is None:
        return None
    reach = {}
    for name in (*traffic.values, "messages"):
        here = traffic.get(name)
        if len(here) == 1 or (name == "messages" and traffic.sizes.only is not None):
            continue
        left = _left(traffic, space, known, name, example, effort)
        if left != ((here[0], here[-1]) if is_ordered(space, name) else tuple(here)):
            reach[name] = left
    return Overlap(example, reach)


def is_ordered(space: Space, name: str) -> bool:
    """Whether the values of a dimension have an order; sizes of messages do."""
    return name == "messages" or isinstance(space.dimensions.get(name), Ordered)


def pinned(traffic: Traffic, name: str, values: Values) -> Traffic:
    """Return the traffic with some of the values of one dimension; of `messages`, the first of the list."""
    if name != "messages":
        return traffic.with_values(name, values)
    return traffic.with_sizes(replace(traffic.sizes, first=values))


def _left(traffic: Traffic, space: Space, known: Known, name: str, example: Workload, effort: Effort) -> Values:
    values = traffic.get(name)

    def meets(some: Values) -> bool:
        return find(pinned(traffic, name, some), space, known.mfs, example, effort) is not None

    if not is_ordered(space, name):
        return tuple(value for value in values if meets((value,)))

    def least(some: Values) -> Values:
        """Return the part with the one value that is the first of those that meet."""
        while len(some) > 1:
            half = some[: len(some) // 2]
            some = half if meets(half) else some[len(half) :]
        return some

    def greatest(some: Values) -> Values:
        while len(some) > 1:
            half = some[len(some) // 2 :]
            some = half if meets(half) else some[: len(some) // 2]
        return some

    low = values[:1] if meets(values[:1]) else least(values)
    high = values[-1:] if meets(values[-1:]) else greatest(values)
    return (low[0], high[0])
