"""An application: the part of a space that it can reach, as one or several kinds of traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collie.workloads.constraint import Constraint
from collie.workloads.dimension import Choice, Dimension, Ordered, Vector
from collie.workloads.space import DRAW_ORDER, Space
from collie.workloads.workload import Workload

Values = Sequence[Any]
"""Possible values of one dimension, ascending where ordered. A `range` stands for every step."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Lists of message sizes.

    Attributes:
        values: of each element.
        longest: limit on the number of elements.
        only: exactly this list.
        first: values of the first element, where fewer than `values`.
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
        """Whether a list is among these."""
        if self.only is not None:
            return sizes == self.only
        if self.first is not None and sizes[0] not in self.first:
            return False
        return len(sizes) <= self.longest and all(size in self.values for size in sizes)


@dataclass(frozen=True)
class Traffic:
    """One kind of traffic: every combination of its values that the constraints of the space allow.

    Attributes:
        name: from the file or the command line.
        base: a workload with the remaining fields.
        values: of the dimensions of the space, without `messages`.
        sizes: of messages.
    """

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
        """Whether a workload belongs to it, constraints aside."""
        return self.sizes.holds(workload.messages) and all(
            workload.get(name) in values for name, values in self.values.items()
        )

    def get(self, dimension: str) -> Values:
        """Return the values of one dimension. For `messages`, the sizes."""
        return self.sizes.values if dimension == "messages" else self.values.get(dimension, (self.base.get(dimension),))

    def with_values(self, dimension: str, values: Values) -> Traffic:
        """Return the traffic with other values of a dimension other than `messages`."""
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
        traffic: its kinds, at least one.
        keep: dimensions that it cannot change.
    """

    id: str
    title: str
    space: Space
    traffic: tuple[Traffic, ...]
    keep: frozenset[str] = frozenset()

    @classmethod
    def of(cls, name: str, workload: Workload, space: Space) -> Application:
        """Return the application of a single workload."""
        return cls(name, "one workload", space, (Traffic.of("workload", workload, space),))


def reached(application: Application) -> Space:
    """Return the space of a search for more anomalies of an application.

    Its dimensions hold all reachable values, and rules exclude mixtures of kinds. Dimensions with one value are fixed.
    A kind with exactly one list of several sizes reaches every list of those.

    Raises:
        ValueError: it reaches one workload only.
    """
    space = application.space
    kinds = [traffic.with_sizes(replace(traffic.sizes, only=None)) for traffic in application.traffic]
    hull = {name: _hull(dimension, kinds) for name, dimension in space.dimensions.items()}
    varied = {name: dimension for name, dimension in hull.items() if dimension.size() > 1}
    fixed = {name: dimension.candidates()[0] for name, dimension in hull.items() if name not in varied}
    rules = tuple(_one_of(kinds, [name for name in _ordered(space) if name in varied]))
    cut = replace(space, name=application.id, rules=space.rules + rules, part_of=space.whole)
    return cut.remade(varied, {**space.fixed, **fixed}, space.limits)


def _ordered(space: Space) -> list[str]:
    first = [name for name in DRAW_ORDER if name in space.dimensions]
    return first + [name for name in space.dimensions if name not in first]


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
    """Return an ordered dimension with the reachable steps of its ladder and every end."""
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

    There is one rule for the first drawn dimension, one for the first two, and so on, so that drawing reaches no dead
    end. Of several broken rules only the first complains.
    """

    def admits(known: Iterable[str], w: Any) -> bool:
        return any(all(_within(traffic, name, getattr(w, name)) for name in known) for traffic in kinds)

    def rule(before: Sequence[str], name: str) -> Callable[[Any], str | None]:
        def check(w: Any) -> str | None:
            if admits((*before, name), w) or not admits(before, w):
                return None
            return (
                f"no traffic of the application has {name} {getattr(w, name)} beside the values of {', '.join(before)}"
            )

        return check

    if len(kinds) > 1:
        for position, name in enumerate(names):
            yield Constraint(frozenset(names[: position + 1]), rule(names[:position], name))


def _within(traffic: Traffic, name: str, value: Any) -> bool:
    return traffic.sizes.holds(value) if name == "messages" else value in traffic.get(name)
