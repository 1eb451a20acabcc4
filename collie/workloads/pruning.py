"""Removal of the values of a space that a testbed cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from collie.workloads.constraint import HostLimits
from collie.workloads.dimension import Choice, Dimension, Ordered, Vector
from collie.workloads.space import Space
from collie.workloads.units import format_bytes, format_value
from collie.workloads.workload import FIELD_NAMES

_LIMITS: Mapping[str, str] = {
    "total_mrs": "memory regions per host",
    "pinned_bytes": "pinned memory per host",
}


@dataclass(frozen=True, slots=True)
class Restriction:
    """A testbed's limit in a dimension, or of a host: `total_mrs` or `pinned_bytes`. `reason` includes its origin."""

    name: str
    reason: str
    at_most: int | None = None
    only: tuple[Any, ...] | None = None

    def allows(self, value: Any) -> bool:
        """Whether a value is possible."""
        if isinstance(value, tuple):
            return all(self.allows(item) for item in value)
        return (self.at_most is None or value <= self.at_most) and (self.only is None or value in self.only)


@dataclass(frozen=True)
class Capabilities:
    """The restrictions of a testbed. A workload within them can still prove unsupported."""

    restrictions: tuple[Restriction, ...] = ()


@dataclass(frozen=True, slots=True)
class Drop:
    """Removed values: a range `8193..16384`, or values separated by commas."""

    dimension: str
    values: str
    reason: str

    def __str__(self) -> str:
        return f"{self.dimension} {self.values}: {self.reason}"


def prune(space: Space, capabilities: Capabilities) -> tuple[Space, tuple[Drop, ...]]:
    """Remove the values that a testbed cannot run. A dimension with one value left is fixed.

    Raises:
        ValueError: a dimension loses all values, a fixed value is impossible, or nothing is left to vary.
    """
    dimensions = dict(space.dimensions)
    limits = space.limits
    drops: list[Drop] = []
    for restriction in capabilities.restrictions:
        name = restriction.name
        if name in _LIMITS:
            limits, dropped = _limited(limits, restriction)
            drops += dropped
        elif name in dimensions:
            dimensions[name], dropped = _restricted(dimensions[name], restriction)
            drops += dropped
        elif name in FIELD_NAMES and not restriction.allows(space.base.get(name)):
            raise ValueError(
                f"{name} is {format_value(space.base.get(name))} in all of space {space.name}: {restriction.reason}"
            )
    if not drops:
        return space, ()
    single = {name: values[0] for name, dimension in dimensions.items() if len(values := dimension.candidates()) == 1}
    fixed = {name: value for name, value in single.items() if not isinstance(dimensions[name], Vector)}
    varied = {name: dimension for name, dimension in dimensions.items() if name not in fixed}
    pruned = space.remade(varied, {**space.fixed, **fixed}, limits)
    return replace(pruned, part_of=space.part_of and prune(space.part_of, capabilities)[0]), tuple(drops)


def _limited(limits: HostLimits, restriction: Restriction) -> tuple[HostLimits, Iterable[Drop]]:
    name, most = restriction.name, restriction.at_most
    before = getattr(limits, name)
    if most is None or most >= before:
        return limits, ()
    displayed = format_bytes(most) if name.endswith("_bytes") else str(most)
    return replace(limits, **{name: most}), (Drop(name, f"over {displayed}", f"{_LIMITS[name]}: {restriction.reason}"),)


def _restricted(dimension: Dimension, restriction: Restriction) -> tuple[Dimension, Iterable[Drop]]:
    if isinstance(dimension, Vector):
        element, drops = _restricted(dimension.element, restriction)
        assert isinstance(element, Ordered)
        return dimension.with_element(element), drops
    candidates = dimension.candidates()
    gone = [value for value in candidates if not restriction.allows(value)]
    if not gone and (isinstance(dimension, Choice) or restriction.allows(dimension.high)):
        return dimension, ()
    if len(gone) == len(candidates):
        raise ValueError(f"nothing is left of {dimension.name}: {restriction.reason}")
    if isinstance(dimension, Choice):
        left = tuple(value for value in candidates if value not in gone)
        plain = dimension.plain if dimension.plain in left else left[0]
        dropped = ", ".join(map(format_value, gone))
        return replace(dimension, values=left, plain=plain), (Drop(dimension.name, dropped, restriction.reason),)
    assert restriction.at_most is not None, "an ordered dimension is restricted by its largest value"
    shorter = dimension.limited(restriction.at_most)
    first = gone[0] if dimension.ladder_only else shorter.high + dimension.step
    dropped = str(first) if first == dimension.high else f"{first}..{dimension.high}"
    return shorter, (Drop(dimension.name, dropped, restriction.reason),)
