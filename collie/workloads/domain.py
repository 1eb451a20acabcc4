"""What a smaller space has of a larger one, as conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collie.workloads.dimension import Choice, Dimension, Ordered, Vector
from collie.workloads.feature import Condition, Op
from collie.workloads.space import Space


def domain(space: Space, within: Space) -> tuple[Condition, ...]:
    """Return the conditions that hold for the workloads of a space, and not for all of another one."""
    return tuple(condition for name in within.dimensions for condition in _narrower(space, within, name))


def _narrower(space: Space, within: Space, name: str) -> Iterator[Condition]:
    whole, own = within.dimensions[name], space.dimensions.get(name)
    match whole, own:
        case _, None:
            yield from _only(whole, space.base.get(name))
        case Choice(), Choice():
            values = tuple(value for value in whole.values if value in own.values)
            if values != whole.values:
                yield Condition(name, Op.ONE_OF, values)
        case Ordered(), Ordered():
            yield from _range(own, whole, name, name)
        case Vector(), Vector():
            yield from _range(own.element, whole.element, "min_message_bytes", "max_message_bytes")


def _only(whole: Dimension, value: Any) -> Iterator[Condition]:
    if isinstance(whole, Vector):
        yield Condition("min_message_bytes", Op.AT_LEAST, min(value))
        yield Condition("max_message_bytes", Op.AT_MOST, max(value))
    else:
        yield Condition(whole.name, Op.EQUAL, value)


def _range(own: Ordered, whole: Ordered, low: str, high: str) -> Iterator[Condition]:
    if own.low > whole.low:
        yield Condition(low, Op.AT_LEAST, own.low)
    if own.high < whole.high:
        yield Condition(high, Op.AT_MOST, own.high)
