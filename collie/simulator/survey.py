"""Ground truth over two dimensions: a severity map.

Only `wiring` and tests can import this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from collie.app.severity_map import MapAxis, MapBase, SeverityMap
from collie.errors import UsageError
from collie.simulator.capabilities import unsupported_reason
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.space import Space
from collie.workloads.workload import Workload

MESSAGE_BYTES: Final = "message_bytes"
"""Axis with one size for all messages of a workload."""

_BETWEEN_STEPS: Final = 3
"""Points between two steps. 24 steps give fewer than 100 points per axis: 10,000 per map, judged in seconds."""


def survey(
    subsystem: SubsystemFile, settings: Mapping[str, str], space: Space, base: MapBase, names: tuple[str, str]
) -> SeverityMap:
    """Judge, without noise, every workload over the dimensions x and y of `names`.

    `settings` are those that differ from the subsystem's file.

    Raises:
        UsageError: a dimension is unknown, given twice or fixed, y has no order, or no point can run.
    """
    x, y = (_axis(space, name, base.workload) for name in names)
    if x.dimension == y.dimension:
        raise UsageError(f"both axes are {x.dimension}; give two different dimensions")
    if not y.ordered:
        raise UsageError(f"--y {y.dimension} has no order; only --x may be a dimension of choices")
    fields = {_field(x), _field(y)}
    if fixed := sorted(fields.intersection(base.fixed)):
        raise UsageError(f"{fixed[0]} is fixed and an axis of the map; give one of them")
    headroom = _Headroom(space, fields.union(base.fixed))
    hardware = subsystem.hardware
    points: dict[tuple[int, int], Workload] = {}
    refused = ""
    for row, y_value in enumerate(y.values):
        for column, x_value in enumerate(x.values):
            point = headroom.make(base.workload.with_(**_put(y, y_value), **_put(x, x_value)))
            wrong = next((text for _, text in space.violations(point)), None) or unsupported_reason(hardware, point)
            if wrong:
                refused = refused or wrong
            else:
                points[row, column] = point
    if not points:
        raise UsageError(f"no point of this map could run; the first because {refused}")
    truth, runnable = Truth(subsystem, space), list(points.values())
    severities = dict(zip(points, truth.severities(runnable).tolist(), strict=True))
    credited = [mechanism and mechanism.value for mechanism in truth.mechanisms(runnable)]
    mechanisms = dict(zip(points, credited, strict=True))
    cells = [[(row, column) for column in range(len(x.values))] for row in range(len(y.values))]
    return SeverityMap(
        subsystem=subsystem.name,
        settings=settings,
        space=space.name,
        base=base.workload,
        base_name=base.name,
        fixed=base.fixed,
        base_severity=float(truth.severities([base.workload])[0]) if space.allows(base.workload) else None,
        plain=space.base,
        x=x,
        y=y,
        severity=tuple(tuple(map(severities.get, row)) for row in cells),
        mechanisms=tuple(tuple(map(mechanisms.get, row)) for row in cells),
        followed=tuple(
            name for name in headroom.may_move if any(point.get(name) != base.workload.get(name) for point in runnable)
        ),
    )


def _axis(space: Space, name: str, base: Workload) -> MapAxis:
    """Return one axis: the dimension's steps, points between them, and the base value.

    Raises:
        UsageError: the space has no such dimension.
    """
    field = "messages" if name == MESSAGE_BYTES else name
    dimension = space.dimensions.get(field)
    if dimension is None:
        known = ", ".join(MESSAGE_BYTES if other == "messages" else other for other in space.dimensions)
        raise UsageError(f"space {space.name} has no dimension {name!r} for an axis; it has {known}")
    value = base.get(field)
    if isinstance(dimension, Choice):
        return MapAxis(field, dimension.values, False, value if value in dimension.values else None)
    if isinstance(dimension, Vector):
        name, ordered = MESSAGE_BYTES, dimension.element
        value = value[0] if len(set(value)) == 1 else None
    else:
        name, ordered = field, dimension
    if value is not None and ordered.complaint(value):
        value = None
    steps = {*_refined(ordered), *([] if value is None else [value])}
    return MapAxis(name, tuple(sorted(steps)), True, value)


def _field(axis: MapAxis) -> str:
    return "messages" if axis.dimension == MESSAGE_BYTES else axis.dimension


def _put(axis: MapAxis, value: Any) -> dict[str, Any]:
    return {_field(axis): (value,) if axis.dimension == MESSAGE_BYTES else value}


def _refined(ordered: Ordered) -> Iterator[int]:
    yield from ordered.ladder
    if ordered.ladder_only:
        return
    for low, high in pairwise(ordered.ladder):
        for part in range(1, _BETWEEN_STEPS + 1) if low > 0 else ():
            between = low * (high / low) ** (part / (_BETWEEN_STEPS + 1))
            snapped = ordered.low + round((between - ordered.low) / ordered.step) * ordered.step
            if low < snapped < high:
                yield snapped


class _Headroom:
    """Raises dimensions that limit an axis: a memory region must hold a message, and a queue one batch of WQEs."""

    def __init__(self, space: Space, held: set[str]) -> None:
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
    steps = math.ceil((least - ordered.low) / ordered.step)
    return min(ordered.high, ordered.low + max(0, steps) * ordered.step)
