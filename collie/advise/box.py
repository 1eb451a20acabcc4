"""Whether any workload of some traffic satisfies all of a set of rules: exactly, over every value of every range.

A *box* is a set of values for each dimension. A *rule* reads a few dimensions: a constraint of the space, or a
condition of a minimal feature set on something derived. Rules of which one side of each range is always the easier one
(`Constraint.more`) are decided for a whole box at its two corners:

1. broken at the easiest corner: no workload of the box keeps the rule, and the box is given up;
2. kept at the hardest corner: every workload keeps it, and nobody asks again within the box;
3. else values of one dimension with which the rule is broken even where all others are easiest are left out;
4. then the workload of the box that is nearest to a target is tried, and when it breaks a rule, a dimension of that
   rule is halved. Dimensions without order, or in which a rule has no easier side, are taken value by value.

Ranges are finite and halves are smaller, so this ends; nothing is given up but by (1) and (3), so the answer is exact.
Conditions on one dimension cut its values to begin with, so that few rules are left.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, pairwise, product
from typing import Any

from collie.workloads.application import Sizes, Traffic, Values
from collie.workloads.constraint import Constraint, Limits
from collie.workloads.dimension import Ordered
from collie.workloads.feature import DERIVED, Condition, Mfs, Op, sources
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_MESSAGES = "messages"
_SEGMENTS = frozenset({"min_segment_bytes", "max_segment_bytes"})
_EVERY_SIZE = {("min_message_bytes", Op.AT_LEAST), ("max_message_bytes", Op.AT_MOST)}
"""Conditions that every single message has to keep."""
_SOME_SIZE = {
    ("min_message_bytes", Op.AT_MOST),
    ("max_message_bytes", Op.AT_LEAST),
    ("min_segment_bytes", Op.AT_MOST),
    ("max_segment_bytes", Op.AT_LEAST),
}
"""Conditions that one message has to keep."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that a workload keeps or breaks.

    Attributes:
        fields: what it reads.
        holds: whether a workload keeps it.
        more: the ordered fields of which more is easier; of the others less is.
        apart: ordered fields that have no easier side.
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
    """A set of workloads: a product of values.

    Attributes:
        base: gives every other field.
        values: by dimension, none of them empty.
        sizes: of each message in the list.
        ordered: the dimensions whose values ascend.
    """

    base: Workload
    values: Mapping[str, Values]
    sizes: tuple[Values, ...]
    ordered: frozenset[str]

    def nearest(self, target: Workload) -> Workload:
        """Return the workload that differs least from another one, dimension by dimension."""
        changes = {
            name: closest(values, target.get(name), ordered=name in self.ordered)
            for name, values in self.values.items()
        }
        wanted = target.messages
        sizes = (closest(v, wanted[i % len(wanted)], ordered=True) for i, v in enumerate(self.sizes))
        return self.base.with_(**changes, messages=tuple(sizes))

    def corners(self, rule: Rule, *, easiest: bool) -> Iterator[Workload]:
        """Yield, for each combination of what has no easier side, the easiest or the hardest workload for a rule."""
        names = [name for name in rule.fields if name in self.values]
        single = [name for name in names if self._is_single(name, rule)]
        ends = {name: rule.end(name, self.values[name], easiest=easiest) for name in names if name not in single}
        if _MESSAGES in rule.fields:
            ends[_MESSAGES] = tuple(rule.end(_MESSAGES, sizes, easiest=easiest) for sizes in self.sizes)
        for chosen in product(*(self.values[name] for name in single)):
            yield self.base.with_(**ends, **dict(zip(single, chosen, strict=True)))

    def may_keep(self, rule: Rule) -> bool:
        """Whether some workload keeps a rule."""
        return any(map(rule.holds, self.corners(rule, easiest=True)))

    def must_keep(self, rule: Rule) -> bool:
        """Whether every workload keeps a rule."""
        return all(map(rule.holds, self.corners(rule, easiest=False)))

    def tightened(self, rule: Rule) -> Box:
        """Leave out values with which a rule, that some workload keeps, is broken whatever the others are."""
        box = self
        for name in rule.fields:
            values = box.values.get(name, ())
            if len(values) > 1 and box._is_single(name, rule):
                box = box.with_(name, tuple(value for value in values if box.with_(name, (value,)).may_keep(rule)))
            elif len(values) > 1:
                box = box.with_(name, _eased(values, rule, name, box.with_))
        for slot, values in enumerate(box.sizes if _MESSAGES in rule.fields else ()):
            if len(values) > 1:
                box = box.with_size(slot, _eased(values, rule, _MESSAGES, partial(_sized, box, slot)))
        return box

    def parts(self, rule: Rule, target: Workload) -> Iterator[Box]:
        """Split a dimension that a rule reads; the part where the rule is easier, or that has the target's, first.

        Yields nothing when all that the rule reads is settled: then what one workload breaks, all do.
        """
        sizes = {name: len(self.values[name]) for name in rule.fields if name in self.values}
        several = [name for name, size in sizes.items() if size > 1]
        single = [name for name in several if self._is_single(name, rule)]
        if single:
            name = min(single, key=lambda each: sizes[each])
            for value in sorted(self.values[name], key=lambda each: each != target.get(name)):
                yield self.with_(name, (value,))
            return
        slots = [slot for slot, some in enumerate(self.sizes) if _MESSAGES in rule.fields and len(some) > 1]
        name = max(several, key=lambda each: sizes[each], default="")
        slot = max(slots, key=lambda each: len(self.sizes[each]), default=-1)
        if slots and len(self.sizes[slot]) > sizes.get(name, 0):
            for half in _halves(self.sizes[slot], more=_MESSAGES in rule.more):
                yield self.with_size(slot, half)
        elif several:
            for half in _halves(self.values[name], more=name in rule.more):
                yield self.with_(name, half)

    def with_(self, name: str, values: Values) -> Box:
        """Return the box with other values of one dimension."""
        return replace(self, values={**self.values, name: values})

    def with_size(self, slot: int, values: Values) -> Box:
        """Return the box with other sizes of one message."""
        return replace(self, sizes=(*self.sizes[:slot], values, *self.sizes[slot + 1 :]))

    def _is_single(self, name: str, rule: Rule) -> bool:
        return name not in self.ordered or name in rule.apart


