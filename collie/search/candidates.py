"""Candidate workloads for the next probe of an extraction.

*Near* candidates differ from the simplest reproducing workload in one dimension, or keep a derived feature by changing
two. *Corners* have the plainest values that a hypothesis allows. *Draws* have random values that a hypothesis allows.
*Groups* have plain values in several dimensions at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collie.search.hypotheses import Hypotheses
from collie.search.limits import CandidateLimits
from collie.search.plainness import Plainness
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import feature_value
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import EVEN, Workload

Flags = NDArray[np.bool_]

_CORNERS = 4
_GROUPS = 6
_DRAWS = 14
_CHOICE_SHARE = 0.3
_ORDERED_SHARE = 0.9
"""Chance that a draw changes a dimension. Choices, such as topology, can bring anomalies that hide this one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One workload with its coordinates.

    Attributes:
        point: coordinates of `search.limits`, shape (limits).
        complexity: distance from plain.
        place: coordinates of `search.plainness`, for distances between candidates.
    """

    workload: Workload
    point: NDArray[np.float64]
    complexity: float
    place: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Value:
    """A value, and the index of the near candidate with it. The index is None for the simplest workload's own value."""

    value: Any
    near: int | None


class Candidates:
    """Proposes workloads. The caller's `possible` excludes workloads that a known anomaly covers."""

    def __init__(
        self, space: Space, limits: CandidateLimits, rng: Random, possible: Callable[[Workload], bool]
    ) -> None:
        self._space = space
        self._limits = limits
        self._plainness = Plainness(space)
        self._rng = rng
        self._possible = possible
        self._simplest: Workload | None = None
        self._near: list[Candidate] = []
        self._points = np.empty((0, 0))
        self._values: dict[str, list[_Value]] = {}

    def around(self, simplest: Workload, hypotheses: Hypotheses, on: SetUp | None = None) -> list[Candidate]:
        """Return candidates for the simplest workload so far and the remaining hypotheses.

        Half of those that change many dimensions fit the set-up that stands, because these cost little.
        """
        found = {candidate.workload: candidate for candidate in self.near(simplest)}
        fits = hypotheses.inside(self._points) if self._near else np.ones((1, 0), dtype=bool)
        for pick, count in ((self._corner, _CORNERS), (self._draw, _DRAWS), (self._group, _GROUPS)):
            for number in range(count):
                picked = pick(fits[self._rng.randrange(len(fits))])
                if on is not None and number % 2:
                    picked = {name: value for name, value in picked.items() if on.offers(name, value)}
                workload = self._made(simplest, picked)
                if workload is not None and workload not in found:
                    found[workload] = self.candidate(workload)
        return list(found.values())

    def near(self, simplest: Workload) -> list[Candidate]:
        """Return the near candidates of a workload."""
        if simplest != self._simplest:
            self._list_neighbours(simplest)
        return self._near

    def _list_neighbours(self, simplest: Workload) -> None:
        self._simplest, self._near, self._values = simplest, [], {}
        for name, dimension in self._space.dimensions.items():
            values = self._values.setdefault(name, [])
            for value in _plainest_first(dimension, simplest.get(name)):
                if value == simplest.get(name):
                    values.append(_Value(value, None))
                elif (workload := self._made(simplest, {name: value})) is not None:
                    values.append(_Value(value, len(self._near)))
                    self._near.append(self.candidate(workload))
        for other in _by_other_means(self._space, simplest):
            if (workload := self._made(simplest, other)) is not None:
                self._near.append(self.candidate(workload))
        self._points = np.array([candidate.point for candidate in self._near])

    def candidate(self, workload: Workload) -> Candidate:
        """Return a workload with its coordinates."""
        plainness = self._plainness
        return Candidate(
            workload, self._limits.coordinates(workload), plainness.complexity(workload), plainness.place(workload)
        )

    def _made(self, simplest: Workload, picked: Mapping[str, Any]) -> Workload | None:
        """Return the nearest valid workload with these values. None if it is not `possible`, or is the simplest."""
        workload: Workload | None = simplest.with_(**picked)
        if workload is not None and not self._space.allows(workload):
            workload = self._space.nearest({name: workload.get(name) for name in self._space.dimensions})
        if workload is None or workload == simplest or not self._space.has_sizes(workload):
            return None
        return workload if self._possible(workload) else None

    def _corner(self, fits: Flags) -> dict[str, Any]:
        return {
            name: next(choice.value for choice in values if choice.near is None or fits[choice.near])
            for name, values in self._values.items()
        }

    def _draw(self, fits: Flags) -> dict[str, Any]:
        picked = {}
        for name, values in self._values.items():
            share = _CHOICE_SHARE if isinstance(self._space.dimensions[name], Choice) else _ORDERED_SHARE
            if self._rng.random() < share:
                fitting = [choice.value for choice in values if choice.near is None or fits[choice.near]]
                picked[name] = self._rng.choice(fitting)
        return picked

    def _group(self, _fits: Flags) -> dict[str, Any]:
        odd = [name for name, values in self._values.items() if values[0].near is not None]
        names = self._rng.sample(odd, self._rng.randint(1, len(odd))) if odd else []
        return {name: self._values[name][0].value for name in names}


