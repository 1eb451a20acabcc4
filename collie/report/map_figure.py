"""A map of severity over two dimensions, as a picture of its own for a document 16 cm wide.

Rules that keep it honest: one cell is one workload, never smoothed; the scale of severity is always 0 to 1, so that two
maps compare; what could not run is hatched, not normal; every region is named, or too small to be.
"""

from __future__ import annotations

import math
import re
import textwrap
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from collie.errors import UsageError
from collie.report.quantities import percent, show
from collie.workloads.units import format_bytes
from collie.workloads.workload import FIELD_NAMES, Workload, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES: Final = (".svg", ".png")
UNEXPLAINED: Final = "unexplained"

_WIDTH_INCHES, _HEIGHT_INCHES = 6.3, 4.6
_DPI: Final = 200
_COLOURS: Final = "magma_r"
"""Perceptually uniform, told apart with any colour vision; its pale end costs little ink."""
_NORMAL: Final = "#eef0f2"
_FAINTEST: Final = 0.06
"""Where in these colours severity begins: the least anomaly should not look normal."""
_ZERO: Final = 1e-9
"""Severities below are those of normal workloads: exactly 0."""
_LEAST_SHARE: Final = 0.004
"""Of all cells, from which on a region is named although its mechanism has a larger one."""
_MOST_TICKS: Final = 9

_LINE_CHARACTERS: Final = 84
"""Of small print, between the left end of the axes and the edge of the picture."""
_LABEL: Final[dict[str, Any]] = {
    "ha": "center",
    "va": "center",
    "fontsize": 7.5,
    "linespacing": 0.95,
    "parse_math": False,
    "zorder": 6,
    "bbox": {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "#777777", "linewidth": 0.5, "alpha": 0.9},
}

Cell = tuple[int, int]
"""Row, column."""
Pixels = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, lower, right, upper."""


@dataclass(frozen=True, slots=True)
class MapAxis:
    """One axis.

    Attributes:
        dimension: its name; `message_bytes` for the size of all messages.
        values: ascending when ordered.
        ordered: whether the values are numbers in order.
        position: the base workload's own value, or None when it has none here.
    """

    dimension: str
    values: tuple[Any, ...]
    ordered: bool
    position: Any

    @property
    def logarithmic(self) -> bool:
        """Whether positions are logarithms; else each value has the same room."""
        return self.ordered and self.values[0] > 0

    def place(self, value: Any) -> float:
        """Return where a value lies along the axis."""
        return math.log2(value) if self.logarithmic else float(self.values.index(value))

    def places(self) -> list[float]:
        """Return where all values lie."""
        return [self.place(value) for value in self.values]

    def edges(self) -> list[float]:
        """Return the limits between the cells of neighbouring values, and both ends."""
        centres = self.places()
        if len(centres) == 1:
            return [centres[0] - 0.5, centres[0] + 0.5]
        middles = [(low + high) / 2 for low, high in pairwise(centres)]
        return [2 * centres[0] - middles[0], *middles, 2 * centres[-1] - middles[-1]]

    def text(self, value: Any) -> str:
        """Write one value."""
        if isinstance(value, int) and not isinstance(value, bool) and not self.dimension.endswith("_bytes"):
            return f"{value:,d}" if value >= 10_000 else str(value)
        return show(self.dimension, value)


@dataclass(frozen=True, slots=True)
class SeverityMap:
    """Severity over two dimensions, and what everything else is.

    Attributes:
        subsystem, settings: what was judged; `settings` are those that differ from the file.
        space: gives the dimensions.
        base, base_name: what every point differs from in the two dimensions.
        fixed: dimensions that the user fixed.
        base_severity: of the base workload itself; None when it cannot run.
        plain: the space's plain workload.
        severity: by y, then x: 0 is normal, None no workload that could run.
        mechanisms: likewise; None where nothing is credited.
        followed: other dimensions that made room for the axes at some points.
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
        """The name of its file unless the user gives one."""
        words = (self.subsystem, self.x.dimension, self.y.dimension)
        return f"map-{'-'.join(re.sub(r'[^A-Za-z0-9_.-]+', '_', word) for word in words)}.svg"

    def kinds(self) -> list[list[str | None]]:
        """Return what each cell shows: a mechanism's name, an empty text where normal, None where nothing can run."""
        return [
            [
                None if value is None else (name or UNEXPLAINED) if value > 0 else ""
                for value, name in zip(*row, strict=True)
            ]
            for row in zip(self.severity, self.mechanisms, strict=True)
        ]

    def counts(self) -> dict[str, int]:
        """Return how many points each mechanism has, most first."""
        names = [kind for row in self.kinds() for kind in row if kind]
        return dict(sorted(((name, names.count(name)) for name in set(names)), key=lambda item: (-item[1], item[0])))

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values; sizes in bytes, severity 0..1."""
        return {
            "schema_version": 1,
            "subsystem": self.subsystem,
            "settings": dict(self.settings),
            "space": self.space,
            "base": {"name": self.base_name, "severity": self.base_severity, "workload": render(self.base)},
            "followed": list(self.followed),
            "x": {"dimension": self.x.dimension, "values": [_plain(value) for value in self.x.values]},
            "y": {"dimension": self.y.dimension, "values": [_plain(value) for value in self.y.values]},
            "severity": [[None if value is None else round(value, 6) for value in row] for row in self.severity],
            "mechanism": [list(row) for row in self.mechanisms],
        }


@dataclass(frozen=True, slots=True)
class Region:
    """Connected cells with one mechanism, those farthest from the border first."""

    mechanism: str
    cells: tuple[Cell, ...]


def regions(kinds: Sequence[Sequence[str | None]]) -> list[Region]:
    """Return the anomalous regions of a map, largest first. Cells are connected over their sides."""
    found = []
    seen: set[Cell] = set()
    for row, line in enumerate(kinds):
        for column, kind in enumerate(line):
            if kind and (row, column) not in seen:
                cells = _connected(kinds, (row, column))
                seen |= cells
                found.append(Region(kind, tuple(_innermost_first(cells))))
    return sorted(found, key=lambda region: (-len(region.cells), region.cells[0]))


def draw_map(drawn: SeverityMap, path: Path) -> Path:
    """Draw a map into a file.

    Raises:
        UsageError: the file's name ends in neither .svg nor .png, or it cannot be written.
    """
    check_suffix(path)
    import matplotlib

    style: dict[Any, Any] = {
        "font.size": 8,
        "font.family": "DejaVu Sans",
        "svg.fonttype": "none",
        "svg.hashsalt": "map",  # one map is one file, byte for byte
        "axes.unicode_minus": False,
        "hatch.linewidth": 0.5,
    }
    with matplotlib.rc_context(style):
        figure = _figure(drawn)
        try:
            figure.savefig(path, dpi=_DPI, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            raise UsageError(f"--output {path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    return path


def check_suffix(path: Path) -> None:
    """Refuse a file that no picture is written to.

    Raises:
        UsageError: its name ends in neither .svg nor .png.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--output {path} should end in {' or '.join(SUFFIXES)}")


