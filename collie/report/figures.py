"""Pictures of a campaign as SVG that becomes part of the page: its fonts, its colours, light and dark.

matplotlib draws in marker colours that are then replaced by CSS, so one picture serves a bright screen, a dark one and
paper. It is imported when the first picture is drawn: the import takes longer than the rest of a report.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 8
MOST_POINTS = 2500
"""Per panel: some 100 bytes each, and more than eyes can tell apart."""

_INK, _LINE, _MUTED, _ALARM = "#010203", "#010204", "#010205", "#010206"
_CSS = {_INK: "currentColor", _LINE: "var(--line)", _MUTED: "var(--muted)", _ALARM: "var(--alarm)"}
_WIDTH_INCHES = 9.0


@dataclass(frozen=True, slots=True)
class Found:
    """An anomaly at the moment of its confirmation."""

    id: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Point:
    """One run in a picture of a counter."""

    seconds: float
    value: float
    anomalous: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """The runs for which a strategy drove one counter."""

    counter: str
    points: tuple[Point, ...]


def found_over_time(found: Sequence[Found], end_seconds: float) -> str:
    """Draw how many anomalies were known at each moment, as an inline SVG."""
    from matplotlib.ticker import MaxNLocator

    figure, (axes,) = _figure(1, 2.4)
    scale, unit = _time_unit(end_seconds)
    times = [0.0, *(item.seconds / scale for item in found), end_seconds / scale]
    counts = [*range(len(found) + 1), len(found)]
    axes.step(times, counts, where="post", color=_ALARM, linewidth=2)
    for count, item in enumerate(found, start=1):
        axes.plot([item.seconds / scale], [count], marker="D", markersize=5, color=_ALARM, linestyle="none")
        axes.annotate(
            item.id,
            (item.seconds / scale, count),
            xytext=(6, -5),
            textcoords="offset points",
            ha="left",
            va="top",
            color=_INK,
            parse_math=False,
        )
    axes.set_ylim(0, len(found) + 0.4)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_ylabel("anomalies known")
    _finish_time_axis(axes, end_seconds / scale, unit)
    return _svg(figure, "found")


def counters_over_time(panels: Sequence[Panel], found: Sequence[Found], end_seconds: float) -> str:
    """Draw each driven counter, one point per run, as an inline SVG."""
    from matplotlib.ticker import EngFormatter

    figure, rows = _figure(len(panels), 1.3)
    scale, unit = _time_unit(end_seconds)
    for axes, panel in zip(rows, panels, strict=True):
        points = thinned(panel.points)
        _scatter(axes, [p for p in points if not p.anomalous], scale, marker="o", color=_MUTED, size=9)
        _scatter(axes, [p for p in points if p.anomalous], scale, marker="D", color=_ALARM, size=26)
        for item in found:
            axes.axvline(item.seconds / scale, color=_ALARM, linewidth=0.8, linestyle=(0, (2, 2)))
        values = [point.value for point in points]
        if min(values) > 0 and max(values) > 1000 * min(values):
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter(lambda *_: "")
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_title(panel.counter, loc="left", fontsize=9, color=_INK, pad=4, parse_math=False)
        axes.set_xlim(0, end_seconds / scale)
    _finish_time_axis(rows[-1], end_seconds / scale, unit)
    return _svg(figure, "driven")


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Leave out normal runs evenly until few enough are left; anomalous ones all stay."""
    normal = [point for point in points if not point.anomalous]
    stride = -(-len(normal) // most) or 1
    kept = {id(point) for point in normal[::stride]}
    return [point for point in points if point.anomalous or id(point) in kept]


def _scatter(axes: Axes, points: Sequence[Point], scale: float, *, marker: str, color: str, size: float) -> None:
    axes.scatter(
        [point.seconds / scale for point in points],
        [point.value for point in points],
        s=size,
        marker=marker,
        color=color,
        linewidths=0,
        zorder=3,
    )


def _figure(rows: int, row_inches: float) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_INCHES, 0.55 + rows * row_inches), layout="constrained")
    figure.patch.set_visible(False)
    grid = figure.subplots(rows, 1, sharex=True, squeeze=False)
    all_axes: list[Axes] = list(grid[:, 0])
    for axes in all_axes:
        axes.patch.set_visible(False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(_LINE)
        axes.tick_params(which="both", color=_LINE, labelcolor=_INK, labelsize=9)
        axes.grid(axis="y", color=_LINE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.yaxis.label.set_color(_INK)
        axes.xaxis.label.set_color(_INK)
    return figure, all_axes


def _finish_time_axis(axes: Axes, end: float, unit: str) -> None:
    axes.set_xlim(0, end)
    axes.set_xlabel(f"testbed time, {unit}")


def _time_unit(seconds: float) -> tuple[float, str]:
    if seconds >= 2 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if seconds >= 120 else (1.0, "seconds")


def _svg(figure: Figure, name: str) -> str:
    """Return a figure as an `<svg>` element without anything that belongs to a file of its own."""
    import matplotlib

    buffer = io.BytesIO()
    # Text stays text; ids and so the whole output depend on the figure alone.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "axes.unicode_minus": False}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue().decode()
    text = text[text.index("<svg") :]
    for pattern, replacement in _EDITS:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(href="#|url\(#)', rf"\1{name}-", text)
    for color, css in _CSS.items():
        text = text.replace(color, css)
    return text.strip()


_EDITS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"<metadata>.*?</metadata>", ""),
    (r"<!--.*?-->", ""),
    (r' xmlns(:\w+)?="[^"]*"', ""),  # HTML knows SVG; no address of any kind is left in the file
    (r"\bxlink:href=", "href="),
    (r'<svg width="[^"]*" height="[^"]*"', "<svg"),  # as wide as the page lets it be
    (r"<defs>\s*<style.*?</style>\s*</defs>", ""),  # would style the page as well
    (r"font-family: [^;\"]*;? ?", ""),  # the page's font
    (r"\n\s*\n", "\n"),
)