def _plainest_first(dimension: Choice | Ordered | Vector, present: Any) -> list[Any]:
    """Return the values to try, plainest first. A `present` list that is not among them comes last."""
    match dimension:
        case Choice():
            return sorted(dimension.values, key=lambda value: value != dimension.plain)
        case Ordered():
            return _outwards(sorted({*dimension.ladder, present}), dimension.plain)
    small, large = min(present), max(present)
    ladder = dimension.element.ladder
    lists: list[tuple[int, ...]] = [(size,) for size in _outwards(ladder, dimension.plain[0])]
    if dimension.max_length > 1:
        lists += [(small, size) for size in ladder if size > small]
        lists += [(size, large) for size in ladder if size < large]
    if dimension.max_length > 3 and small < large:
        lists += [(small, large, large, large), (small, small, small, large)]
    return [*dict.fromkeys([*lists, present])]


def _outwards(ladder: Any, plain: int) -> list[int]:
    """Return the steps of a ladder, those nearest to plain first."""
    middle = sum(step < plain for step in ladder)
    return [step for _, step in sorted((abs(index - middle), step) for index, step in enumerate(ladder))]


def _by_other_means(space: Space, simplest: Workload) -> Iterator[dict[str, Any]]:
    """Yield changes of two dimensions that keep a derived feature equal, or a product at least as large."""
    for one, other in (("memory", "peer_memory"), ("numa_node", "peer_numa_node")):
        if one in space.dimensions and other in space.dimensions and simplest.get(one) != simplest.get(other):
            yield {one: simplest.get(other), other: simplest.get(one)}
    for other in ("mrs_per_qp", "recv_wq_depth", "send_wq_depth"):
        yield from _trades(space, simplest, "qps", other)
        yield from _trades(space, simplest, other, "qps")
    yield from _fewer_flows(space, simplest)
    yield from _other_entries(space, simplest)


def _trades(space: Space, simplest: Workload, fewer: str, more: str) -> Iterator[dict[str, Any]]:
    one, other = space.dimensions.get(fewer), space.dimensions.get(more)
    if not isinstance(one, Ordered) or not isinstance(other, Ordered):
        return
    product = simplest.get(fewer) * simplest.get(more)
    for value in one.ladder:
        enough = [step for step in other.ladder if step * value >= product]
        if value < simplest.get(fewer) and enough:
            yield {fewer: value, more: enough[0]}


def _fewer_flows(space: Space, simplest: Workload) -> Iterator[dict[str, Any]]:
    """Yield changes to fewer flows with at least as many queue pairs on the NIC."""
    qps = space.dimensions.get("qps")
    odd = [name for name in ("loopback", "direction") if simplest.get(name) != space.base.get(name)]
    if not isinstance(qps, Ordered) or not odd or not all(name in space.dimensions for name in odd):
        return
    for names in dict.fromkeys((*((name,) for name in odd), tuple(odd))):
        fewer = simplest.with_(**{name: space.base.get(name) for name in names})
        each = feature_value(fewer, "nic_qps") // fewer.qps
        enough = [count for count in qps.ladder if count * each >= feature_value(simplest, "nic_qps")]
        if enough:
            yield {**{name: fewer.get(name) for name in names}, "qps": enough[0]}


def _other_entries(space: Space, simplest: Workload) -> Iterator[dict[str, Any]]:
    """Yield messages and splits that keep the shortest or longest segments of the simplest workload."""
    entries = [size for message in simplest.segments() for size in message]
    small, large, count = min(entries), max(entries), simplest.sge_count
    if "messages" not in space.dimensions or "sge_split" not in space.dimensions or count == 1 or small == large:
        return
    yield {"sge_split": EVEN, "messages": (small * count, large * count)}
    for split in space.dimensions["sge_split"].candidates():
        if split != EVEN and len(split) < count:
            for size in (large, small):
                yield {"sge_split": split, "messages": (sum(split) + (count - len(split)) * size,)}
