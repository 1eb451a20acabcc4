"""A map of severity over two dimensions: its axes, cells and texts. Pure."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from collie.report.quantities import show
from collie.workloads.units import format_bytes
from collie.workloads.workload import FIELD_NAMES, Workload, render

UNEXPLAINED: Final = "unexplained"
_MAX_TICKS: Final = 9

Cell = tuple[int, int]
"""Row, column."""


@dataclass(frozen=True, slots=True)
class MapAxis:
    """One axis.

    Attributes:
        values: ascending when ordered.
        position: the base workload's value, or None off the axis.
    """

    dimension: str
    values: tuple[Any, ...]
    ordered: bool
    position: Any

    @property
    def logarithmic(self) -> bool:
        """Whether the axis is logarithmic. Otherwise each value has the same width."""
        return self.ordered and self.values[0] > 0

    def place(self, value: Any) -> float:
        """Return the place of a value on the axis."""
        return math.log2(value) if self.logarithmic else float(self.values.index(value))

    def places(self) -> list[float]:
        """Return the places of all values."""
        return [self.place(value) for value in self.values]

    def edges(self) -> list[float]:
        """Return the borders between the cells of neighbouring values, and both ends."""
        centres = self.places()
        if len(centres) == 1:
            return [centres[0] - 0.5, centres[0] + 0.5]
        middles = [(low + high) / 2 for low, high in pairwise(centres)]
        return [2 * centres[0] - middles[0], *middles, 2 * centres[-1] - middles[-1]]

    def text(self, value: Any) -> str:
        """Format one value."""
        if isinstance(value, int) and not isinstance(value, bool) and not self.dimension.endswith("_bytes"):
            return f"{value:,d}" if value >= 10_000 else str(value)
        return show(self.dimension, value)


@dataclass(frozen=True, slots=True)
class SeverityMap:
    """Severity over two dimensions.

    Attributes:
        settings: of the subsystem, where they differ from its file.
        base, base_name: the workload of every point but for the two dimensions.
        fixed: dimensions that the user fixed.
        severity: by y, then x. 0 is normal, None cannot run.
        mechanisms: likewise. None where no mechanism is credited.
        followed: other dimensions that changed at some points to fit the axes.
    """

    subsystem: str
    settings: Mapping[str, str]
    space: str
    base: Workload
    base_name: str
    fixed: tuple[str, ...]
    base_severity: float | None
    plain: Workload
    x: MapAxis
    y: MapAxis
    severity: tuple[tuple[float | None, ...], ...]
    mechanisms: tuple[tuple[str | None, ...], ...]
    followed: tuple[str, ...]

    @property
    def default_name(self) -> str:
        """The default name of its file."""
        words = (self.subsystem, self.x.dimension, self.y.dimension)
        return f"map-{'-'.join(re.sub(r'[^A-Za-z0-9_.-]+', '_', word) for word in words)}.svg"

    def kinds(self) -> list[list[str | None]]:
        """Return each cell's mechanism, an empty text if normal, None if it cannot run."""
        return [
            [
                None if value is None else (name or UNEXPLAINED) if value > 0 else ""
                for value, name in zip(*row, strict=True)
            ]
            for row in zip(self.severity, self.mechanisms, strict=True)
        ]

    def counts(self) -> dict[str, int]:
        """Return the number of points of each mechanism, largest first."""
        names = [kind for row in self.kinds() for kind in row if kind]
        return dict(sorted(((name, names.count(name)) for name in set(names)), key=lambda item: (-item[1], item[0])))

    def as_json(self) -> dict[str, Any]:
        """Return the map as plain values, with sizes in bytes and severity 0..1."""
        return {
            "schema_version": 1,
            "subsystem": self.subsystem,
            "settings": dict(self.settings),
            "space": self.space,
            "base": {"name": self.base_name, "severity": self.base_severity, "workload": render(self.base)},
            "followed": list(self.followed),
            "x": {"dimension": self.x.dimension, "values": [_plain(value) for value in self.x.values]},
            "y": {"dimension": self.y.dimension, "values": [_plain(value) for value in self.y.values]},
            "severity": [[None if value is None else round(value, 6) + 0.0 for value in row] for row in self.severity],
            "mechanism": [list(row) for row in self.mechanisms],
        }


@dataclass(frozen=True, slots=True)
class Region:
    """Connected cells with one mechanism, those farthest from the border first."""

    mechanism: str
    cells: tuple[Cell, ...]


def regions(kinds: Sequence[Sequence[str | None]]) -> list[Region]:
    """Return the anomalous regions of a map, largest first. Their cells share sides."""
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
    """Return the other dimensions in words, where they differ from plain."""
    axes = {"messages" if axis.dimension == "message_bytes" else axis.dimension for axis in (drawn.x, drawn.y)}
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
    """Format a field's value as input for `--fix`, with exact sizes."""
    if isinstance(value, tuple):
        return ",".join(_exact_bytes(item) if isinstance(item, int) else str(item) for item in value)
    return _exact_bytes(value) if name.endswith("_bytes") else show(name, value)


def _exact_bytes(size: int) -> str:
    return f"{size} B" if size % 1024 else format_bytes(size)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def ticks(axis: MapAxis) -> tuple[list[tuple[float, str]], list[float]]:
    """Return labelled ticks as (place, label), and the places of unlabelled ones."""
    if not axis.logarithmic:
        every = -(-len(axis.values) // _MAX_TICKS)
        return [(axis.place(value), axis.text(value)) for value in axis.values[::every]], []
    low, high = axis.values[0], axis.values[-1]
    if _is_power_of_two(low) and _is_power_of_two(high):
        powers = [1 << exponent for exponent in range(low.bit_length() - 1, high.bit_length())]
        every = -(-len(powers) // _MAX_TICKS)
        return [(math.log2(value), axis.text(value)) for value in powers[::every]], [math.log2(v) for v in powers]
    decades = [10**exponent for exponent in range(len(str(low)) - 1, len(str(high)))]
    steps = [digit * decade for decade in decades for digit in range(1, 10) if low <= digit * decade <= high]
    labelled = [step for step in steps if str(step)[0] in ("1" if high > 100 * low else "125")]
    return [(math.log2(value), axis.text(value)) for value in labelled], [math.log2(step) for step in steps]


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
    """Order cells by steps to the region's border, most first, then by distance from their centre."""
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
