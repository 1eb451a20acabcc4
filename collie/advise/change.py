"""What an application can change so that it keeps clear of a known anomaly.

A change is about one dimension of one kind of traffic: a limit moves along the ladder, or a value without order is left
out or replaced. Only dimensions that a condition of the anomaly reads can help, as only a broken condition does. A
change is *sound* when

1. no workload of the changed traffic meets the anomaly,
2. none meets an anomaly that the traffic did not meet before, and
3. everything else stays possible: a queue of 32 is no single change for who posts 64 at once.

What it costs is how far the limits move, in steps of the ladder; to leave out or replace a value without order counts
as `SWITCH` steps, because another operation or transport has to be written, where a number is only set. Limits move to
steps of the ladder because thresholds are known to one step of it at best: 1023 receives may be as bad as 1024, while
512 were seen to be fine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from collie.advise.effort import Effort
from collie.advise.overlap import Known, is_ordered, pinned
from collie.advise.solver import find
from collie.workloads.application import Sizes, Traffic, Values
from collie.workloads.dimension import Choice, Vector
from collie.workloads.feature import sources
from collie.workloads.space import Space

SWITCH = 4
RISK = 2
"""Steps that a change without a margin counts more."""


@dataclass(frozen=True)
class SettingChange:
    """One change of one dimension.

    Attributes:
        dimension: what changes.
        traffic: all of it, after the change.
        before, after: what the dimension can be; `Sizes` for messages.
        steps: what it costs.
        share_lost: part of the dimension's ladder that the traffic gives up, 0..1.
        has_margin: it stays a step clear of a threshold that is not exact; or the threshold is.
    """

    dimension: str
    traffic: Traffic
    before: Values | Sizes
    after: Values | Sizes
    steps: int
    share_lost: float
    has_margin: bool = True

    def applied(self, traffic: Traffic) -> Traffic:
        """Return some traffic with this change."""
        if isinstance(self.after, Sizes):
            return traffic.with_sizes(self.after)
        return traffic.with_values(self.dimension, self.after)

    @property
    def cost(self) -> tuple[int, float]:
        """What changes are sorted by."""
        return self.steps + (0 if self.has_margin else RISK), self.share_lost


def meets(traffic: Traffic, space: Space, known: Known, effort: Effort) -> bool:
    """Whether any workload of some traffic shows an anomaly."""
    return find(traffic, space, known.mfs, known.seen, effort) is not None


def changes(
    traffic: Traffic, space: Space, known: Known, avoid: Sequence[Known], keep: frozenset[str], effort: Effort
) -> tuple[SettingChange, ...]:
    """Return the cheapest sound change of each dimension, the cheapest of all first.

    Args:
        traffic: meets `known`.
        space: its constraints, and the steps of its ladders.
        known: what to leave.
        avoid: what must not be entered: anomalies that the traffic does not meet.
        keep: dimensions that stay as they are.
        effort: what may be spent.

    Raises:
        Undecided: the effort is spent.
    """

    def is_sound(change: SettingChange) -> bool:
        return _leaves(change, space, known, effort) and not any(
            meets(change.traffic, space, other, effort) for other in avoid
        )

    return tuple(sorted(_cheapest(traffic, space, known, keep, is_sound, effort), key=lambda change: change.cost))


def pair(
    traffic: Traffic, space: Space, known: Known, avoid: Sequence[Known], keep: frozenset[str], effort: Effort
) -> tuple[SettingChange, SettingChange] | None:
    """Return the cheapest two changes that are sound together: the first leaves, the second leaves what that enters.

    Everything is as for `changes`, which found none: whatever leaves enters something. Of each dimension only the
    cheapest change that leaves is tried first.
    """
    found: list[tuple[SettingChange, SettingChange]] = []
    for first in _cheapest(traffic, space, known, keep, lambda change: _leaves(change, space, known, effort), effort):
        entered, *others = sorted(avoid, key=lambda other: not meets(first.traffic, space, other, effort))
        found += [
            (first, second) for second in changes(first.traffic, space, entered, [known, *others], keep, effort)[:1]
        ]
    return min(found, key=lambda both: both[0].steps + both[1].steps, default=None)


def _cheapest(
    traffic: Traffic,
    space: Space,
    known: Known,
    keep: frozenset[str],
    is_good: Callable[[SettingChange], bool],
    effort: Effort,
) -> Iterator[SettingChange]:
    names = dict.fromkeys(name for condition in known.mfs.conditions for name in sources(condition.dimension))
    for name in names:
        if name in keep or name not in space.dimensions:
            continue
        options = sorted(_options(traffic, space, name, known, effort), key=lambda change: change.cost)
        best = next(filter(is_good, options), None)
        if best is not None:
            yield best


def _leaves(change: SettingChange, space: Space, known: Known, effort: Effort) -> bool:
    return (
        not meets(change.traffic, space, known, effort)
        and find(change.traffic, space, None, known.seen, effort) is not None
        and not any(unreachable(change.traffic, space, effort, change.dimension))
    )


def unreachable(
    traffic: Traffic, space: Space, effort: Effort, beside: str | None = None
) -> Iterator[tuple[str, object]]:
    """Yield what some traffic claims but constraints forbid: (dimension, value) of which no workload has it.

    Args:
        traffic: what is claimed. Of dimensions with an order, both ends are looked at.
        space: gives the constraints.
        effort: what may be spent.
        beside: only dimensions that share a constraint with this one.

    Raises:
        Undecided: the effort is spent.
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
            steps, lost = _distance(before, after, dimension.ladder), _lost(before, after, dimension.ladder)
            yield SettingChange(name, traffic.with_values(name, after), before, after, steps, lost)


