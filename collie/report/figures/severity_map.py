"""A map of severity over two dimensions: axes, cells and texts."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from collie.app.severity_map import SeverityMap
from collie.report.quantities import show
from collie.workloads.sweep import Axis
from collie.workloads.units import format_exact_bytes
from collie.workloads.workload import FIELD_NAMES

_MAX_TICKS: Final = 9

Cell = tuple[int, int]
"""Row, column."""


@dataclass(frozen=True, slots=True)
class Region:
    """Connected cells with one mechanism. Cells farthest from the region's border come first."""

    mechanism: str
    cells: tuple[Cell, ...]


def regions(kinds: Sequence[Sequence[str | None]]) -> list[Region]:
    """Return the anomalous regions of a map, largest first."""
    found = []
    seen: set[Cell] = set()
    for row, line in enumerate(kinds):
        for column, kind in enumerate(line):
            if kind and (row, column) not in seen:
                cells = _connected(kinds, (row, column))
                seen |= cells
                found.append(Region(kind, tuple(_innermost_first(cells))))
    return sorted(found, key=lambda region: (-len(region.cells), region.cells[0]))


def title(drawn: SeverityMap) -> str:
    """Return the subsystem and the axes in words."""
    changed = "".join(f", {name} {value}" for name, value in drawn.settings.items())
    return f"{drawn.subsystem}{changed}: severity over {drawn.x.dimension} and {drawn.y.dimension}"


def fixed_text(drawn: SeverityMap) -> str:
    """Return in words the dimensions that are no axis and are fixed or not plain."""
    axes = {axis.field for axis in (drawn.x, drawn.y)}
    parts = [
        f"{name} {value_text(name, drawn.base.get(name))}"
        for name in FIELD_NAMES
        if name not in axes and (name in drawn.fixed or drawn.base.get(name) != drawn.plain.get(name))
    ]
    followed = f"; {' and '.join(drawn.followed)} raised where needed" if drawn.followed else ""
    missing = [axis.dimension for axis in (drawn.x, drawn.y) if axis.position is None]
    off = f"; its own {' and '.join(missing)} is no single value of the axis" if missing else ""
    return f"{drawn.base_name}: {', '.join([*parts, 'all else plain'])}{followed}{off}"


def value_text(name: str, value: Any) -> str:
    """Format a value as input for `--fix`, with exact sizes."""
    if isinstance(value, tuple):
        return ",".join(format_exact_bytes(item) if isinstance(item, int) else str(item) for item in value)
    return format_exact_bytes(value) if name.endswith("_bytes") else show(name, value)


def tick_text(axis: Axis, value: Any) -> str:
    """Write one value of an axis."""
    if isinstance(value, int) and not isinstance(value, bool) and not axis.dimension.endswith("_bytes"):
        return f"{value:,d}" if value >= 10_000 else str(value)
    return show(axis.dimension, value)


def ticks(axis: Axis) -> tuple[list[tuple[float, str]], list[float]]:
    """Return labelled ticks as (place, label), and the places of all ticks of a logarithmic axis."""
    every = -(-len(axis.values) // _MAX_TICKS)
    of_values = [(axis.place(value), tick_text(axis, value)) for value in axis.values[::every]]
    if not axis.logarithmic:
        return of_values, []
    low, high = axis.values[0], axis.values[-1]
    if _is_power_of_two(low) and _is_power_of_two(high):
        powers = [1 << exponent for exponent in range(low.bit_length() - 1, high.bit_length())]
        every = -(-len(powers) // _MAX_TICKS)
        return [(math.log2(value), tick_text(axis, value)) for value in powers[::every]], [math.log2(v) for v in powers]
    decades = [10**exponent for exponent in range(len(str(low)) - 1, len(str(high)))]
    steps = [digit * decade for decade in decades for digit in range(1, 10) if low <= digit * decade <= high]
    labelled = [step for step in steps if str(step)[0] in ("1" if high > 100 * low else "125")]
    of_steps = [(math.log2(value), tick_text(axis, value)) for value in labelled]
    return of_steps if len(of_steps) > 1 else of_values, [math.log2(step) for step in steps]


def _is_power_of_two(value: int) -> bool:
    return value & (value - 1) == 0


def _connected(kinds: Sequence[Sequence[str | None]], start: Cell) -> set[Cell]:
    kind = kinds[start[0]][start[1]]
    found, edge = {start}, [start]
    while edge:
        for row, column in _sides(edge.pop()):
            inside = 0 <= row < len(kinds) and 0 <= column < len(kinds[0])
            if inside and (row, column) not in found and kinds[row][column] == kind:
                found.add((row, column))
                edge.append((row, column))
    return found


def _innermost_first(cells: set[Cell]) -> list[Cell]:
    """Order cells by steps to the border, most steps first, then by distance from the centre, nearest first."""
    depth = {cell: 0 for cell in cells if any(other not in cells for other in _around(cell))}
    waiting = deque(sorted(depth))
    while waiting:
        cell = waiting.popleft()
        for other in _around(cell):
            if other in cells and other not in depth:
                depth[other] = depth[cell] + 1
                waiting.append(other)
    deepest = [cell for cell, steps in depth.items() if steps == max(depth.values())]
    middle = [sum(cell[part] for cell in deepest) / len(deepest) for part in (0, 1)]
    return sorted(depth, key=lambda cell: (-depth[cell], abs(cell[0] - middle[0]) + abs(cell[1] - middle[1]), cell))


def _sides(cell: Cell) -> Iterable[Cell]:
    row, column = cell
    return (row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)


def _around(cell: Cell) -> Iterable[Cell]:
    row, column = cell
    return (*_sides(cell), (row - 1, column - 1), (row - 1, column + 1), (row + 1, column - 1), (row + 1, column + 1))