def find(traffic: Traffic, space: Space, mfs: Mfs | None, target: Workload) -> Workload | None:
    """Return a workload of some traffic that a space allows and a minimal feature set covers, near to a target.

    Args:
        traffic: the workloads to look among.
        space: its constraints have to be kept.
        mfs: all its conditions have to hold; None for no conditions.
        target: what the answer should resemble.

    Returns:
        None exactly when there is none.
    """
    if mfs is not None and not mfs.conditions:
        return None  # as `Mfs.covers`: it explains nothing
    for conditions in _alternatives(mfs.conditions if mfs else ()):
        for box, rules in _boxes(traffic, space, conditions, target):
            found = _search(box, rules, target)
            if found is not None:
                return found
    return None


def closest(values: Values, wanted: Any, *, ordered: bool) -> Any:
    """Return the value nearest to the one wanted; without order that one or the first."""
    if not ordered:
        return wanted if wanted in values else values[0]
    above = bisect_left(values, wanted)
    near = values[max(0, above - 1) : above + 1]
    return min(near, key=lambda value: abs(value - wanted)) if near else values[-1]


def _search(box: Box, rules: Sequence[Rule], target: Workload) -> Workload | None:
    left = []
    for rule in rules:
        if not box.may_keep(rule):
            return None
        if not box.must_keep(rule):
            box = box.tightened(rule)
            left.append(rule)
    guess = box.nearest(target)
    broken = next((rule for rule in left if not rule.holds(guess)), None)
    if broken is None:
        return guess
    for part in box.parts(broken, target):
        found = _search(part, left, target)
        if found is not None:
            return found
    return None


def _eased(values: Values, rule: Rule, name: str, with_: Callable[[str, Values], Box]) -> Values:
    """Return the values, up to the easiest, with which a rule can be kept; with the easiest it can."""
    more = name in rule.more

    def may_keep(distance: int) -> bool:
        """Whether it can with the value at a distance from the hardest one."""
        return with_(name, (values[distance if more else -1 - distance],)).may_keep(rule)

    if may_keep(0):
        return values
    low, high = 1, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if may_keep(middle) else (middle + 1, high)
    return values[low:] if more else values[:-low]


def _sized(box: Box, slot: int, _name: str, values: Values) -> Box:
    return box.with_size(slot, values)


def _alternatives(conditions: Sequence[Condition]) -> Iterator[tuple[Condition, ...]]:
    """Yield conjunctions without `in` on what is no plain dimension; together they say the same."""
    for index, condition in enumerate(conditions):
        name, op = condition.dimension, condition.op
        if op is Op.ONE_OF and (name in DERIVED or name == _MESSAGES):
            for value in condition.value:
                equal = Condition(name, Op.EQUAL, value)
                yield from _alternatives((*conditions[:index], equal, *conditions[index + 1 :]))
            return
        if op is Op.EQUAL and name in DERIVED:
            both = (Condition(name, Op.AT_LEAST, condition.value), Condition(name, Op.AT_MOST, condition.value))
            yield from _alternatives((*conditions[:index], *both, *conditions[index + 1 :]))
            return
    yield tuple(conditions)


