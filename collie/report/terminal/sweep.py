"""A sweep as text: a row for each point, and its cliffs in words."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from collie.app.sweeps import Swept
from collie.campaign.sweep import Cliff, Point, Sweep
from collie.report.quantities import packet_rate, percent, rate, relative, runs, show
from collie.report.terminal.summary import Line, styled
from collie.workloads.units import format_count, format_seconds, format_short_seconds

_HEADS = ("delivered", "packets", "of bound", "pause", "median", "99%")


def render_sweep(swept: Swept) -> str:
    """Return the points, the cliffs and the cost of a sweep."""
    return styled(_lines(swept))


def title(swept: Swept) -> str:
    """Name a sweep: `RC WRITE over qps on simulated subsystem F`."""
    found = swept.sweep
    return f"{found.traffic} over {' and '.join(found.dimensions)} on {swept.testbed}"


def heads(found: Sweep) -> tuple[str, ...]:
    """Return the heads of the columns of `rows`."""
    victim = ("victim loses",) if _has_victim(found) else ()
    return (*reversed(found.dimensions), *_HEADS, *victim, "verdict")


def rows(found: Sweep) -> list[tuple[str, ...]]:
    """Return the cells of each point."""
    return [_cells(found, point) for point in found.points]


def cliffs(found: Sweep) -> list[str]:
    """Return the cliffs in words."""
    return [_told(found, cliff) for cliff in found.cliffs()]


def _lines(swept: Swept) -> Iterator[Line]:
    found = swept.sweep
    yield Text(title(swept), "bold")
    table = [heads(found), *rows(found)]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    yield Text(_row(table[0], widths), "dim")
    for cells, point in zip(table[1:], found.points, strict=True):
        yield Text(_row(cells, widths), "red" if point.is_anomalous else "")
    yield Text("delivered and packets are those of all receiving hosts together", "dim")
    if _has_victim(found):
        beside = "the verdict is against what it keeps beside plain traffic of the same load"
        yield Text(f"the victim loses a share of its throughput alone; {beside}", "dim")
    told = cliffs(found)
    yield ""
    yield from (Text(f"cliff  {each}", "bold red") for each in told)
    if not told and found.x.ordered and sum(point.delivered_bps is not None for point in found.points) > 1:
        yield "no cliff: neighbours have the same verdict, and no fifth of the throughput is lost between them"
    for reason in dict.fromkeys(point.reason for point in found.points if not point.is_judged):
        yield Text(f"not measured: {reason}", "bold red")
    if found.refused:
        (x, _), reason = next(iter(found.refused.items()))
        place = f"{found.x.dimension} {show(found.x.dimension, x)}"
        yield Text(f"{format_count(len(found.refused), 'point')} cannot run, such as {place}: {reason}", "dim")
    yield Text(f"{runs(swept.runs)}, {format_seconds(swept.elapsed_seconds)} of testbed time", "dim")


def _cells(found: Sweep, point: Point) -> tuple[str, ...]:
    place = [show(found.y.dimension, point.y)] if found.y is not None else []
    verdict = point.symptom.words if point.symptom is not None else point.outcome
    victim = [percent(point.victim_lost_ratio)] if _has_victim(found) else []
    return (
        *place,
        show(found.x.dimension, point.x),
        rate(point.delivered_bps),
        packet_rate(point.delivered_pps),
        relative(point.bound_ratio),
        percent(point.pause_ratio),
        _microseconds(point.median_seconds),
        _microseconds(point.p99_seconds),
        *victim,
        verdict,
    )


def _has_victim(found: Sweep) -> bool:
    return any(point.victim_lost_ratio is not None for point in found.points)


def _microseconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else format_short_seconds(seconds)


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    *numbers, last = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([*numbers, last.strip()])


def _told(found: Sweep, cliff: Cliff) -> str:
    before, after, name = cliff.before, cliff.after, found.x.dimension
    where = f"{name} {show(name, before.x)} to {show(name, after.x)}"
    if found.y is not None:
        where += f" at {found.y.dimension} {show(found.y.dimension, before.y)}"
    parts = [f"{percent(cliff.lost)} of the throughput is lost"] if cliff.lost >= 0.05 else []
    if before.is_anomalous != after.is_anomalous:
        symptom = after.symptom or before.symptom
        assert symptom is not None, "one of the two is anomalous"
        parts.append(f"{symptom.words} {'begins' if after.is_anomalous else 'ends'}")
    return f"{where}: {', '.join(parts)}"
