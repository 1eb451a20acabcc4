"""Ground truth over many workloads: a severity map, and a check of a file's claims.

Only `wiring` and tests can import this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collie.errors import UsageError
from collie.simulator.capabilities import unsupported_reason
from collie.simulator.description import Audit, CureCheck, WitnessCheck
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile, Witness
from collie.simulator.truth import Truth
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.space import Space
from collie.workloads.workload import Workload

MESSAGE_BYTES: Final = "message_bytes"
"""Axis with one size for all messages of a workload."""

_BETWEEN_STEPS: Final = 3
"""Points between two ladder steps. 24 steps give less than 100 per axis: 10,000 points in some seconds."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a map.

    Attributes:
        name: the dimension, or `message_bytes` for the size of all messages.
        field: of the workload.
        values: ascending when ordered, else simplest first.
        position: the base workload's value, or None off the axis.
    """

    name: str
    field: str
    values: tuple[Any, ...]
    ordered: bool
    position: Any

    def put(self, value: Any) -> dict[str, Any]:
        """Return the change that moves a workload to a value."""
        return {self.field: (value,) if self.name == MESSAGE_BYTES else value}


@dataclass(frozen=True, slots=True)
class Survey:
    """Severity over two dimensions.

    Attributes:
        base: the workload of every point but for these two dimensions.
        severity: by y, then x. 0 is normal, NaN cannot run.
        mechanisms: likewise; None where no mechanism is credited.
        followed: other dimensions that changed at some points to fit the axes.
    """

    base: Workload
    x: Axis
    y: Axis
    severity: NDArray[np.float64]
    mechanisms: tuple[tuple[Mechanism | None, ...], ...]
    followed: tuple[str, ...]


def axis_of(space: Space, name: str, base: Workload) -> Axis:
    """Return the values of one axis: the dimension's steps, points between them, and the base value.

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
        return Axis(field, field, dimension.values, False, value if value in dimension.values else None)
    if isinstance(dimension, Vector):
        name, ordered = MESSAGE_BYTES, dimension.element
        value = value[0] if len(set(value)) == 1 else None
    else:
        name, ordered = field, dimension
    if value is not None and ordered.complaint(value):
        value = None
    steps = {*_refined(ordered), *([] if value is None else [value])}
    return Axis(name, field, tuple(sorted(steps)), True, value)


def survey(subsystem: SubsystemFile, space: Space, base: Workload, names: tuple[str, str], held: set[str]) -> Survey:
    """Judge every workload over the dimensions x and y in `names`. Other dimensions are those of `base`.

    A dimension in `held` must not change to fit an axis.

    Raises:
        UsageError: a dimension is unknown, given twice or fixed, y has no order, or no point can run.
    """
    x, y = (axis_of(space, name, base) for name in names)
    if x.field == y.field:
        raise UsageError(f"both axes are {x.name}; give two different dimensions")
    if not y.ordered:
        raise UsageError(f"--y {y.name} has no order; only --x may be a dimension of choices")
    if fixed := sorted(held & {x.field, y.field}):
        raise UsageError(f"{fixed[0]} is fixed and an axis of the map; give one of them")
    headroom = _Headroom(space, held | {x.field, y.field})
    hardware = subsystem.hardware
    points: list[Workload] = []
    places: list[tuple[int, int]] = []
    refused = ""
    for row, y_value in enumerate(y.values):
        for column, x_value in enumerate(x.values):
            point = headroom.make(base.with_(**y.put(y_value), **x.put(x_value)))
            if wrong := next((text for _, text in space.violations(point)), None) or unsupported_reason(
                hardware, point
            ):
                refused = refused or wrong
                continue
            points.append(point)
            places.append((row, column))
    if not points:
        raise UsageError(f"no point of this map could run; the first because {refused}")
    truth = Truth(subsystem, space)
    severity = np.full((len(y.values), len(x.values)), np.nan)
    mechanisms: list[list[Mechanism | None]] = [[None] * len(x.values) for _ in y.values]
    for (row, column), value, mechanism in zip(
        places, truth.severities(points).tolist(), truth.mechanisms(points), strict=True
    ):
        severity[row, column] = value
        mechanisms[row][column] = mechanism
    followed = tuple(name for name in headroom.may_move if any(point.get(name) != base.get(name) for point in points))
    return Survey(base, x, y, severity, tuple(map(tuple, mechanisms)), followed)


def audit(subsystem: SubsystemFile, space: Space) -> Audit:
    """Check every witness and every cure of a subsystem file against ground truth."""
    truth = Truth(subsystem, space)
    witnesses = tuple(_witness(truth, subsystem, space, witness) for witness in subsystem.witnesses)
    return Audit(witnesses, tuple(_cures(subsystem, space)))


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
    """Raises the dimensions that limit an axis: regions as long as the messages, queues as deep as a post."""

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
        """Return a workload with room for its messages and posts, within the space."""
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


def _witness(truth: Truth, subsystem: SubsystemFile, space: Space, witness: Witness) -> WitnessCheck:
    wrong = [text for _, text in space.complaints(witness.trigger)]
    if lack := unsupported_reason(subsystem.hardware, witness.trigger):
        wrong.append(lack)
    if wrong:
        return WitnessCheck(witness.mechanism, None, 0.0, None, f"cannot run: {'; '.join(wrong)}")
    verdict = truth.verdict(witness.trigger)
    credited = truth.mechanism(witness.trigger)
    problem = None
    if not verdict.is_anomalous:
        problem = f"is normal: {verdict.reason}"
    elif credited is not witness.mechanism:
        problem = f"is credited to {credited or 'no mechanism'}: {verdict.reason}"
    return WitnessCheck(witness.mechanism, verdict.symptom, verdict.severity, credited, problem)


def _cures(subsystem: SubsystemFile, space: Space) -> Iterator[CureCheck]:
    triggers = {witness.mechanism: witness.trigger for witness in subsystem.witnesses}
    for name, setting in subsystem.settings.items():
        if not setting.cures:
            continue
        truths = {option: Truth(subsystem.with_settings({name: option}), space) for option in setting.options}
        for mechanism in setting.cures:
            trigger = triggers.get(mechanism)
            if trigger is None:
                yield CureCheck(name, mechanism, (), planted=False, problem=None)
                continue
            options = tuple(option for option, truth in truths.items() if truth.verdict(trigger).is_normal)
            problem = None if options else "its witness stays anomalous with every option"
            yield CureCheck(name, mechanism, options, planted=True, problem=problem)
