"""The common workloads of some traffic and a known anomaly."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace

from collie.advise.effort import Effort
from collie.advise.solver import find
from collie.detect.symptom import Symptom
from collie.workloads.application import Traffic, Values
from collie.workloads.dimension import Ordered
from collie.workloads.feature import DERIVED, SIZES, Condition, Mfs, Op
from collie.workloads.space import Space
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Known:
    """An anomaly found earlier.

    Attributes:
        seen: a workload that showed it.
        cure: a known fix outside the application.
        is_coarse: its thresholds were published, not extracted.
        symptom: None where only the conditions count.
    """

    id: str
    sentence: str
    mfs: Mfs
    seen: Workload
    subsystem: str = ""
    cure: str = ""
    is_coarse: bool = False
    symptom: Symptom | None = None

    def explains(self, workload: Workload, symptom: Symptom) -> bool:
        """Whether a workload with a symptom meets the conditions.

        What harms a victim is no anomaly of the workload's own traffic, and the other way round.
        """
        elsewhere = self.symptom is not None and self.symptom.is_of_victim != symptom.is_of_victim
        return not elsewhere and self.mfs.covers(workload)


@dataclass(frozen=True)
class Overlap:
    """The common workloads of some traffic and an anomaly.

    Attributes:
        example: the common workload nearest to the workload that showed the anomaly.
        reach: common values by dimension, if the traffic has others, too. Of ordered values, the least and greatest.
    """

    example: Workload
    reach: Mapping[str, Values]


def overlap(traffic: Traffic, space: Space, known: Known, effort: Effort | None = None) -> Overlap | None:
    """Return the common workloads of traffic and an anomaly, if any."""
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
    """Whether a dimension has an order."""
    return name == "messages" or isinstance(space.dimensions.get(name), Ordered)


def pinned(traffic: Traffic, name: str, values: Values) -> Traffic:
    """Return the traffic with some values of a dimension. For `messages`, they are values of the first size."""
    if name != "messages":
        return traffic.with_values(name, values)
    return traffic.with_sizes(replace(traffic.sizes, first=values))


def _left(traffic: Traffic, space: Space, known: Known, name: str, example: Workload, effort: Effort) -> Values:
    values = traffic.get(name)

    def hits(some: Values) -> bool:
        return find(pinned(traffic, name, some), space, known.mfs, example, effort) is not None

    if not is_ordered(space, name):
        return tuple(value for value in values if hits((value,)))

    low = high = values
    if hits(values[:1]):
        low = values[:1]
    while len(low) > 1:
        below, above = low[: len(low) // 2], low[len(low) // 2 :]
        low = below if hits(below) else above
    if hits(values[-1:]):
        high = values[-1:]
    while len(high) > 1:
        below, above = high[: len(high) // 2], high[len(high) // 2 :]
        high = above if hits(above) else below
    return (low[0], high[0])


def with_margin(known: Known, space: Space) -> Known:
    """Return an anomaly with its published thresholds wider by a ladder step, or by a factor of two without a ladder.

    A publication gives "about 500 queue pairs", and 480 may show the anomaly as well. Extracted thresholds are exact.
    """
    if not known.is_coarse:
        return known
    return replace(known, mfs=Mfs(tuple(_wider(condition, space) for condition in known.mfs.conditions)))


def _wider(condition: Condition, space: Space) -> Condition:
    name, op, value = condition.dimension, condition.op, condition.value
    if op not in {Op.AT_LEAST, Op.AT_MOST} or name in {"gpu_hosts", "far_hosts"}:
        return condition
    if name in DERIVED and name not in SIZES:
        return replace(condition, value=(value + 1) // 2 if op is Op.AT_LEAST else value * 2)
    ladder = space.ladder(name)
    below, above = ladder[: bisect_left(ladder, value)], ladder[bisect_right(ladder, value) :]
    beyond = below[-1:] if op is Op.AT_LEAST else above[:1]
    if not beyond or beyond[0] in (ladder[0], ladder[-1]):
        return condition  # no value would remain beyond the wider threshold
    return replace(condition, value=beyond[0])