def title(drawn: SeverityMap) -> str:
    """Name the subsystem and the axes."""
    changed = "".join(f", {name} {value}" for name, value in drawn.settings.items())
    return f"{drawn.subsystem}{changed}: severity over {drawn.x.dimension} and {drawn.y.dimension}"


def fixed_text(drawn: SeverityMap) -> str:
    """Say what everything else is, as far as it differs from plain."""
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
    """Write the value of a field so that it can be written back: sizes are exact, lists are as `--fix` takes them."""
    if isinstance(value, tuple):
        return ",".join(_exact_bytes(item) for item in value)
    return _exact_bytes(value) if name.endswith("_bytes") else show(name, value)


def _exact_bytes(size: int) -> str:
    return f"{size} B" if size % 1024 else format_bytes(size)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _figure(drawn: SeverityMap) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    kinds = drawn.kinds()
    _cells(figure, axes, drawn)
    _borders(axes, drawn, kinds)
    for axis, dimension in ((axes.xaxis, drawn.x), (axes.yaxis, drawn.y)):
        major, minor = ticks(dimension)
        axis.set_ticks([place for place, _ in major], labels=[label for _, label in major])
        axis.set_ticks(minor, minor=True)
    axes.set_xlabel(drawn.x.dimension, fontweight="bold")
    axes.set_ylabel(drawn.y.dimension, fontweight="bold")
    figure.suptitle(title(drawn), x=0.01, ha="left", fontsize=10, fontweight="bold", parse_math=False)
    fixed = "\n".join(_lines(fixed_text(drawn)))
    axes.set_title(fixed, loc="left", fontsize=7.5, parse_math=False)
    _legend(figure, axes, drawn)
    figure.draw_without_rendering()  # settles the layout, which the labels have to fit into
    figure.set_layout_engine("none")
    _labels(axes, drawn, kinds)
    return figure


