"""Breaking one condition of a minimal feature set and keeping all others: the control of a reproduction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import DERIVED, Condition, Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_FACTORS = {"total_mrs": "mrs_per_qp", "total_recv_wqes": "recv_wq_depth", "total_send_wqes": "send_wq_depth"}
"""The dimension that is changed to break a condition on a product."""


def broken(workload: Workload, mfs: Mfs, condition: Condition, space: Space) -> Workload | None:
    """Return the workload with one condition broken and all others kept.

    The plain value is preferred, then the value furthest from the present one: a control should stand well clear of
    the threshold.

    Args:
        workload: satisfies `mfs`.
        mfs: all conditions.
        condition: the one to break.
        space: gives values and constraints.

    Returns:
        None when no value of the space breaks this condition alone.
    """
    others = [other for other in mfs.conditions if other is not condition]
    for candidate in _candidates(workload, condition, space):
        if condition.holds(candidate) or not space.allows(candidate):
            continue
        if all(other.holds(candidate) for other in others):
            return candidate
    return None


def _candidates(workload: Workload, condition: Condition, space: Space) -> Iterator[Workload]:
    name = _FACTORS.get(condition.dimension, condition.dimension)
    if name in DERIVED:
        yield from _other_messages(workload, space)
        yield from (
            workload.with_(**{d: v}) for d in ("sge_split", "sge_count", "qps") for v in _values(space, d, workload)
        )
        return
    for value in _values(space, name, workload):
        yield workload.with_(**{name: value})


def _values(space: Space, name: str, workload: Workload) -> list[Any]:
    match space.dimensions.get(name):
        case Choice() as dimension:
            return [dimension.plain, *dimension.values]
        case Ordered() as dimension:
            present = workload.get(name)
            return [
                dimension.plain,
                *sorted(dimension.ladder, key=lambda value: -abs(_steps(dimension, value, present))),
            ]
        case _:
            return []


def _steps(dimension: Ordered, value: int, present: int) -> int:
    return sum(1 for step in dimension.ladder if step < value) - sum(1 for step in dimension.ladder if step < present)


def _other_messages(workload: Workload, space: Space) -> Iterator[Workload]:
    dimension = space.dimensions.get("messages")
    if not isinstance(dimension, Vector):
        return
    sizes = workload.messages
    small, large = min(sizes), max(sizes)
    # Uniform messages first (they break a mix), then either end moved away.
    uniform: list[tuple[int, ...]] = [dimension.plain, (small,), (large,)]
    moved = [
        tuple(value if size == end else size for size in sizes)
        for end in (small, large)
        for value in (dimension.element.ladder[0], dimension.element.ladder[-1], *dimension.element.ladder)
    ]
    for messages in uniform + moved:
        yield workload.with_(messages=messages, mr_bytes=max(workload.mr_bytes, *messages))
