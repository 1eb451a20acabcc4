"""Charts over time as geometry in CSS pixels: panels over one time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collie.report.figures.scale import Scale, Tick, engineering, scale_of
from collie.report.quantities import percent
from collie.workloads.units import format_count, format_seconds

MAX_PANELS = 8
MAX_POINTS = 2500

_WIDTH = 760.0
_LEFT, _RIGHT = 52.0, 14.0
_TITLE, _GAP, _FOOT = 20.0, 16.0, 40.0
_PANEL_HEIGHT = 76.0
_TIME_UNITS = ((3600.0, "hours"), (60.0, "minutes"))
_MIN_FOUND_HEIGHT, _FOUND_STEP = 110.0, 16.0


@dataclass(frozen=True, slots=True)
class AnomalyMarker:
    """An anomaly, at the time of its confirmation."""

    id: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Point:
    """One run in the chart of a counter."""

    run: int
    seconds: float
    value: float
    anomalous: bool


@dataclass(frozen=True, slots=True)
class Driven:
    """Runs that drove one counter."""

    counter: str
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
class Label:
    """Text at a place."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes. `ticks` are those of the vertical axis."""

    title: str
    top: float
    bottom: float
    ticks: tuple[Tick, ...]
    lines: tuple[ChartLine, ...]
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with the ends, ticks and title of its time axis, and rules through every panel."""

    width: float
    height: float
    left: float
    right: float
    panels: tuple[Panel, ...]
    ticks: tuple[Tick, ...]
    title: str
    words: str
    rules: tuple[float, ...] = ()


def found_chart(tracks: Sequence[tuple[str, Sequence[AnomalyMarker]]], end_seconds: float) -> Chart:
    """Draw the number of known anomalies over time. Each track, (title, anomalies), has a panel."""
    across, ticks, title = _time_axis(end_seconds)
    panels: list[Panel] = []
    for name, found in tracks:
        top = (panels[-1].bottom + _GAP if panels else 0.0) + _TITLE
        panels.append(_found_panel(name, found, across, top))
    words = "; ".join(
        f"{name}: {', '.join(f'{item.id} after {format_seconds(item.seconds)}' for item in found) or 'none'}"
        for name, found in tracks
    )
    return _chart(tuple(panels), ticks, title, f"Over {format_seconds(end_seconds)} of testbed time. {words}.")


def _found_panel(title: str, found: Sequence[AnomalyMarker], across: Scale, top: float) -> Panel:
    bottom = top + max(_MIN_FOUND_HEIGHT, _FOUND_STEP * (len(found) + 1))
    up = Scale(0.0, len(found) + 0.6, bottom, top)
    corners = [f"M{across.place(0)} {up.place(0)}"]
    labels, marks = [], []
    for count, item in enumerate(found, start=1):
        x, y = across.place(item.seconds), up.place(count)
        corners.append(f"H{x}V{y}")
        marks.append((x, y))
        beside = x + 8 if x < across.end - 40 else x - 34
        labels.append(Label(beside, y + 14 if beside > x else y - 4, item.id))
    steps = ChartLine("".join(corners) + f"H{across.place(across.high)}", "step")
    return Panel(
        title, top, bottom, up.ticks(6, least_step=1.0), (steps, ChartLine(_diamonds(marks), "diamonds")), tuple(labels)
    )


def driven_chart(driven: Sequence[Driven], found: Sequence[AnomalyMarker], end_seconds: float) -> Chart:
    """Draw each driven counter, one point per run."""
    across, ticks, title = _time_axis(end_seconds)
    panels = []
    for item, (top, bottom) in zip(driven, _rows(len(driven)), strict=True):
        points = thinned(item.points)
        up = scale_of([point.value for point in points], bottom, top)
        normal = [(across.place(p.seconds), up.place(p.value)) for p in points if not p.anomalous]
        anomalous = [(across.place(p.seconds), up.place(p.value)) for p in points if p.anomalous]
        lines = (ChartLine(_dots(normal), "dots"), ChartLine(_diamonds(anomalous), "diamonds"))
        panels.append(Panel(f"{item.counter}, per second", top, bottom, up.ticks(3), lines))
    rules = tuple(across.place(item.seconds) for item in found)
    words = "; ".join(map(_driven_words, driven))
    return _chart(tuple(panels), ticks, title, f"Readings of driven counters over testbed time: {words}.", rules)


def trace_chart(traces: Sequence[Trace]) -> Chart:
    """Draw readings of one run, a line per host."""
    moments = [seconds for trace in traces for _, samples in trace.hosts for seconds, _ in samples]
    # A host can take a sample shortly before the first host starts to send.
    across = Scale(min(0.0, *moments), max(1e-3, *moments), _LEFT, _WIDTH - _RIGHT)
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
    return Chart(_WIDTH, panels[-1].bottom + _FOOT, _LEFT, _WIDTH - _RIGHT, panels, ticks, title, words, rules)


def _driven_words(driven: Driven) -> str:
    values = [point.value for point in driven.points]
    anomalous = sum(point.anomalous for point in driven.points)
    span = f"{engineering(min(values))} to {engineering(max(values))} per second"
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
    start, end = _LEFT, _WIDTH - _RIGHT
    ticks = Scale(0.0, end_seconds / factor, start, end).ticks(9)
    return Scale(0.0, end_seconds, start, end), ticks, f"testbed time, {unit}"


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


def _diamonds(places: Iterable[tuple[float, float]]) -> str:
    return "".join(f"M{x} {round(y - 4.5, 1)}l4.5 4.5l-4.5 4.5l-4.5-4.5z" for x, y in places)
