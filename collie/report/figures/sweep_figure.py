"""A sweep as a figure for a document 16 cm wide: a curve for each value of y, or a map if there are many."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from collie.app.sweeps import SweepRecord, Swept
from collie.campaign.sweep import MOST_CURVES, Point, Sweep
from collie.errors import UsageError
from collie.files import FOR_OTHERS, open_output
from collie.report.figures.severity_map import ticks
from collie.report.quantities import show
from collie.workloads.units import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH_INCHES, _HEIGHT_INCHES = 6.3, 3.9
_DPI: Final = 200
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999900", "#000000")
"""The palette of Okabe and Ito, safe for colour-blind readers."""
_GREY: Final = "#666666"
_STYLE: Final[dict[Any, Any]] = {
    "font.size": 8,
    "font.family": "DejaVu Sans",
    "svg.fonttype": "none",
    "svg.hashsalt": "sweep",  # the same sweep gives the same bytes
    "axes.unicode_minus": False,
}


def draw_sweep(swept: Swept, path: Path, against: SweepRecord | None = None) -> None:
    """Draw a sweep into an .svg or .png file, with another one dashed behind it.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        with os.fdopen(open_output(path, FOR_OTHERS), "wb") as file:
            save_sweep(swept, file, path.suffix.lower().removeprefix("."), against)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None


def save_sweep(swept: Swept, file: BinaryIO, kind: str, against: SweepRecord | None = None) -> None:
    """Write the figure, of the kind `svg` or `png`."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        figure = _figure(swept, against)
        figure.savefig(file, format=kind, dpi=_DPI, metadata={"Date": None} if kind == "svg" else None)


def _figure(swept: Swept, against: SweepRecord | None) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = swept.sweep
    figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    if found.y is not None and len(found.y.values) > MOST_CURVES and found.y.ordered:
        _map(figure, axes, found)
        against = None  # a map has no room for another one
    else:
        _curves(figure, axes, found, against)
    major, minor = ticks(found.x)
    axes.xaxis.set_ticks([place for place, _ in major], labels=[label for _, label in major])
    axes.xaxis.set_ticks(minor, minor=True)
    axes.set_xlabel(found.x.dimension, fontweight="bold")
    title = f"{found.traffic} on {swept.testbed}"
    if against is not None:
        title += f", dashed: {against.testbed} ({against.path.name})"
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold", parse_math=False)
    return figure


def _curves(figure: Figure, axes: Axes, found: Sweep, against: SweepRecord | None) -> None:
    from matplotlib.lines import Line2D

    entries: list[Line2D] = []
    for number, (value, points) in enumerate(found.curves()):
        colour = _COLOURS[number % len(_COLOURS)]
        _line(axes, found, points, {"color": colour, "linewidth": 1.6, "marker": "o", "markersize": 3})
        bounds = [(found.x.place(each.x), each.healthy_bps / 1e9) for each in points if each.healthy_bps]
        if found.y is None and bounds:
            axes.plot(*zip(*bounds, strict=True), color="#888888", linewidth=1.0, linestyle=":")
        anomalous = [each for each in points if each.is_anomalous and each.delivered_bps is not None]
        places = [found.x.place(each.x) for each in anomalous]
        axes.plot(
            places,
            [(each.delivered_bps or 0.0) / 1e9 for each in anomalous],
            color="#c00000",
            marker="x",
            linestyle="none",
            markersize=6,
            zorder=4,
        )
        if found.y is not None:
            label = f"{found.y.dimension} {show(found.y.dimension, value)}"
            entries.append(Line2D([], [], color=colour, marker="o", markersize=3, label=label))
    for number, cliff in enumerate(found.cliffs()):
        span = found.x.place(cliff.before.x), found.x.place(cliff.after.x)
        axes.axvspan(*span, color="#c00000", alpha=0.12, linewidth=0, label=None if number else "cliff")
    if against is not None:
        _overlay(axes, found, against)
        entries.append(Line2D([], [], color=_GREY, linestyle="--", label=against.path.name))
    entries.append(Line2D([], [], color="#c00000", marker="x", linestyle="none", label="anomalous"))
    if found.y is None:
        entries.append(Line2D([], [], color="#888888", linestyle=":", label="as fast as its plain sibling"))
    axes.set_ylabel("delivered to all hosts, Gbit/s")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, linewidth=0.3)
    figure.legend(handles=entries, loc="outside lower center", ncols=min(4, len(entries)), frameon=False, fontsize=7.5)


def _overlay(axes: Axes, found: Sweep, against: SweepRecord) -> None:
    own = [show(found.y.dimension, value) for value, _ in found.curves()] if found.y is not None else []
    for row in dict.fromkeys(point.y for point in against.points):
        points = [each for each in against.points if each.y == row and _is_on(found, each)]
        name = show(found.y.dimension, row) if found.y is not None else ""
        colour = _COLOURS[own.index(name) % len(_COLOURS)] if name in own else _GREY
        _line(axes, found, points, {"color": colour, "linewidth": 1.0, "linestyle": "--"})


def _is_on(found: Sweep, point: Point) -> bool:
    return isinstance(point.x, int) and point.x > 0 if found.x.logarithmic else point.x in found.x.values


def _line(axes: Axes, found: Sweep, points: Sequence[Point], style: dict[str, Any]) -> None:
    known = [(found.x.place(each.x), each.delivered_bps / 1e9) for each in points if each.delivered_bps is not None]
    if known:
        axes.plot(*zip(*known, strict=True), **style)


def _map(figure: Figure, axes: Axes, found: Sweep) -> None:
    import numpy as np

    assert found.y is not None, "a map has two axes"
    share = {
        (point.x, point.y): 1.0 if not point.is_anomalous else 1.0 - point.severity
        for point in found.points
        if point.delivered_bps is not None
    }
    values = np.array([[share.get((x, y), np.nan) for x in found.x.values] for y in found.y.values])
    mesh = axes.pcolormesh(
        found.x.edges(), found.y.edges(), np.ma.masked_invalid(values), cmap="magma", vmin=0, vmax=1, rasterized=True
    )
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, fraction=0.045)
    bar.set_label("1 - severity")
    bar.ax.yaxis.set_major_formatter(lambda value, _: format_number(value, ".0%"))
    major, minor = ticks(found.y)
    axes.yaxis.set_ticks([place for place, _ in major], labels=[label for _, label in major])
    axes.yaxis.set_ticks(minor, minor=True)
    axes.set_ylabel(found.y.dimension, fontweight="bold")