def _cells(figure: Figure, axes: Axes, drawn: SeverityMap) -> None:
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    values = np.array([[math.nan if value is None else value for value in row] for row in drawn.severity])
    shades = ListedColormap(colormaps[_COLOURS](np.linspace(_FAINTEST, 1, 256))).with_extremes(under=_NORMAL)
    axes.set_facecolor("white")
    # Rasterised: thousands of vector cells would show seams and make a large file; the text stays text.
    mesh = axes.pcolormesh(
        drawn.x.edges(), drawn.y.edges(), np.ma.masked_invalid(values), cmap=shades, vmin=_ZERO, vmax=1, rasterized=True
    )
    if np.isnan(values).any():
        from matplotlib.patches import Rectangle

        # Behind the cells: it shows where there are none.
        axes.add_patch(
            Rectangle((0, 0), 1, 1, transform=axes.transAxes, fill=False, hatch="////", edgecolor="#bbbbbb", zorder=0)
        )
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, fraction=0.045)
    bar.set_label("severity: pause, or missing throughput")
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    bar.set_ticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    bar.outline.set_linewidth(0.5)


def _borders(axes: Axes, drawn: SeverityMap, kinds: Sequence[Sequence[str | None]]) -> None:
    """Draw where anomalous begins, and where another mechanism does, along the sides of cells."""
    from matplotlib.collections import LineCollection

    begins: list[list[tuple[float, float]]] = []
    changes: list[list[tuple[float, float]]] = []
    x, y = drawn.x.edges(), drawn.y.edges()
    for row, line in enumerate(kinds):
        for column, kind in enumerate(line):
            right = line[column + 1] if column + 1 < len(line) else kind
            above = kinds[row + 1][column] if row + 1 < len(kinds) else kind
            sides = (
                (right, [(x[column + 1], y[row]), (x[column + 1], y[row + 1])]),
                (above, [(x[column], y[row + 1]), (x[column + 1], y[row + 1])]),
            )
            for other, side in sides:
                if kind is not None and other is not None and kind != other:
                    (changes if kind and other else begins).append(side)
    axes.add_collection(LineCollection(changes, colors="white", linewidths=1.0, linestyles=(0, (2, 1))))
    axes.add_collection(LineCollection(begins, colors="black", linewidths=1.2, capstyle="projecting"))


def _legend(figure: Figure, axes: Axes, drawn: SeverityMap) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Line2D | Patch] = [Line2D([], [], color="black", linewidth=1.2, label="anomalous begins")]
    entries.append(Patch(facecolor=_NORMAL, edgecolor="#bbbbbb", label="normal"))
    if any(value is None for row in drawn.severity for value in row):
        entries.append(Patch(facecolor="white", edgecolor="#bbbbbb", hatch="////", label="no valid workload"))
    if drawn.x.position is not None and drawn.y.position is not None:
        star: dict[str, Any] = {
            "marker": "*", "markersize": 11, "color": "white", "markeredgecolor": "black", "linestyle": "none",
        }  # fmt: skip
        at = [drawn.x.place(drawn.x.position)], [drawn.y.place(drawn.y.position)]
        axes.plot(*at, **star, zorder=5, clip_on=False)
        severity = drawn.base_severity
        shown = "" if severity is None else ", normal" if severity == 0 else f", severity {percent(severity)}"
        entries.append(Line2D([], [], **star, label=f"base workload{shown}"))
    figure.legend(handles=entries, loc="outside lower center", ncols=len(entries), frameon=False, fontsize=7.5)


def _labels(axes: Axes, drawn: SeverityMap, kinds: Sequence[Sequence[str | None]]) -> None:
    """Name each region inside itself where its name fits, else beside it with a line."""
    found = regions(kinds)
    if not found:
        axes.text(0.5, 0.4, "nothing is anomalous here", transform=axes.transAxes, ha="center", va="center")
        return
    least = _LEAST_SHARE * len(kinds) * len(kinds[0])
    named: set[str] = set()
    labels = _Labels(axes, drawn, kinds)
    for region in found:
        if region.mechanism not in named or len(region.cells) >= least:
            named.add(region.mechanism)
            labels.put(region)


