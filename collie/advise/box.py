"""Rules, and boxes of workloads (see `solver.py`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from collie.workloads.application import Values
from collie.workloads.workload import Workload

_MESSAGES = "messages"


@dataclass(frozen=True, slots=True)
class BoxRule:
    """A predicate on the `fields` of workloads.

    Attributes:
        more: ordered fields whose larger values satisfy the rule more easily. In other ordered fields, smaller ones do.
        apart: ordered fields without an easier side.
    """

    fields: frozenset[str]
    holds: Callable[[Workload], bool]
    more: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()

    def end(self, name: str, values: Values, *, easiest: bool) -> Any:
        """Return the value that makes the rule easiest or hardest."""
        return values[-1 if (name in self.more) == easiest else 0]


@dataclass(frozen=True)
class Box:
    """A set of workloads: a product of values. Ordered values ascend. `base` gives every other field."""

    base: Workload
    values: Mapping[str, Values]
    sizes: tuple[Values, ...]
    ordered: frozenset[str]

    def nearest(self, target: Workload) -> Workload:
        """Return the workload nearest to a target."""
        changes = {
            name: closest(values, target.get(name), ordered=name in self.ordered)
            for name, values in self.values.items()
        }
        wanted = target.messages
        sizes = (closest(v, wanted[i % len(wanted)], ordered=True) for i, v in enumerate(self.sizes))
        return self.base.with_(**changes, messages=tuple(sizes))

    def corners(self, rule: BoxRule, *, easiest: bool) -> Iterator[Workload]:
        """Yield the easiest or hardest workloads for a rule: one per combination in fields without an easier side."""
        names = [name for name in rule.fields if name in self.values]
        single = [name for name in names if self._is_single(name, rule)]
        ends = {name: rule.end(name, self.values[name], easiest=easiest) for name in names if name not in single}
        if _MESSAGES in rule.fields:
            ends[_MESSAGES] = tuple(rule.end(_MESSAGES, sizes, easiest=easiest) for sizes in self.sizes)
        for chosen in product(*(self.values[name] for name in single)):
            yield self.base.with_(**ends, **dict(zip(single, chosen, strict=True)))

    def may_keep(self, rule: BoxRule) -> bool:
        """Whether some workload satisfies a rule."""
        return any(map(rule.holds, self.corners(rule, easiest=True)))

    def must_keep(self, rule: BoxRule) -> bool:
        """Whether every workload satisfies a rule."""
        return all(map(rule.holds, self.corners(rule, easiest=False)))

    def tightened(self, rule: BoxRule) -> Box:
        """Remove values that break a satisfiable rule for all values of the other dimensions."""
        box = self
        for name in rule.fields:
            values = box.values.get(name, ())
            if len(values) > 1 and box._is_single(name, rule):
                box = box.with_(name, tuple(value for value in values if box.with_(name, (value,)).may_keep(rule)))
            elif len(values) > 1:
                box = box.with_(name, _eased(values, rule, name, partial(box.with_, name)))
        for slot, values in enumerate(box.sizes if _MESSAGES in rule.fields else ()):
            if len(values) > 1:
                box = box.with_size(slot, _eased(values, rule, _MESSAGES, partial(box.with_size, slot)))
        return box

    def parts(self, rule: BoxRule, target: Workload) -> Iterator[Box]:
        """Split a dimension that a rule reads. Yield the easier half or the target's value first.

        Yield nothing when all fields of the rule have one value.
        """
        count = {name: len(self.values[name]) for name in rule.fields if len(self.values.get(name, ())) > 1}
        single = [name for name in count if self._is_single(name, rule)]
        slots = [slot for slot, sizes in enumerate(self.sizes) if _MESSAGES in rule.fields and len(sizes) > 1]
        longest = max(count, key=lambda each: count[each], default=None)
        widest = max(slots, key=lambda each: len(self.sizes[each]), default=None)
        if single:
            name = min(single, key=lambda each: count[each])
            for value in sorted(self.values[name], key=lambda each: each != target.get(name)):
                yield self.with_(name, (value,))
        elif widest is not None and (longest is None or len(self.sizes[widest]) > count[longest]):
            for half in _halves(self.sizes[widest], more=_MESSAGES in rule.more):
                yield self.with_size(widest, half)
        elif longest is not None:
            for half in _halves(self.values[longest], more=longest in rule.more):
                yield self.with_(longest, half)

    def with_(self, name: str, values: Values) -> Box:
        """Return the box with other values."""
        return replace(self, values={**self.values, name: values})

    def with_size(self, slot: int, values: Values) -> Box:
        """Return the box with other sizes of a message."""
        return replace(self, sizes=(*self.sizes[:slot], values, *self.sizes[slot + 1 :]))

    def _is_single(self, name: str, rule: BoxRule) -> bool:
        return name not in self.ordered or name in rule.apart


def closest(values: Values, wanted: Any, *, ordered: bool) -> Any:
    """Return the nearest value. Without order, return the wanted value if present, else the first."""
    if not ordered:
        return wanted if wanted in values else values[0]
    above = bisect_left(values, wanted)
    near = values[max(0, above - 1) : above + 1]
    return min(near, key=lambda value: abs(value - wanted))


def _eased(values: Values, rule: BoxRule, name: str, with_: Callable[[Values], Box]) -> Values:
    """Return the values that can satisfy a rule. The easiest value must be one of them."""
    more = name in rule.more

    def may_keep(distance: int) -> bool:
        return with_((values[distance if more else -1 - distance],)).may_keep(rule)

    if may_keep(0):
        return values
    low, high = 1, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if may_keep(middle) else (middle + 1, high)
    return values[low:] if more else values[:-low]


def _halves(values: Values, *, more: bool) -> tuple[Values, Values]:
    middle = len(values) // 2
    low, high = values[:middle], values[middle:]
    return (high, low) if more else (low, high)
