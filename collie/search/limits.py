"""The limits that an explanation can set: thresholds in turned coordinates.

A *limit* is one side of one feature with all its possible thresholds, from none to the value of the finding. Examples
are "at least so many queue pairs" and "not this opcode". Coordinates are turned so that every limit reads `coordinate
>= threshold`. A conjunction is then one vector of thresholds. A workload is inside it when no coordinate lies below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import DERIVED, FLOWS, Condition, Mfs, Op, feature_value, sources
from collie.workloads.space import Space
from collie.workloads.workload import Workload, reader

Floats = NDArray[np.float64]

_AWAY = 0.25
"""Prior chance that a dimension must not be plain, if the finding has another value there."""
_BEYOND = 0.06
"""Prior chance of a limit that plain traffic satisfies: "no batching", "messages of at most 1 KiB"."""
_TRANSPORT = frozenset({"qp_type", "opcode"})
"""Dimensions on which nearly every anomaly depends, plain or not."""
_DERIVED_SHARE = 0.5
"""Prior weight of a feature of several dimensions, relative to one dimension."""
_MEAN_SHARE = 0.8
"""Likewise of the mean of the messages, which often cannot be told from the smallest or the largest."""
_ON_A_NIC = ("nic_qps", "nic_mrs", "nic_recv_wqes", "nic_send_wqes")
_OF_LOAD = ("nic_offered_bps", "offered_messages_per_second", "post_bytes")
"""What decides how late messages are at an offered load: what one NIC is offered, and what is ahead in a post."""
_SPLIT = 0.03
"""Prior chance that a split of the entries is excluded. Their sizes nearly always say it better."""
_FORESEEN = 0.8
"""Prior chance of a threshold that the set of another testbed has."""
_UNFORESEEN = 0.3
"""Share of its prior chance that a condition keeps if that set lacks it."""
_FINEST_STEP = 1.3
"""Lower limit of the ratio between neighbouring thresholds on a product."""
_STEP_OF_LOAD = 2.0
"""The same where the dimensions have many products."""


@dataclass(frozen=True)
class Limit:
    """One side of one feature.

    Attributes:
        op: AT_LEAST, AT_MOST, or EQUAL for "is not this value" of a dimension without order.
        values: possible requirements, least demanding first.
        thresholds: thresholds of the coordinate, shape (1 + values). The first is -inf, no condition.
        log_prior: logarithm of each threshold's prior chance, shape (1 + values).
    """

    feature: str
    op: Op
    values: tuple[Any, ...]
    thresholds: Floats
    log_prior: Floats

    def coordinate(self, value: Any) -> float:
        """Return the coordinate of a value of the feature."""
        match self.op:
            case Op.AT_LEAST:
                return float(value)
            case Op.AT_MOST:
                return -float(value)
        return float(value != self.values[0])


class CandidateLimits:
    """Every limit of a finding in a space.

    Where the set of another testbed is `foreseen`, its conditions are likely here, and others are less likely.
    """

    def __init__(self, space: Space, finding: Workload, foreseen: Mfs | None = None) -> None:
        self._space, self._finding = space, finding
        found = _limits(space, finding)
        self.limits = tuple(found if foreseen is None else (_expected(limit, foreseen) for limit in found))
        standings = {
            feature: cache(partial(_standing, tuple(limits)))
            for feature, limits in groupby(self.limits, attrgetter("feature"))
        }
        self._fields = reader([feature for feature in standings if feature not in DERIVED])
        self._standings = [(DERIVED.get(feature), standing) for feature, standing in standings.items()]

    @property
    def given(self) -> tuple[Condition, ...]:
        """The transport and operation of a space in which these do not vary, as conditions.

        Nearly every anomaly depends on them, and no run can tell. Without them a set would speak of traffic that the
        space does not have.
        """
        fixed = sorted(_TRANSPORT.difference(self._space.dimensions), reverse=True)
        return tuple(Condition(name, Op.EQUAL, self._finding.get(name)) for name in fixed)

    def coordinates(self, workload: Workload) -> Floats:
        """Return the coordinates of a workload, shape (limits)."""
        found: list[float] = []
        fields = iter(self._fields(workload))
        for derived, standing in self._standings:
            found += standing(derived(workload) if derived else next(fields))
        return np.array(found)

    def conditions(self, chosen: Sequence[int], shown: Floats) -> list[Condition]:
        """Return the conditions of a conjunction. `chosen` has the index of each limit's threshold, or 0 for none.

        `shown` has the coordinates of runs that show the anomaly, shape (runs, limits). The steps of a product are far
        apart, so there a limit reaches no farther than those runs.
        """
        excluded: dict[str, set[Any]] = {}
        found: list[Condition] = []
        thresholds = [limit.thresholds[index] for limit, index in zip(self.limits, chosen, strict=True)]
        reached = shown[(shown >= thresholds).all(axis=1)].min(axis=0)
        for limit, index, nearest in zip(self.limits, chosen, reached, strict=True):
            if index and limit.op is Op.EQUAL:
                excluded.setdefault(limit.feature, set()).add(limit.values[index - 1])
            elif index and limit.feature in (*_ON_A_NIC, *_OF_LOAD):
                found.append(Condition(limit.feature, limit.op, round(abs(nearest))))
            elif index:
                found.append(Condition(limit.feature, limit.op, limit.values[index - 1]))
        kept = {name: self._kept(name, values) for name, values in excluded.items()}
        equal = {name: values[0] for name, values in kept.items() if len(values) == 1}
        for name, values in kept.items():
            own = self._finding.get(name)
            left = tuple(value for value in values if value == own or self._space.can_hold({**equal, name: value}))
            found.append(Condition(name, Op.EQUAL, left[0]) if len(left) == 1 else Condition(name, Op.ONE_OF, left))
        order = [*self._space.dimensions, *DERIVED]
        return sorted(found, key=lambda condition: order.index(condition.dimension))

    def _kept(self, name: str, excluded: set[Any]) -> tuple[Any, ...]:
        dimension = self._space.dimensions[name]
        assert isinstance(dimension, Choice)
        return tuple(value for value in dimension.values if value not in excluded)


def _standing(limits: tuple[Limit, ...], value: Any) -> tuple[float, ...]:
    return tuple(limit.coordinate(value) for limit in limits)


def _limits(space: Space, finding: Workload) -> Iterator[Limit]:
    for name, dimension in space.dimensions.items():
        match dimension:
            case Choice():
                present = finding.get(name)
                for value in dimension.values:
                    if value != present:
                        depends = value == dimension.plain or name in _TRANSPORT
                        chance = _AWAY if depends else _AWAY / 2
                        chance = _SPLIT if name == "sge_split" else chance
                        yield Limit(name, Op.EQUAL, (value,), np.array([-np.inf, 0.5]), _spread([chance]))
            case Ordered():
                yield from _sides(name, dimension.ladder, finding, space, 1.0)
            case Vector():
                for feature in ("min_message_bytes", "max_message_bytes"):
                    yield from _sides(feature, dimension.element.ladder, finding, space, 1.0)
                yield from _sides("mean_message_bytes", dimension.element.ladder, finding, space, _MEAN_SHARE)
    for feature, values in _derived(space):
        yield from _sides(feature, values, finding, space, _DERIVED_SHARE)


def _expected(limit: Limit, foreseen: Mfs) -> Limit:
    """Return a limit with the prior that follows from the set of another testbed."""
    conditions = [each for each in foreseen.conditions if each.dimension == limit.feature]
    prior = np.exp(limit.log_prior)
    if limit.op is Op.EQUAL:
        excluded = any(not condition.admits(limit.values[0]) for condition in conditions)
        own = 1 if excluded else None
    else:
        known = [limit.coordinate(each.value) for each in conditions if each.op is limit.op]
        own = int(np.abs(limit.thresholds[1:] - known[0]).argmin()) + 1 if known else None
    if own is None:
        prior[1:] *= _UNFORESEEN
    else:
        prior[1:] *= (1.0 - _FORESEEN) / 2.0 / prior[1:].sum()  # the threshold may be another one here
        prior[own] += _FORESEEN
    prior[0] = 1.0 - prior[1:].sum()
    return replace(limit, log_prior=np.log(prior))


def _derived(space: Space) -> Iterator[tuple[str, Sequence[int]]]:
    varied = space.dimensions
    messages = varied.get("messages")
    if isinstance(messages, Vector) and ("sge_count" in varied or "sge_split" in varied):
        yield "min_segment_bytes", messages.element.ladder
        yield "max_segment_bytes", messages.element.ladder
    for feature, names in (("gpu_hosts", ("memory", "peer_memory")), ("far_hosts", ("numa_node", "peer_numa_node"))):
        if all(name in varied for name in names):
            yield feature, (0, 1, 2)
    for feature in _ON_A_NIC:
        free = [name for name in sources(feature) if name in varied]
        if len(free) > 1 and all(name in varied for name in sources(feature) if name not in FLOWS):
            yield feature, _thinned(space.values(feature), _FINEST_STEP)
    for feature in _OF_LOAD if "offered_bps" in varied else ():
        if sum(name in varied for name in sources(feature)) > 1:
            yield feature, _thinned(space.values(feature), _STEP_OF_LOAD)


def _thinned(values: Sequence[int], finest_step: float) -> tuple[int, ...]:
    kept = [values[0]]
    for value in values[1:]:
        if value >= kept[-1] * finest_step:
            kept.append(value)
    return tuple(kept)


def _sides(feature: str, steps: Sequence[int], finding: Workload, space: Space, share: float) -> Iterator[Limit]:
    present, plain = feature_value(finding, feature), feature_value(space.base, feature)
    least = [step for step in steps if steps[0] < step <= present]
    if least:
        chances = _shared(least, lambda step: step > plain, share)
        yield Limit(feature, Op.AT_LEAST, tuple(least), np.array([-np.inf, *least]), _spread(chances))
    most = [step for step in reversed(steps) if present <= step < steps[-1]]
    if most:
        chances = _shared(most, lambda step: step < plain, share)
        yield Limit(feature, Op.AT_MOST, tuple(most), np.array([-np.inf, *(-step for step in most)]), _spread(chances))


def _shared(steps: Sequence[int], away: Callable[[int], bool], share: float) -> list[float]:
    """Return the prior chance of each threshold, by whether it excludes plain traffic."""
    outside = sum(map(away, steps))
    inside = len(steps) - outside
    return [share * (_AWAY / outside if away(step) else _BEYOND / inside) for step in steps]


def _spread(chances: Sequence[float]) -> Floats:
    return np.asarray(np.log([1.0 - math.fsum(chances), *chances]), dtype=np.float64)
