"""Charts over time: panels over one time axis.

Places on the time axis are in percent of the width, so that a chart fills a wide window and a narrow one without
scrolling. Heights are in CSS pixels, because letters do not shrink with the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collie.report.figures.scale import Scale, Tick, engineering, scale_of
from collie.report.quantities import percent
from collie.workloads.units import format_count, format_seconds

MAX_PANELS = 8
MAX_POINTS = 2500

_WIDTHS = (280.0, 420.0, 640.0, 900.0, 1200.0)
"""Widths of the axes in pixels at which labels must not overlap: from a phone to a desk."""
_TITLE, _GAP, _FOOT = 20.0, 16.0, 40.0
_PANEL_HEIGHT, _SEVERITY_HEIGHT = 76.0, 120.0
_TIME_UNITS = ((3600.0, "hours"), (60.0, "minutes"))
_MARK, _LETTER, _LINE = 5.0, 7.0, 13.0
"""Half a mark, a letter's width, and a line's height, in pixels."""


@dataclass(frozen=True, slots=True)
class AnomalyMarker:
    """An anomaly, at the time of its confirmation, with the text beside its mark."""

    id: str
    seconds: float
    severity: float
    label: str
    is_explained: bool = True


@dataclass(frozen=True, slots=True)
class Point:
    """One run in the chart of a counter."""

    run: int
    seconds: float
    value: float
    anomalous: bool


@dataclass(frozen=True, slots=True)
class Driven:
    """Runs that drove one counter. Its `unit` is empty if it is not known."""

    counter: str
    unit: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """One reading over one run: (seconds, value) by host. None is a gap."""

    name: str
    title: str
    hosts: tuple[tuple[str, tuple[tuple[float, float | None], ...]], ...]

    @property
    def is_share(self) -> bool:
        """Whether values are 0 to 1."""
        return self.name.endswith("_ratio")


@dataclass(frozen=True, slots=True)
class ChartLine:
    """An SVG path and its style."""

    path: str
    style: str


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of an anomaly. `label` begins at `offset` pixels from it, and is empty if there is no room."""

    x: float
    y: float
    style: str
    label: str
    offset: tuple[float, float]
    anchor: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes. `ticks` are those of the vertical axis."""

    title: str
    top: float
    bottom: float
    ticks: tuple[Tick, ...]
    lines: tuple[ChartLine, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with the ticks and the title of its time axis, and rules through every panel."""

    height: float
    panels: tuple[Panel, ...]
    ticks: tuple[Tick, ...]
    title: str
    words: str
    rules: tuple[float, ...] = ()


def severity_chart(tracks: Sequence[tuple[str, Sequence[AnomalyMarker]]], end_seconds: float) -> Chart:
    """Draw the severity of anomalies over the time of their confirmation.

    Each track, (title, anomalies with the most important first), has a panel.
    """
    across, ticks, title = _time_axis(end_seconds)
    panels: list[Panel] = []
    for name, found in tracks:
        top = (panels[-1].bottom + _GAP if panels else 0.0) + _TITLE
        up = Scale(0.0, 1.0, top + _SEVERITY_HEIGHT, top)
        places = [(across.place(item.seconds), up.place(min(1.0, max(0.0, item.severity)))) for item in found]
        marks = _marks(found, places, top)
        panels.append(Panel(name, top, top + _SEVERITY_HEIGHT, up.ticks(3, percent), (), marks))
    words = "; ".join(f"{name}: {', '.join(map(_marker_words, found)) or 'none'}" for name, found in tracks)
    return _chart(tuple(panels), ticks, title, f"Over {format_seconds(end_seconds)} of testbed time. {words}.")


def _marker_words(item: AnomalyMarker) -> str:
    return f"{item.id} {percent(item.severity)} after {format_seconds(item.seconds)}"


_Box = tuple[float, float, float, float]
"""Left, upper, right, lower."""

_SIDES = (
    *((8.0, 4.0, "start"), (-8.0, 4.0, "end"), (0.0, -8.0, "middle"), (0.0, 17.0, "middle")),
    *((7.0, -5.0, "start"), (-7.0, -5.0, "end"), (7.0, 14.0, "start"), (-7.0, 14.0, "end")),
)
"""Where a label can stand: pixels from its mark, and the end of the text that is there."""


def _marks(found: Sequence[AnomalyMarker], places: Sequence[tuple[float, float]], top: float) -> tuple[Mark, ...]:
    """Return a mark for each anomaly, with its label where that meets no mark and no label, at any width."""
    taken = [[_box(x * width / 100, y, 2 * _MARK, 2 * _MARK) for x, y in places] for width in _WIDTHS]
    marks = []
    for item, (x, y) in zip(found, places, strict=True):
        style = "explained" if item.is_explained else "unexplained"
        marks.append(Mark(x, y, style, "", (0.0, 0.0), "middle"))
        wide = _LETTER * len(item.label) + 2
        for dx, dy, anchor in _SIDES:
            shift = dx + {"start": wide / 2, "end": -wide / 2, "middle": 0.0}[anchor]
            boxes = [_box(x * width / 100 + shift, y + dy - 4, wide, _LINE) for width in _WIDTHS]
            inside = all(
                box[0] >= 0 and box[2] <= width and box[1] >= top - 4 for box, width in zip(boxes, _WIDTHS, strict=True)
            )
            if inside and not any(_meets(box, others) for box, others in zip(boxes, taken, strict=True)):
                marks[-1] = Mark(x, y, style, item.label, (dx, dy), anchor)
                for box, others in zip(boxes, taken, strict=True):
                    others.append(box)
                break
    return tuple(marks)


