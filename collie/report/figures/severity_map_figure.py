"""A severity map as a figure for a document 16 cm wide. The scale is always 0 to 1, so that maps are comparable."""

from __future__ import annotations

import math
import os
import re
import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from collie.app.severity_map import SeverityMap
from collie.errors import UsageError
from collie.files import FOR_OTHERS, open_output
from collie.report.figures.severity_map import Cell, Region, fixed_text, regions, ticks, title
from collie.report.quantities import percent
from collie.workloads.units import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES: Final = (".svg", ".png")

_WIDTH_INCHES, _HEIGHT_INCHES = 6.3, 4.6
_DPI: Final = 200
_COLOURS: Final = "magma_r"  # perceptually uniform, and safe for colour-blind readers
_NORMAL: Final = "#eef0f2"
_FAINTEST: Final = 0.06  # so that the smallest anomaly is visible
_ZERO: Final = 1e-9
_MIN_SHARE: Final = 0.004
"""Share of all cells. A smaller region is named only if no other region has its mechanism."""

_LINE_CHARACTERS: Final = 84
_LABEL: Final[dict[str, Any]] = {
    "ha": "center",
    "va": "center",
    "fontsize": 7.5,
    "linespacing": 0.95,
    "parse_math": False,
    "zorder": 6,
    "bbox": {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "#777777", "linewidth": 0.5, "alpha": 0.9},
}

Pixels = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, lower, right, upper."""


def draw_map(drawn: SeverityMap, path: Path) -> None:
    """Draw a map into an .svg or .png file. Raises `UsageError` if it cannot be written."""
    kind = path.suffix.lower().removeprefix(".")
    import matplotlib

    style: dict[Any, Any] = {
        "font.size": 8,
        "font.family": "DejaVu Sans",
        "svg.fonttype": "none",
        "svg.hashsalt": "map",  # the same map gives the same bytes
        "axes.unicode_minus": False,
        "hatch.linewidth": 0.5,
    }
    with matplotlib.rc_context(style):
        figure = _figure(drawn)
        try:
            with os.fdopen(open_output(path, FOR_OTHERS), "wb") as file:
                figure.savefig(file, format=kind, dpi=_DPI, metadata={"Date": None} if kind == "svg" else None)
        except OSError as error:
            raise UsageError(f"--output {path} cannot be written: {(error.strerror or str(error)).lower()}") from None


def check_suffix(path: Path) -> None:
    """Raise `UsageError` for a name that ends in neither .svg nor .png."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--output {path} should end in {' or '.join(SUFFIXES)}")


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
    figure.draw_without_rendering()  # fixes the layout before the labels are placed
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
    # Rasterised: thousands of vector cells would show seams and make a large file. The text stays text.
    mesh = axes.pcolormesh(
        drawn.x.edges(), drawn.y.edges(), np.ma.masked_invalid(values), cmap=shades, vmin=_ZERO, vmax=1, rasterized=True
    )
    if np.isnan(values).any():
        from matplotlib.patches import Rectangle

        # The hatching lies behind the cells, so that it is visible only where there are no cells.
        axes.add_patch(
            Rectangle((0, 0), 1, 1, transform=axes.transAxes, fill=False, hatch="////", edgecolor="#bbbbbb", zorder=0)
        )
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, fraction=0.045)
    bar.set_label("severity: pause, or missing throughput")
    bar.ax.yaxis.set_major_formatter(lambda value, _: format_number(value, ".0%"))
    bar.set_ticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    bar.outline.set_linewidth(0.5)


def _borders(axes: Axes, drawn: SeverityMap, kinds: Sequence[Sequence[str | None]]) -> None:
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
        displayed = "" if severity is None else ", normal" if severity == 0 else f", severity {percent(severity)}"
        entries.append(Line2D([], [], **star, label=f"base workload{displayed}"))
    figure.legend(handles=entries, loc="outside lower center", ncols=len(entries), frameon=False, fontsize=7.5)


def _labels(axes: Axes, drawn: SeverityMap, kinds: Sequence[Sequence[str | None]]) -> None:
    found = regions(kinds)
    if not found:
        axes.text(0.5, 0.4, "nothing is anomalous here", transform=axes.transAxes, ha="center", va="center")
        return
    least = _MIN_SHARE * len(kinds) * len(kinds[0])
    named: set[str] = set()
    labels = _Labels(axes, drawn, kinds)
    for region in found:
        if region.mechanism not in named or len(region.cells) >= least:
            named.add(region.mechanism)
            labels.put(region)


class _Labels:
    """Writes names inside regions or beside them, without overlap. Units are pixels of the finished layout."""

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
        """Write a name if there is room."""
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
        margin = 7 * self._point  # for the frame, and for letters at another resolution
        return float(extent.width) + margin, float(extent.height) + margin

    def _write(self, name: str, at: Pixels) -> None:
        x, y = self._axes.transData.inverted().transform(at).tolist()
        self._axes.text(x, y, name, **_LABEL)
        self._taken.append(_box(at, *self._size(name)))

    def _centre(self, cell: Cell) -> Pixels:
        row, column = cell
        x, y = self._columns[column : column + 2], self._rows[row : row + 2]
        return sum(x) / 2, sum(y) / 2

    def _pixels(self, x: float, y: float) -> Pixels:
        right, up = self._axes.transData.transform((x, y)).tolist()
        return right, up


def _box(centre: Pixels, width: float, height: float) -> Box:
    x, y = centre
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _lines(text: str) -> list[str]:
    """Break a list of values into lines, but never inside an item such as `mtu 1024`."""
    words = re.sub(
        r"(?<![,:;]) (?!and |raised |where |needed|single |value |of |the |axis)", "\N{NO-BREAK SPACE}", text
    )
    return textwrap.wrap(words, _LINE_CHARACTERS, break_long_words=False, break_on_hyphens=False)
