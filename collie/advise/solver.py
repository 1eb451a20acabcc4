"""An exact decision whether any workload of some traffic satisfies a set of rules, over every value of every range.

A *box* is a set of values for each dimension. A *rule* reads a few dimensions: a constraint of the space, or a
condition on a derived feature. If each range has one end that is easier for a rule (`Constraint.more`), the rule is
tried at two corners of the box:

1. Broken at the easiest corner: no workload satisfies the rule, and the box is dropped.
2. Satisfied at the hardest corner: every workload satisfies the rule, and the rule is dropped within the box.
3. Otherwise, values that break the rule even at the easiest values of all other dimensions are removed.
4. Then the workload nearest to a target is tried. When it breaks a rule, a dimension of that rule is halved. Dimensions
   without order, or without an easier side, are split value by value.

Ranges are finite and halves are smaller, so this ends. Only (1) and (3) drop workloads, so the answer is exact. If
a condition lists values of a derived feature, their whole range is searched. A workload found in between splits it.

The worst case is exponential in the number of dimensions, so steps are bounded (`effort.py`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise, product
from operator import gt, lt
from typing import Any

from collie.advise.box import Box, BoxRule
from collie.advise.effort import Effort
from collie.workloads.application import Sizes, Traffic, Values
from collie.workloads.constraint import Constraint, HostLimits
from collie.workloads.dimension import Ordered
from collie.workloads.feature import DERIVED, Condition, Mfs, Op, feature_value, sources
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_MESSAGES = "messages"
_SEGMENTS = frozenset({"min_segment_bytes", "max_segment_bytes"})
_EVERY_SIZE = {("min_message_bytes", Op.AT_LEAST), ("max_message_bytes", Op.AT_MOST)}
"""Conditions that every message must satisfy."""
_PER_MESSAGE = frozenset({"offered_messages_per_second"})
"""Features that larger messages make smaller."""
_OF_MEAN = frozenset({"mean_message_bytes", "post_bytes", "offered_messages_per_second"})
"""Features that depend on the mean of all messages."""
_TIGHTER = {Op.AT_LEAST: gt, Op.AT_MOST: lt}
_SOME_SIZE = {
    ("min_message_bytes", Op.AT_MOST),
    ("max_message_bytes", Op.AT_LEAST),
    ("min_segment_bytes", Op.AT_MOST),
    ("max_segment_bytes", Op.AT_LEAST),
}
"""Conditions that hold if one message satisfies them."""


def find(
    traffic: Traffic, space: Space, mfs: Mfs | None, target: Workload, effort: Effort | None = None
) -> Workload | None:
    """Return a workload of some traffic, near a target, that a space allows and an MFS covers, or None.

    Raises:
        Undecided: the effort is spent.
    """
    if mfs is not None and not mfs.conditions:
        return None  # an empty MFS covers nothing
    effort = effort or Effort()
    limits, listed = _listed(mfs.conditions if mfs else ())
    waiting = [listed]
    while waiting:
        listed = waiting.pop()
        found = _answer(traffic, space, [*limits, *_hull(listed)], target, effort)
        if found is None:
            continue
        gap = next((name for name, values in listed.items() if feature_value(found, name) not in values), None)
        if gap is None:
            return found
        effort.spend(len(listed[gap]) // 100)
        parts = _around(listed[gap], feature_value(found, gap))
        waiting += [{**listed, gap: part} for part in reversed(parts)]
    return None


def _answer(
    traffic: Traffic, space: Space, conditions: Sequence[Condition], target: Workload, effort: Effort
) -> Workload | None:
    """Return a workload that satisfies conditions, or None. Only conditions on dimensions may have `in`."""
    for box, rules in _boxes(traffic, space, conditions, target):
        effort.spend()
        found = _search(box, [replace(rule, holds=effort.counted(rule.holds)) for rule in rules], target)
        if found is not None:
            return found
    return None


def _search(box: Box, rules: Sequence[BoxRule], target: Workload) -> Workload | None:
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


def _listed(conditions: Sequence[Condition]) -> tuple[list[Condition], dict[str, Values]]:
    """Split conditions: `in` and `==` on derived features or messages become values, the tightest others stay."""
    others: list[Condition] = []
    tightest: dict[tuple[str, Op], Condition] = {}
    listed: dict[str, Values] = {}
    for condition in conditions:
        name, op = condition.dimension, condition.op
        if (name not in DERIVED and name != _MESSAGES) or op not in {Op.ONE_OF, Op.EQUAL}:
            if op not in _TIGHTER:
                others.append(condition)
            elif (before := tightest.get((name, op))) is None or _TIGHTER[op](condition.value, before.value):
                tightest[name, op] = condition
            continue
        values = set(condition.value if op is Op.ONE_OF else (condition.value,))
        listed[name] = tuple(sorted(values.intersection(listed.get(name, values))))
    return [*others, *tightest.values()], listed


def _hull(listed: Mapping[str, Values]) -> Iterator[Condition]:
    """Yield conditions that hold for the listed values and for all values between them."""
    for name, values in listed.items():
        if name == _MESSAGES and len(values) != 1:
            continue
        if name == _MESSAGES:
            yield Condition(name, Op.EQUAL, values[0])
        else:
            # If no value is left, the limits contradict each other on purpose.
            yield Condition(name, Op.AT_LEAST, values[0] if values else 1)
            yield Condition(name, Op.AT_MOST, values[-1] if values else 0)


def _around(values: Values, gap: Any) -> list[Values]:
    """Return the values below and above a gap between them, or each value by itself if they have no order."""
    if not isinstance(gap, int):
        return [(value,) for value in values]
    return [values[: bisect_left(values, gap)], values[bisect_left(values, gap) :]]


def _boxes(
    traffic: Traffic, space: Space, conditions: Sequence[Condition], target: Workload
) -> Iterator[tuple[Box, list[BoxRule]]]:
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
    """Return the number of messages beyond which a further message enables nothing.

    Each condition on some message needs one message. More messages move the mean, which matters where bytes in flight
    or the bytes of a round are limited or a condition is on it. With several opcodes the position in the list matters.
    """
    limits, default = space.limits, HostLimits()
    if limits.outstanding_bytes < default.outstanding_bytes or limits.round_seconds < default.round_seconds:
        return sizes.longest
    if any(values.get("more_opcodes", ())):
        return sizes.longest
    if any(condition.dimension in _OF_MEAN for condition in conditions):
        return sizes.longest
    some = sum((condition.dimension, condition.op) in _SOME_SIZE for condition in conditions)
    return max(1, some + (sizes.first is not None))


def _rule_of(constraint: Constraint) -> BoxRule:
    return BoxRule(
        constraint.fields, lambda workload: constraint.check(workload) is None, constraint.more, constraint.apart
    )


def _rule_for(condition: Condition, values: Mapping[str, Values]) -> BoxRule:
    fields = frozenset(sources(condition.dimension))
    opcodes = (*values.get("opcode", ()), *chain.from_iterable(values.get("more_opcodes", ())))
    if condition.dimension in _SEGMENTS and not any(opcode.is_atomic for opcode in opcodes):
        fields -= {"opcode", "more_opcodes"}  # the opcode matters only for atomics
    falling = frozenset({_MESSAGES}) if condition.dimension in _PER_MESSAGE else frozenset[str]()
    more = fields - falling if condition.op is Op.AT_LEAST else falling
    apart = frozenset({"sge_count"}) if condition.dimension in _SEGMENTS else frozenset[str]()
    return BoxRule(fields, condition.holds, more, apart)


def _kept(values: Values, condition: Condition, *, ordered: bool) -> Values:
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
    """Return sizes that exactly fill the first entries of a split. Between two of these, growth shortens no entry."""
    return tuple(sorted({total for split in splits if not isinstance(split, str) for total in accumulate(split)}))


def _lists(sizes: Sizes, longest: int, cuts: Sequence[int], target: Workload) -> Iterator[tuple[Values, ...]]:
    """Yield lists of ranges, one per message: the target's sizes, then all lengths, with each piece between cuts."""
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
