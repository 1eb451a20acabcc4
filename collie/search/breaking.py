"""Breaks one condition of a minimal feature set and keeps all others, for the controls of a reproduction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from typing import Any

from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import SIZES, SOURCES, Condition, Mfs, feature_value
from collie.workloads.space import Space
from collie.workloads.workload import FIELD_NAMES, Workload


def broken(workload: Workload, mfs: Mfs, condition: Condition, space: Space) -> Workload | None:
    """Return a workload of `mfs` changed to break one condition, or None if no change breaks only that one.

    A dimension takes its plain value, or else the value farthest from the threshold. A derived feature moves as far as
    any mixture of its dimensions allows, with the fewest of them changed. If that breaks another condition or a
    constraint, one more dimension may change to compensate.
    """
    return next(breakings(workload, mfs, condition, space), None)


def breakings(workload: Workload, mfs: Mfs, condition: Condition, space: Space) -> Iterator[Workload]:
    """Yield every such workload, the preferred one first."""
    others = [other for other in mfs.conditions if other != condition]
    breaking = [w for w in _candidates(workload, condition, space) if not condition.holds(w)]
    for candidate in chain(breaking, _helped(breaking, workload, condition, space)):
        if (
            not condition.holds(candidate)
            and all(other.holds(candidate) for other in others)
            and space.allows(candidate)
            and space.has_sizes(candidate)
        ):
            yield candidate


def _candidates(workload: Workload, condition: Condition, space: Space) -> list[Workload]:
    name = condition.dimension
    if name in FIELD_NAMES and name != "messages":
        varied = [workload.with_(**{name: value}) for value in _values(space, name)]
        plain = space.base.get(name)
        return sorted(varied, key=lambda w: (w.get(name) != plain, -_distance(w, condition)))
    if name in SOURCES and name not in SIZES:
        varied = [workload.with_(**{source: v}) for source in SOURCES[name] for v in _values(space, source)]
        if "messages" in SOURCES[name]:
            varied += _messages_of_one_size(workload, space)
    else:
        varied = list(_other_segments(workload, space))
    return sorted(varied, key=lambda w: (-_distance(w, condition), _changes(w, workload)))


def _helped(breaking: Iterable[Workload], workload: Workload, condition: Condition, space: Space) -> Iterator[Workload]:
    """Yield the best workload of each feature value with one more dimension changed."""
    best: dict[Any, Workload] = {}
    for candidate in breaking:
        best.setdefault(feature_value(candidate, condition.dimension), candidate)
    for candidate in best.values():
        for name in space.dimensions:
            if candidate.get(name) == workload.get(name):
                yield from (candidate.with_(**{name: value}) for value in _values(space, name))


def _distance(workload: Workload, condition: Condition) -> float:
    """Return the doublings between a feature and the threshold, or 0 without an order."""
    actual, threshold = feature_value(workload, condition.dimension), condition.value
    if not isinstance(actual, int) or not isinstance(threshold, int):
        return 0.0
    return abs(math.log2((actual + 1) / (threshold + 1)))  # some dimensions begin at 0


def _changes(workload: Workload, other: Workload) -> int:
    return sum(workload.get(name) != other.get(name) for name in FIELD_NAMES)


def _values(space: Space, name: str) -> tuple[Any, ...]:
    dimension = space.dimensions.get(name)
    return dimension.candidates() if isinstance(dimension, Choice | Ordered) else ()


def _messages_of_one_size(workload: Workload, space: Space) -> Iterator[Workload]:
    dimension = space.dimensions.get("messages")
    for size in dimension.element.ladder if isinstance(dimension, Vector) else ():
        yield _with_room(workload.with_(messages=(size,)), space)


def _other_segments(workload: Workload, space: Space) -> Iterator[Workload]:
    splits = _values(space, "sge_split") or (workload.sge_split,)
    for messages in _other_messages(workload, space):
        roomy = _with_room(workload.with_(messages=messages), space)
        for split in splits:
            yield roomy.with_(sge_split=split)
    for count in _values(space, "sge_count"):
        for split in splits:
            yield workload.with_(sge_count=count, sge_split=split)


def _other_messages(workload: Workload, space: Space) -> Iterator[tuple[int, ...]]:
    """Yield lists of messages: one size, the present list with either end moved, and pairs of two sizes.

    Sizes come from the ladder, the present messages, and the even splits that give entries on the ladder.
    """
    dimension = space.dimensions.get("messages")
    if not isinstance(dimension, Vector):
        yield workload.messages
        return
    element, present = dimension.element, workload.messages
    multiples = (size * workload.sge_count for size in element.ladder)
    sizes = sorted({*element.ladder, *present, *(size for size in multiples if size <= element.high)})
    yield from ((size,) for size in sizes)
    for end in sorted({min(present), max(present)}):
        for size in sizes:
            yield tuple(size if message == end else message for message in present)
    if dimension.max_length > 1:
        yield from combinations(sizes, 2)


def _with_room(workload: Workload, space: Space) -> Workload:
    longest = max(workload.messages)
    if longest <= workload.mr_bytes:
        return workload
    return workload.with_(
        mr_bytes=next((size for size in _values(space, "mr_bytes") if size >= longest), workload.mr_bytes)
    )