def _box(x: float, y: float, width: float, height: float) -> _Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _meets(box: _Box, others: Iterable[_Box]) -> bool:
    left, upper, right, lower = box
    return any(left < each[2] and each[0] < right and upper < each[3] and each[1] < lower for each in others)


def driven_chart(driven: Sequence[Driven], found: Sequence[AnomalyMarker], end_seconds: float) -> Chart:
    """Draw each driven counter, one point per run."""
    across, ticks, title = _time_axis(end_seconds)
    panels = []
    for item, (top, bottom) in zip(driven, _rows(len(driven)), strict=True):
        points = thinned(item.points)
        up = scale_of([point.value for point in points], bottom, top)
        normal = [(across.place(p.seconds), up.place(p.value)) for p in points if not p.anomalous]
        anomalous = [(across.place(p.seconds), up.place(p.value)) for p in points if p.anomalous]
        lines = (ChartLine(_dots(normal), "dots"), ChartLine(_dots(anomalous), "squares"))
        panels.append(Panel(named(item.counter, item.unit), top, bottom, up.ticks(3), lines))
    rules = tuple(across.place(item.seconds) for item in found)
    words = "; ".join(map(_driven_words, driven))
    return _chart(tuple(panels), ticks, title, f"Readings of driven counters over testbed time: {words}.", rules)


def trace_chart(traces: Sequence[Trace]) -> Chart:
    """Draw readings of one run, a line per host."""
    moments = [seconds for trace in traces for _, samples in trace.hosts for seconds, _ in samples]
    # A host can take a sample shortly before the first host starts to send.
    across = Scale(min(0.0, *moments), max(1e-3, *moments), 0.0, 100.0)
    order = hosts_of(traces)
    panels = []
    for trace, (top, bottom) in zip(traces, _rows(len(traces)), strict=True):
        known = [value for _, samples in trace.hosts for _, value in samples if value is not None]
        up = scale_of(known, bottom, top, decades=not trace.is_share)
        lines = tuple(
            ChartLine(_polyline(samples, across, up), f"host-{order.index(host) % 4 + 1}")
            for host, samples in trace.hosts
        )
        panels.append(Panel(trace.title, top, bottom, up.ticks(3, percent if trace.is_share else None), lines))
    words = "; ".join(map(_trace_words, traces))
    return _chart(tuple(panels), across.ticks(9), "seconds since traffic started", f"One run over time: {words}.")


def named(counter: str, unit: str) -> str:
    """Return the title of a counter's panel."""
    return f"{counter}, {unit}" if unit else counter


def hosts_of(traces: Iterable[Trace]) -> list[str]:
    """Return every host that has a line in a trace."""
    return sorted({host for trace in traces for host, _ in trace.hosts})


def thinned(points: Sequence[Point], most: int = MAX_POINTS) -> list[Point]:
    """Drop normal runs at even intervals, so that at most `most` normal runs are left."""
    normal = [point for point in points if not point.anomalous]
    stride = -(-len(normal) // most) or 1
    kept = {id(point) for point in normal[::stride]}
    return [point for point in points if point.anomalous or id(point) in kept]


def _chart(
    panels: tuple[Panel, ...], ticks: tuple[Tick, ...], title: str, words: str, rules: tuple[float, ...] = ()
) -> Chart:
    return Chart(panels[-1].bottom + _FOOT, panels, ticks, title, words, rules)


def _driven_words(driven: Driven) -> str:
    values = [point.value for point in driven.points]
    anomalous = sum(point.anomalous for point in driven.points)
    span = f"{engineering(min(values))} to {engineering(max(values))} {driven.unit}".rstrip()
    return f"{driven.counter}, {format_count(len(values), 'run')} from {span}, {anomalous} of them anomalous"


def _trace_words(trace: Trace) -> str:
    spans = []
    for host, samples in trace.hosts:
        known = [value for _, value in samples if value is not None]
        write = percent if trace.is_share else engineering
        spans.append(f"host {host} from {write(min(known))} to {write(max(known))}")
    return f"{trace.title}: {', '.join(spans)}"


def _rows(count: int) -> list[tuple[float, float]]:
    stride = _TITLE + _PANEL_HEIGHT + _GAP
    return [(index * stride + _TITLE, index * stride + _TITLE + _PANEL_HEIGHT) for index in range(count)]


def _time_axis(end_seconds: float) -> tuple[Scale, tuple[Tick, ...], str]:
    factor, unit = next(((f, unit) for f, unit in _TIME_UNITS if end_seconds >= 2 * f), (1.0, "seconds"))
    ticks = Scale(0.0, end_seconds / factor, 0.0, 100.0).ticks(9)
    return Scale(0.0, end_seconds, 0.0, 100.0), ticks, f"testbed time, {unit}"


def _polyline(samples: Iterable[tuple[float, float | None]], across: Scale, up: Scale) -> str:
    parts, drawing = [], False
    for seconds, value in samples:
        if value is None:
            drawing = False
            continue
        # A single point between gaps becomes a line of length 0. Its round ends make it a visible dot.
        parts.append(f"{'L' if drawing else 'M'}{across.place(seconds)} {up.place(value)}{'' if drawing else 'h0'}")
        drawing = True
    return "".join(parts)


def _dots(places: Iterable[tuple[float, float]]) -> str:
    return "".join(f"M{x} {y}h0" for x, y in places)