class _Labels:
    """Places names on a map so that none covers another, the base workload's star or, if it can be, the wrong region.

    Everything is in pixels of the finished layout.
    """

    def __init__(self, axes: Axes, drawn: SeverityMap, kinds: Sequence[Sequence[str | None]]) -> None:
        self._axes, self._drawn, self._kinds = axes, drawn, kinds
        self._point = float(axes.figure.dpi) / 72
        self._columns = [self._pixels(edge, 0)[0] for edge in drawn.x.edges()]
        self._rows = [self._pixels(0, edge)[1] for edge in drawn.y.edges()]
        self._taken: list[Box] = []
        if drawn.x.position is not None and drawn.y.position is not None:
            star = self._pixels(drawn.x.place(drawn.x.position), drawn.y.place(drawn.y.position))
            self._taken.append(_box(star, 14 * self._point, 14 * self._point))

    def put(self, region: Region) -> None:
        """Write the name of a region; leave it out where there is no room at all."""
        words = region.mechanism.split("_")
        half = min(
            range(1, len(words)), key=lambda cut: abs(len("_".join(words[:cut])) * 2 - len(region.mechanism)), default=0
        )
        broken = f"{'_'.join(words[:half])}_\n{'_'.join(words[half:])}" if half else region.mechanism
        for name in dict.fromkeys((region.mechanism, broken)):
            if at := self._within(region, *self._size(name)):
                self._write(name, at)
                return
        if at := self._beside(region, *self._size(broken)):
            self._write(broken, at)
            points = [self._axes.transData.inverted().transform(end) for end in (self._centre(region.cells[0]), at)]
            self._axes.plot(*zip(*points, strict=True), color="black", linewidth=0.7, zorder=5)

    def _within(self, region: Region, width: float, height: float) -> Pixels | None:
        inside = set(region.cells)
        for cell in region.cells:
            box = _box(self._centre(cell), width, height)
            if self._free(box) and all(covered in inside for covered in self._covered(box)):
                return self._centre(cell)
        return None

    def _beside(self, region: Region, width: float, height: float) -> Pixels | None:
        x, y = self._centre(region.cells[0])
        offers = [
            (x + right * distance * self._point, y + up * distance * self._point)
            for distance in (22, 30, 40, 55, 75, 100, 130)
            for right, up in ((0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1), (1.6, 0), (-1.6, 0))
        ]
        free = [at for at in offers if self._free(_box(at, width, height))]
        clear = (
            at
            for at in free
            if not any(self._kinds[row][column] for row, column in self._covered(_box(at, width, height)))
        )
        return next(clear, free[0] if free else None)

    def _free(self, box: Box) -> bool:
        inside = self._columns[0] <= box[0] and box[2] <= self._columns[-1]
        inside = inside and self._rows[0] <= box[1] and box[3] <= self._rows[-1]
        return inside and not any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in self._taken
        )

    def _covered(self, box: Box) -> Iterator[Cell]:
        columns = range(bisect_right(self._columns, box[0]) - 1, bisect_left(self._columns, box[2]))
        rows = range(bisect_right(self._rows, box[1]) - 1, bisect_left(self._rows, box[3]))
        yield from product(rows, columns)

    def _size(self, name: str) -> tuple[float, float]:
        text = self._axes.text(0, 0, name, **_LABEL)
        extent = text.get_window_extent()
        text.remove()
        margin = 7 * self._point  # the frame's own, and what another resolution makes of the letters
        return float(extent.width) + margin, float(extent.height) + margin

    def _write(self, name: str, at: Pixels) -> None:
        x, y = self._axes.transData.inverted().transform(at).tolist()
        self._axes.text(x, y, name, **_LABEL)
        self._taken.append(_box(at, *self._size(name)))

    def _centre(self, cell: Cell) -> Pixels:
        row, column = cell
        return (
            (self._columns[column] + self._columns[column + 1]) / 2,
            (self._rows[row] + self._rows[row + 1]) / 2,
        )

    def _pixels(self, x: float, y: float) -> Pixels:
        right, up = self._axes.transData.transform((x, y)).tolist()
        return right, up


def _box(centre: Pixels, width: float, height: float) -> Box:
    x, y = centre
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _lines(text: str) -> list[str]:
    """Break a list of values into lines, never within `mtu 1024`."""
    words = re.sub(
        r"(?<![,:;]) (?!and |raised |where |needed|single |value |of |the |axis)", "\N{NO-BREAK SPACE}", text
    )
    return textwrap.wrap(words, _LINE_CHARACTERS, break_long_words=False, break_on_hyphens=False)


def ticks(axis: MapAxis) -> tuple[list[tuple[float, str]], list[float]]:
    """Return the labelled ticks of an axis as (place, label), and the places of its unlabelled ones."""
    if not axis.logarithmic:
        every = -(-len(axis.values) // _MOST_TICKS)
        return [(axis.place(value), axis.text(value)) for value in axis.values[::every]], []
    low, high = axis.values[0], axis.values[-1]
    if _is_power_of_two(low) and _is_power_of_two(high):
        powers = [1 << exponent for exponent in range(low.bit_length() - 1, high.bit_length())]
        every = -(-len(powers) // _MOST_TICKS)
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
    """Order the cells of a region by their steps to its border, most first; equals by their way to their middle."""
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