def _boxes(
    traffic: Traffic, space: Space, conditions: Sequence[Condition], target: Workload
) -> Iterator[tuple[Box, list[Rule]]]:
    """Yield boxes that hold together everything that conditions on one dimension leave, with the rules that remain."""
    values = dict(traffic.values)
    sizes = traffic.sizes
    rules = [_rule_of(constraint) for constraint in space.constraints]
    for condition in conditions:
        name = condition.dimension
        if name in values:
            values[name] = _kept(values[name], condition, ordered=isinstance(space.dimensions.get(name), Ordered))
        elif (name, condition.op) in _EVERY_SIZE and sizes.only is None:
            first = None if sizes.first is None else _kept(sizes.first, condition, ordered=True)
            sizes = replace(sizes, values=_kept(sizes.values, condition, ordered=True), first=first)
        elif name == _MESSAGES:
            sizes = Sizes.exactly(condition.value) if sizes.holds(condition.value) else Sizes(())
        else:
            rules.append(_rule_for(condition, values))
    if not all(values.values()):
        return
    ordered = frozenset(name for name in values if isinstance(space.dimensions.get(name), Ordered))
    base = traffic.base.with_(**{name: some[0] for name, some in values.items()})
    segments = any(condition.dimension in _SEGMENTS for condition in conditions)
    cuts = _cuts(values.get("sge_split", (base.sge_split,))) if segments else ()
    longest = min(sizes.longest, _longest_needed(values, sizes, space, conditions))
    for lists in _lists(sizes, longest, cuts, target):
        yield Box(base, values, lists, ordered), rules


def _longest_needed(values: Mapping[str, Values], sizes: Sizes, space: Space, conditions: Sequence[Condition]) -> int:
    """Return the number of messages beyond which one more makes nothing possible.

    A condition that some message has to keep needs one. Short messages beside them lower the mean, which matters where
    bytes in flight are limited; and beside several opcodes the place in the list matters.
    """
    if space.limits.outstanding_bytes < Limits().outstanding_bytes or any(values.get("more_opcodes", ())):
        return sizes.longest
    some = sum((condition.dimension, condition.op) in _SOME_SIZE for condition in conditions)
    return max(1, some + (sizes.first is not None))


def _rule_of(constraint: Constraint) -> Rule:
    return Rule(constraint.fields, lambda workload: constraint.check(workload) is None, constraint.more)


def _rule_for(condition: Condition, values: Mapping[str, Values]) -> Rule:
    fields = frozenset(sources(condition.dimension))
    opcodes = (*values.get("opcode", ()), *chain.from_iterable(values.get("more_opcodes", ())))
    if condition.dimension in _SEGMENTS and not any(opcode.is_atomic for opcode in opcodes):
        fields -= {"opcode", "more_opcodes"}  # they matter for atomics alone
    more = fields if condition.op is Op.AT_LEAST else frozenset[str]()
    apart = frozenset({"sge_count"}) if condition.dimension in _SEGMENTS else frozenset[str]()
    return Rule(fields, condition.holds, more, apart)


def _kept(values: Values, condition: Condition, *, ordered: bool) -> Values:
    """Return the values that satisfy a condition on their own dimension."""
    wanted = condition.value
    if ordered and condition.op is Op.AT_LEAST:
        return values[bisect_left(values, wanted) :]
    if ordered and condition.op is Op.AT_MOST:
        return values[: bisect_right(values, wanted)]
    if isinstance(values, range) and condition.op in {Op.EQUAL, Op.ONE_OF}:
        listed = wanted if condition.op is Op.ONE_OF else (wanted,)
        return tuple(sorted(value for value in listed if value in values))
    return tuple(value for value in values if condition.admits(value))


def _cuts(splits: Sequence[str | tuple[int, ...]]) -> tuple[int, ...]:
    """Return the sizes up to which a message fills exactly the leading entries of some split.

    Between two of them the shortest entry never shrinks when the message grows, whatever the number of entries.
    """
    return tuple(sorted({total for split in splits if not isinstance(split, str) for total in accumulate(split)}))


def _lists(sizes: Sizes, longest: int, cuts: Sequence[int], target: Workload) -> Iterator[tuple[Values, ...]]:
    """Yield what each message of a list can be: the target's own, then every length and every side of each cut."""
    if sizes.only is not None or sizes.holds(target.messages):
        yield tuple((size,) for size in sizes.only or target.messages)
    if sizes.only is None:
        rest = _pieces(sizes.values, cuts)
        first = rest if sizes.first is None else _pieces(sizes.first, cuts)
        for length in range(1, longest + 1):
            yield from product(first, *[rest] * (length - 1))


def _pieces(values: Values, cuts: Sequence[int]) -> list[Values]:
    edges = [0, *(bisect_right(values, cut) for cut in cuts), len(values)]
    return [values[a:b] for a, b in pairwise(edges) if a < b]


def _halves(values: Values, *, more: bool) -> tuple[Values, Values]:
    middle = len(values) // 2
    low, high = values[:middle], values[middle:]
    return (high, low) if more else (low, high)
