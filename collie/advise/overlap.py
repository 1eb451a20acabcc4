"""The common workloads of some traffic and a known anomaly."""

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
    """An anomaly found earlier.

    Attributes:
        sentence: the summary for an engineer.
        seen: a workload that showed it.
        subsystem: the affected subsystem, empty where unrecorded.
        cure: a known fix outside the application, or empty.
        is_coarse: its thresholds were published, not extracted.
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
    """The common workloads of some traffic and an anomaly.

    Attributes:
        example: the one nearest to the workload that showed the anomaly.
        reach: per dimension of which a part is common, that part: the values, or the least and greatest of an ordered
            one. `messages` stands for single sizes.
    """

    example: Workload
    reach: Mapping[str, Values]


def overlap(traffic: Traffic, space: Space, known: Known, effort: Effort | None = None) -> Overlap | None:
    """Return the common workloads of traffic and an anomaly, or None without any.

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
    """Whether the values of a dimension have an order. Message sizes do."""
    return name == "messages" or isinstance(space.dimensions.get(name), Ordered)


def pinned(traffic: Traffic, name: str, values: Values) -> Traffic:
    """Return the traffic with some values of one dimension. For `messages`, of the first size."""
    if name != "messages":
        return traffic.with_values(name, values)
    return traffic.with_sizes(replace(traffic.sizes, first=values))


def _left(traffic: Traffic, space: Space, known: Known, name: str, example: Workload, effort: Effort) -> Values:
    values = traffic.get(name)

    def hits(some: Values) -> bool:
        return find(pinned(traffic, name, some), space, known.mfs, example, effort) is not None

    if not is_ordered(space, name):
        return tuple(value for value in values if hits((value,)))

    def least(some: Values) -> Values:
        """Return the part with the first value that hits the anomaly."""
        while len(some) > 1:
            half = some[: len(some) // 2]
            some = half if hits(half) else some[len(half) :]
        return some

    def greatest(some: Values) -> Values:
        while len(some) > 1:
            half = some[len(some) // 2 :]
            some = half if hits(half) else some[: len(some) // 2]
        return some

    low = values[:1] if hits(values[:1]) else least(values)
    high = values[-1:] if hits(values[-1:]) else greatest(values)
    return (low[0], high[0])
