"""Ground truth over two dimensions: a severity map.

Only `wiring` and tests can import this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collie.app.severity_map import MapBase, SeverityMap
from collie.errors import UsageError
from collie.simulator.capabilities import unsupported_reason
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.workloads.space import Space
from collie.workloads.sweep import Headroom, whole_axis
from collie.workloads.workload import Workload

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
    x, y = (whole_axis(space, name, base.workload, _BETWEEN_STEPS) for name in names)
    if x.dimension == y.dimension:
        raise UsageError(f"both axes are {x.dimension}; give two different dimensions")
    if not y.ordered:
        raise UsageError(f"--y {y.dimension} has no order; only --x may be a dimension of choices")
    fields = {x.field, y.field}
    if fixed := sorted(fields.intersection(base.fixed)):
        raise UsageError(f"{fixed[0]} is fixed and an axis of the map; give one of them")
    headroom = Headroom(space, fields.union(base.fixed))
    hardware = subsystem.hardware
    points: dict[tuple[int, int], Workload] = {}
    refused = ""
    for row, y_value in enumerate(y.values):
        for column, x_value in enumerate(x.values):
            point = headroom.make(base.workload.with_(**y.put(y_value), **x.put(x_value)))
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
