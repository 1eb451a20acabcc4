"""The part of a space that an application can reach, as kinds of traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collie.workloads.constraint import Constraint
from collie.workloads.dimension import Choice, Dimension, Ordered, Vector
from collie.workloads.space import Space, drawing_order
from collie.workloads.workload import Workload

Values = Sequence[Any]
"""Ascending where ordered. A `range` stands for every step."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Lists of message sizes.

    Attributes:
        only: exactly this list.
        first: values of the first element, if they differ from `values`.
    """

    values: Values
    longest: int = 1
    only: tuple[int, ...] | None = None
    first: Values | None = None

    @classmethod
    def exactly(cls, sizes: tuple[int, ...]) -> Sizes:
        """Return the one list of these sizes."""
        return cls(tuple(sorted(set(sizes))), len(sizes), sizes)

    def holds(self, sizes: tuple[int, ...]) -> bool:
        """Whether a list of sizes is among these."""
        if self.only is not None:
            return sizes == self.only
        if self.first is not None and sizes[0] not in self.first:
            return False
        return len(sizes) <= self.longest and all(size in self.values for size in sizes)


@dataclass(frozen=True)
class Traffic:
    """One kind of traffic: every allowed combination of its values. `base` has the remaining fields."""

    name: str
    base: Workload
    values: Mapping[str, Values]
    sizes: Sizes

    @classmethod
    def of(cls, name: str, workload: Workload, space: Space) -> Traffic:
        """Return the traffic of one workload."""
        fixed = {dimension: (workload.get(dimension),) for dimension in space.dimensions if dimension != "messages"}
        return cls(name, workload, fixed, Sizes.exactly(workload.messages))

    def holds(self, workload: Workload) -> bool:
        """Whether this traffic includes a workload, constraints aside."""
        return self.sizes.holds(workload.messages) and all(
            workload.get(name) in values for name, values in self.values.items()
        )

    def get(self, dimension: str) -> Values:
        """Return the values of a dimension. For `messages`, the sizes."""
        return self.sizes.values if dimension == "messages" else self.values.get(dimension, (self.base.get(dimension),))

    def with_values(self, dimension: str, values: Values) -> Traffic:
        """Return the traffic with other values of a dimension."""
        return replace(self, values={**self.values, dimension: values})

    def with_sizes(self, sizes: Sizes) -> Traffic:
        """Return the traffic with other messages."""
        return replace(self, sizes=sizes)


@dataclass(frozen=True)
class Application:
    """The traffic of one program.

    Attributes:
        id: name of its file, or its description on the command line.
        title: one line for readers.
        space: the space of its values.
        traffic: its kinds of traffic, at least one.
        keep: dimensions that it cannot change.
    """

    id: str
    title: str
    space: Space
    traffic: tuple[Traffic, ...]
    keep: frozenset[str] = frozenset()

    @classmethod
    def of(cls, name: str, workload: Workload, space: Space) -> Application:
        """Return the application of one workload."""
        return cls(name, "one workload", space, (Traffic.of("workload", workload, space),))


def reached(application: Application) -> Space:
    """Return the space of a search for more anomalies of an application.

    It holds all reachable values, without mixtures of kinds, and every list of the sizes in `Sizes.only`.

    Raises:
        ValueError: it reaches one workload only.
    """
    space = application.space
    kinds = [traffic.with_sizes(replace(traffic.sizes, only=None)) for traffic in application.traffic]
    hull = {name: _hull(dimension, kinds) for name, dimension in space.dimensions.items()}
    varied = {name: dimension for name, dimension in hull.items() if dimension.size() > 1}
    fixed = {name: dimension.candidates()[0] for name, dimension in hull.items() if name not in varied}
    rules = tuple(_one_of(kinds, drawing_order(varied)))
    cut = replace(space, name=application.id, rules=space.rules + rules, part_of=space.whole)
    return cut.remade(varied, {**space.fixed, **fixed}, space.limits)


def _hull(dimension: Dimension, kinds: Sequence[Traffic]) -> Dimension:
    reach = [traffic.get(dimension.name) for traffic in kinds]
    match dimension:
        case Choice():
            values = tuple(value for value in dimension.values if any(value in some for some in reach))
            return replace(dimension, values=values, plain=dimension.plain if dimension.plain in values else values[0])
        case Ordered():
            return _steps(dimension, reach)
        case Vector():
            element = _steps(dimension.element, reach)
            longest = max(traffic.sizes.longest for traffic in kinds)
            return replace(dimension, max_length=longest, element=element, plain=(element.plain,))


def _steps(dimension: Ordered, reach: Sequence[Values]) -> Ordered:
    ends = {end for values in reach for end in (values[0], values[-1])}
    ladder = sorted(ends | {step for step in dimension.ladder if any(step in values for values in reach)})
    listed = not any(isinstance(values, range) for values in reach)
    if listed:
        ladder = sorted({value for values in reach for value in values})
    plain = min(ladder, key=lambda value: abs(value - dimension.plain))
    return replace(
        dimension,
        low=ladder[0],
        high=ladder[-1],
        ladder=tuple(ladder),
        plain=plain,
        ladder_only=dimension.ladder_only or listed,
    )


def _one_of(kinds: Sequence[Traffic], names: Sequence[str]) -> Iterator[Constraint]:
    """Yield rules that together require all values to come from one kind of traffic.

    One rule for each prefix of the order of drawing, so that drawing reaches no dead end.
    """

    def admits(known: Iterable[str], w: Any) -> bool:
        return any(all(_within(traffic, name, getattr(w, name)) for name in known) for traffic in kinds)

    def rule(before: Sequence[str], name: str) -> Callable[[Any], str | None]:
        def check(w: Any) -> str | None:
            if admits((*before, name), w) or not admits(before, w):
                return None
            others = ", ".join(before)
            return f"no traffic of the application has {name} {getattr(w, name)} beside the values of {others}"

        return check

    if len(kinds) > 1:
        for position, name in enumerate(names):
            yield Constraint(frozenset(names[: position + 1]), rule(names[:position], name))


def _within(traffic: Traffic, name: str, value: Any) -> bool:
    return traffic.sizes.holds(value) if name == "messages" else value in traffic.get(name)