def _other_values(
    traffic: Traffic, space: Space, dimension: Choice, known: Known, effort: Effort
) -> Iterator[SettingChange]:
    name, before = dimension.name, traffic.get(dimension.name)

    def change(after: Values, switched: int) -> SettingChange:
        return SettingChange(
            name, traffic.with_values(name, after), before, after, SWITCH * switched, switched / len(before)
        )

    harmless = tuple(value for value in before if not meets(traffic.with_values(name, (value,)), space, known, effort))
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
            for bounded in (
                tuple(min(size, step) for size in before.only),
                tuple(max(size, step) for size in before.only),
            ):
                if bounded != before.only:
                    moved = [_steps(a, b, ladder) for a, b in zip(before.only, bounded, strict=True)]
                    yield change(Sizes.exactly(bounded), sum(moved), 0.0)
        return
    for values in _moved(before.values, ladder):
        steps, lost = _distance(before.values, values, ladder), _lost(before.values, values, ladder)
        yield change(Sizes(values, before.longest), steps, lost)
    if before.longest > 1:
        yield change(Sizes(before.values), SWITCH, 0.0)


def _moved(values: Values, ladder: Sequence[int]) -> Iterator[Values]:
    """Yield what is left under each step of the ladder and above it, or the step itself where nothing is."""
    for step in ladder:
        for left in (values[: bisect_right(values, step)], values[bisect_left(values, step) :]):
            if len(left) < len(values):
                yield left or (step,)


def _distance(before: Values, after: Values, ladder: Sequence[int]) -> int:
    up = _steps(before[-1], after[-1], ladder)
    return up if len(before) == 1 else up + _steps(before[0], after[0], ladder)


def _steps(a: int, b: int, ladder: Sequence[int]) -> int:
    """Return the steps of a ladder between two values; of values off the ladder, at least one."""
    return 0 if a == b else max(1, abs(bisect_left(ladder, a) - bisect_left(ladder, b)))


def _lost(before: Values, after: Values, ladder: Iterable[int]) -> float:
    had = [step for step in ladder if before[0] <= step <= before[-1]]
    return sum(not after[0] <= step <= after[-1] for step in had) / max(1, len(had))
