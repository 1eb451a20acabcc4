"""Axes over the dimensions of a space, and the workloads along them."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from collie.errors import UsageError
from collie.suggest import did_you_mean
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.narrowing import scalar
from collie.workloads.parse import parse_value
from collie.workloads.space import Space
from collie.workloads.workload import Workload

MESSAGE_BYTES: Final = "message_bytes"
"""Axis with one size for all messages of a workload."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. `message_bytes` is the dimension of the size of all messages.

    Attributes:
        ordered: the values are ascending numbers.
        position: the base workload's value on the axis, None if it has none there.
    """

    dimension: str
    values: tuple[Any, ...]
    ordered: bool
    position: Any

    @property
    def field(self) -> str:
        """The field of a workload that the axis varies."""
        return "messages" if self.dimension == MESSAGE_BYTES else self.dimension

    @property
    def logarithmic(self) -> bool:
        """Whether positions are logarithms. Otherwise the values are equidistant."""
        return self.ordered and self.values[0] > 0

    def put(self, value: Any) -> dict[str, Any]:
        """Return the field of a workload at a value."""
        return {self.field: (value,) if self.dimension == MESSAGE_BYTES else value}

    def place(self, value: Any) -> float:
        """Return the position of a value on the axis. A number between two values has a place between theirs."""
        if self.logarithmic:
            return math.log2(value)
        if not self.ordered or value in self.values:
            return float(self.values.index(value))
        after = bisect(self.values, value)
        low, high = self.values[after - 1], self.values[after]
        return after - 1 + float((value - low) / (high - low))

    def places(self) -> list[float]:
        """Return the positions of all values."""
        return [self.place(value) for value in self.values]

    def edges(self) -> list[float]:
        """Return the borders between the cells of neighbouring values, and both ends."""
        centres = self.places()
        if len(centres) == 1:
            return [centres[0] - 0.5, centres[0] + 0.5]
        middles = [(low + high) / 2 for low, high in pairwise(centres)]
        return [2 * centres[0] - middles[0], *middles, 2 * centres[-1] - middles[-1]]


def whole_axis(space: Space, name: str, base: Workload, between: int = 0) -> Axis:
    """Return the axis of a dimension: its steps, so many points between two of them, and the base value.

    Raises:
        UsageError: the space has no such dimension.
    """
    dimension = _dimension(space, name)
    value = base.get(dimension.name)
    if isinstance(dimension, Choice):
        return Axis(dimension.name, dimension.values, False, value if value in dimension.values else None)
    if isinstance(dimension, Vector):
        name, ordered = MESSAGE_BYTES, dimension.element
        value = value[0] if len(set(value)) == 1 else None
    else:
        name, ordered = dimension.name, dimension
    if value is not None and ordered.complaint(value):
        value = None
    steps = {*_refined(ordered, between), *([] if value is None else [value])}
    return Axis(name, tuple(sorted(steps)), True, value)


def axis_name(text: str) -> str:
    """Return the name of an axis as written, such as `qps=1..64`. The size of all messages has two."""
    name = text.partition("=")[0].strip()
    return MESSAGE_BYTES if name == "messages" else name


def parsed_axis(space: Space, text: str, base: Workload, option: str) -> Axis:
    """Read an axis of a sweep: `DIM`, `DIM=LOW..HIGH` (the steps of the ladder and both ends), or `DIM=V1,V2`.

    Raises:
        UsageError: the dimension or a value is none of the space.
    """
    name, sign, wanted = (part.strip() for part in text.partition("="))
    dimension = _dimension(space, name)
    whole = whole_axis(space, name, base)
    if not sign:
        return whole
    first, span, last = wanted.partition("..")
    words = [first, last] if span else wanted.split(",")
    if not all(map(str.strip, words)):
        raise UsageError(f"{option} {text!r} lacks a value; write LOW..HIGH or values with commas, or leave them out")
    if span and not whole.ordered:
        raise UsageError(f"{option} {text!r}: {name} has no order; name its values with commas, or leave them out")
    values = [_value(dimension, word, f"{option} {text!r}") for word in words]
    if not span:
        return Axis(
            whole.dimension, tuple(sorted(set(values)) if whole.ordered else dict.fromkeys(values)), whole.ordered, None
        )
    low, high = values
    if low > high:
        raise UsageError(f"{option} {text!r} ends below its beginning")
    steps = _element(dimension).ladder
    return Axis(whole.dimension, tuple(sorted({low, *(step for step in steps if low < step < high), high})), True, None)


def middle(space: Space, axis: Axis, low: int, high: int) -> int | None:
    """Return the value of an ordered axis halfway between two in logarithms, or None if there is none."""
    ordered = _element(_dimension(space, axis.dimension))
    if ordered.ladder_only:
        return None
    wanted = math.sqrt(low * high) if low > 0 else (low + high) / 2
    if axis.dimension.endswith("_bps"):
        wanted = float(f"{wanted:.3g}")  # a rate that a reader can type
    snapped = ordered.low + round((wanted - ordered.low) / ordered.step) * ordered.step
    return snapped if low < snapped < high else None


def _dimension(space: Space, name: str) -> Choice | Ordered | Vector:
    dimension = space.dimensions.get("messages" if name == MESSAGE_BYTES else name)
    if dimension is None:
        known = [MESSAGE_BYTES if other == "messages" else other for other in space.dimensions]
        hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
        raise UsageError(f"space {space.name} has no dimension {name!r} for an axis{hint}")
    return dimension


def _element(dimension: Choice | Ordered | Vector) -> Ordered:
    assert not isinstance(dimension, Choice), "an axis of choices has no order"
    return dimension.element if isinstance(dimension, Vector) else dimension


def _value(dimension: Choice | Ordered | Vector, word: str, where: str) -> Any:
    try:
        value = parse_value(dimension.name, scalar(word))
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    if complaint := dimension.complaint(value):
        raise UsageError(f"{where}: {complaint}")
    return value[0] if isinstance(dimension, Vector) else value


def _refined(ordered: Ordered, between: int) -> Iterator[int]:
    yield from ordered.ladder
    if ordered.ladder_only:
        return
    for low, high in pairwise(ordered.ladder):
        for part in range(1, between + 1) if low > 0 else ():
            wanted = low * (high / low) ** (part / (between + 1))
            snapped = ordered.low + round((wanted - ordered.low) / ordered.step) * ordered.step
            if low < snapped < high:
                yield snapped


class Headroom:
    """Raises dimensions that limit an axis: a memory region must hold a message, and a queue one batch of WQEs."""

    def __init__(self, space: Space, held: Iterable[str]) -> None:
        held = set(held)
        self._ordered: Mapping[str, Ordered] = {
            name: dimension
            for name in ("mr_bytes", "send_wq_depth", "recv_wq_depth")
            if name not in held and isinstance(dimension := space.dimensions.get(name), Ordered)
        }

    @property
    def may_move(self) -> tuple[str, ...]:
        """Dimensions that can be raised."""
        return tuple(self._ordered)

    def make(self, workload: Workload) -> Workload:
        """Return a workload with room for its messages and posts."""
        needed = {"mr_bytes": max(workload.messages), "send_wq_depth": workload.wqe_batch}
        if workload.opcode.consumes_receive:
            needed["recv_wq_depth"] = workload.wqe_batch
        raised = {
            name: _at_least(self._ordered[name], least)
            for name, least in needed.items()
            if name in self._ordered and workload.get(name) < least
        }
        return workload.with_(**raised) if raised else workload


def _at_least(ordered: Ordered, least: int) -> int:
    if ordered.ladder_only:
        return next((step for step in ordered.ladder if step >= least), ordered.high)
    steps = math.ceil((least - ordered.low) / ordered.step)
    return min(ordered.high, ordered.low + max(0, steps) * ordered.step)
