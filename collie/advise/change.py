"""Changes of an application that avoid a known anomaly.

A change affects one dimension of one kind of traffic. It moves a limit along the ladder, or removes or replaces a value
without order. A change is *sound* when

1. no workload of the changed traffic hits the anomaly,
2. none hits an anomaly that the traffic did not hit before, and
3. everything else stays possible: a queue of 32 is no single change for an application that posts 64 at once.

The cost is the distance that limits move, in steps of the ladder. Thresholds are exact to a step at best. Removing or
replacing a value without order costs `_SWITCH` steps, because it needs code for another operation or transport.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from collie.advise.effort import Effort
from collie.advise.overlap import Known, is_ordered, pinned
from collie.advise.solver import find
from collie.workloads.application import Sizes, Traffic, Values
from collie.workloads.dimension import Choice, Vector
from collie.workloads.feature import sources
from collie.workloads.space import Space

_SWITCH = 4
_RISK = 2
"""Extra cost in steps of a change without a margin."""


@dataclass(frozen=True)
class SettingChange:
    """One change of one dimension.

    Attributes:
        traffic: the whole traffic after the change.
        before, after: values of the dimension, or `Sizes` for messages.
        share_lost: part of the dimension's ladder that the traffic gives up, 0..1.
        has_margin: True if the threshold is exact, or is a step away.
    """

    dimension: str
    traffic: Traffic
    before: Values | Sizes
    after: Values | Sizes
    steps: int
    share_lost: float
    has_margin: bool = True

    def applied(self, traffic: Traffic) -> Traffic:
        """Return traffic with this change."""
        if isinstance(self.after, Sizes):
            return traffic.with_sizes(self.after)
        return traffic.with_values(self.dimension, self.after)

    def before_in(self, traffic: Traffic) -> Values | Sizes:
        """Return the values that the dimension has in some traffic."""
        return traffic.sizes if isinstance(self.before, Sizes) else traffic.get(self.dimension)

    @property
    def cost(self) -> tuple[int, float]:
        """The sort key of changes."""
        return self.steps + (0 if self.has_margin else _RISK), self.share_lost


def hits(traffic: Traffic, space: Space, known: Known, effort: Effort) -> bool:
    """Whether any workload of some traffic hits an anomaly."""
    return find(traffic, space, known.mfs, known.seen, effort) is not None


def changes(
    traffic: Traffic, space: Space, known: Known, avoid: Sequence[Known], keep: frozenset[str], effort: Effort
) -> tuple[SettingChange, ...]:
    """Return the cheapest sound change of each dimension that is not in `keep`, the cheapest of all first.

    `traffic` hits `known`. It does not and must not hit the anomalies in `avoid`.
    """

    def enters_none(change: SettingChange) -> bool:
        return not any(hits(change.traffic, space, other, effort) for other in avoid)

    return tuple(sorted(_cheapest(traffic, space, known, keep, effort, enters_none), key=attrgetter("cost")))


def pair(
    traffic: Traffic, space: Space, known: Known, avoid: Sequence[Known], keep: frozenset[str], effort: Effort
) -> tuple[SettingChange, SettingChange] | None:
    """Return the cheapest two changes that are sound together: the second avoids the anomaly that the first newly hits.

    `changes` must have found none. The first change is the cheapest effective change of its dimension.
    """
    found: list[tuple[SettingChange, SettingChange]] = []
    for first in _cheapest(traffic, space, known, keep, effort):
        entered, *others = sorted(avoid, key=lambda other: not hits(first.traffic, space, other, effort))
        found += [
            (first, second) for second in changes(first.traffic, space, entered, [known, *others], keep, effort)[:1]
        ]
    return min(found, key=lambda both: both[0].steps + both[1].steps, default=None)


def _cheapest(
    traffic: Traffic,
    space: Space,
    known: Known,
    keep: frozenset[str],
    effort: Effort,
    accepts: Callable[[SettingChange], bool] = lambda _: True,
) -> Iterator[SettingChange]:
    for name in dict.fromkeys(name for condition in known.mfs.conditions for name in sources(condition.dimension)):
        if name in keep or name not in space.dimensions:
            continue
        for change in sorted(_options(traffic, space, name, known, effort), key=attrgetter("cost")):
            if _leaves(change, space, known, effort) and accepts(change):
                yield change
                break


def _leaves(change: SettingChange, space: Space, known: Known, effort: Effort) -> bool:
    return (
        not hits(change.traffic, space, known, effort)
        and find(change.traffic, space, None, known.seen, effort) is not None
        and not any(unreachable(change.traffic, space, effort, change.dimension))
    )


def unreachable(
    traffic: Traffic, space: Space, effort: Effort, beside: str | None = None
) -> Iterator[tuple[str, object]]:
    """Yield (dimension, value) for each value of the traffic that the constraints exclude from every workload.

    Only the ends of ordered dimensions are checked. With `beside`, only dimensions that share a constraint with it are.
    """
    near = {name for c in space.constraints if beside is None or beside in c.fields for name in c.fields}
    for name in (*traffic.values, "messages"):
        values = traffic.get(name)
        if name not in near or (name == "messages" and traffic.sizes.only is not None):
            continue
        for value in dict.fromkeys((values[0], values[-1]) if is_ordered(space, name) else values):
            if find(pinned(traffic, name, (value,)), space, None, traffic.base, effort) is None:
                yield name, value


def _options(traffic: Traffic, space: Space, name: str, known: Known, effort: Effort) -> Iterator[SettingChange]:
    dimension = space.dimensions[name]
    if isinstance(dimension, Vector):
        yield from _messages(traffic, dimension)
    elif isinstance(dimension, Choice):
        yield from _other_values(traffic, space, dimension, known, effort)
    else:
        before = traffic.get(name)
        for after in _moved(before, dimension.ladder):
            costs = _costs(before, after, dimension.ladder)
            yield SettingChange(name, traffic.with_values(name, after), before, after, *costs)


def _other_values(
    traffic: Traffic, space: Space, dimension: Choice, known: Known, effort: Effort
) -> Iterator[SettingChange]:
    name, before = dimension.name, traffic.get(dimension.name)

    def change(after: Values, switched: int) -> SettingChange:
        return SettingChange(
            name, traffic.with_values(name, after), before, after, _SWITCH * switched, switched / len(before)
        )

    harmless = tuple(value for value in before if not hits(traffic.with_values(name, (value,)), space, known, effort))
    if harmless:
        yield change(harmless, len(before) - len(harmless))
    else:
        others = [value for value in dimension.values if value not in before]
        for value in sorted(others, key=lambda other: other != dimension.plain):
            yield change((value,), len(before))


def _messages(traffic: Traffic, dimension: Vector) -> Iterator[SettingChange]:
    ladder, before = dimension.element.ladder, traffic.sizes

    def change(after: Sizes, steps: int, lost: float) -> SettingChange:
        return SettingChange(dimension.name, traffic.with_sizes(after), before, after, steps, lost)

    if before.only is not None:
        for step in ladder:
            for bound in (min, max):
                bounded = tuple(bound(size, step) for size in before.only)
                if bounded != before.only:
                    moved = [_steps(a, b, ladder) for a, b in zip(before.only, bounded, strict=True)]
                    yield change(Sizes.exactly(bounded), sum(moved), 0.0)
        return
    for values in _moved(before.values, ladder):
        yield change(Sizes(values, before.longest), *_costs(before.values, values, ladder))
    if before.longest > 1:
        yield change(Sizes(before.values), _SWITCH, 0.0)


def _moved(values: Values, ladder: Sequence[int]) -> Iterator[Values]:
    """For each step of the ladder, yield the values up to it and from it on, or the step itself if none remain."""
    for step in ladder:
        for left in (values[: bisect_right(values, step)], values[bisect_left(values, step) :]):
            if len(left) < len(values):
                yield left or (step,)


def _costs(before: Values, after: Values, ladder: Sequence[int]) -> tuple[int, float]:
    """Return `SettingChange.steps` and `share_lost` of a change of values."""
    steps = _steps(before[-1], after[-1], ladder)
    if len(before) > 1:
        steps += _steps(before[0], after[0], ladder)
    had = [step for step in ladder if before[0] <= step <= before[-1]]
    return steps, sum(not after[0] <= step <= after[-1] for step in had) / max(1, len(had))


def _steps(a: int, b: int, ladder: Sequence[int]) -> int:
    """Return the steps of a ladder between two values: at least one if they differ."""
    return 0 if a == b else max(1, abs(bisect_left(ladder, a) - bisect_left(ladder, b)))
