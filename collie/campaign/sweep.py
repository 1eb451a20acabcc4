"""A sweep: one workload along one or two axes, with the cliffs marked and refined.

Terms. A *curve* is the points along x for one value of y. A *cliff* lies between two neighbours of a curve if the
verdict changes there, or if the second has `_FALL` less throughput than the first.

Method. All points run first, in the order of x, as phases where they fit one set-up. Both ends of a cliff run again, so
that one outlier is no cliff. Then each cliff is halved (in logarithms) as often as asked, so that its place is known to
a small factor.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from collie.campaign.single_run import JudgedRun
from collie.detect.bounds import UNBOUNDED, Bound
from collie.detect.measurement import Measurement
from collie.detect.reading import reading_of
from collie.detect.symptom import Outcome, Symptom
from collie.ports import HostLost, Measured, SetupFailed, Unsupported
from collie.workloads.space import Space
from collie.workloads.sweep import Axis, Headroom, middle
from collie.workloads.workload import Workload

_FALL = 0.2
"""Share of the throughput that is lost from one point to the next at a cliff: the paper's threshold."""
_RUNS_OF_AN_END = 3
"""Runs of the end of a cliff. The middle one counts."""
_NOT_MEASURED = {SetupFailed: "could not be set up", Unsupported: "unsupported", HostLost: "host lost"}
MOST_CURVES = 8
"""Number of values of y above which a figure is a map."""
_CLOSE = 1.1
"""Factor between two values of x below which a cliff is not halved any more."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a sweep.

    Attributes:
        x, y: values of the axes, y None without one.
        outcome: of the verdict, or why there is none.
        delivered_bps, delivered_pps: over all receiving hosts.
        bound_ratio: of the receiving host that is farthest below its bound: packets or bits, whichever is nearer.
        healthy_bps: over all receiving hosts, each at its bound. None if unknown.
        pause_ratio: the largest of any host.
        median_seconds, p99_seconds: of the slowest flow with a reading, None without one.
        victim_lost_ratio: share of its throughput alone that the flow beside the workload lost, None without one.
        runs: number of runs. All else is that of the middle one.
    """

    x: Any
    y: Any
    outcome: str
    symptom: Symptom | None = None
    severity: float = 0.0
    reason: str = ""
    delivered_bps: float | None = None
    delivered_pps: float | None = None
    bound_ratio: float | None = None
    pause_ratio: float | None = None
    median_seconds: float | None = None
    p99_seconds: float | None = None
    healthy_bps: float | None = None
    victim_lost_ratio: float | None = None
    runs: int = 1

    @property
    def is_anomalous(self) -> bool:
        """Whether an anomaly shows here."""
        return self.symptom is not None

    @property
    def is_judged(self) -> bool:
        """Whether the run has a verdict."""
        return self.outcome in set(Outcome)

    @property
    def is_decided(self) -> bool:
        """Whether the run tells a throughput, and whether an anomaly shows."""
        return self.delivered_bps is not None and self.outcome != Outcome.INCONCLUSIVE


@dataclass(frozen=True, slots=True)
class Cliff:
    """Two neighbours of a curve between which the workload falls. `lost` is the share of throughput, 0 if none."""

    before: Point
    after: Point

    @property
    def lost(self) -> float:
        """Share of the throughput that is lost from the first to the second point."""
        one, two = self.before.delivered_bps, self.after.delivered_bps
        return max(0.0, 1.0 - two / one) if one and two is not None else 0.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """The points of a sweep.

    Attributes:
        base: the workload that the axes vary.
        points: by y in the order of its values, then by x.
        refused: values of the axes that cannot run, with the reason.
    """

    x: Axis
    y: Axis | None
    base: Workload
    points: tuple[Point, ...]
    refused: Mapping[tuple[Any, Any], str]

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions of the axes."""
        return (self.x.dimension,) if self.y is None else (self.x.dimension, self.y.dimension)

    @property
    def traffic(self) -> str:
        """Transport and operation, such as `RC WRITE`, without the one that an axis varies."""
        kept = (str(self.base.get(name)) for name in ("qp_type", "opcode") if name not in self.dimensions)
        return " ".join(kept) or "traffic"

    def with_points(self, points: Sequence[Point]) -> Sweep:
        """Return the sweep with further points, whose y are values of the axis."""
        return _sweep(self.x, self.y, self.base, (*self.points, *points), self.refused)

    def curves(self) -> Iterator[tuple[Any, list[Point]]]:
        """Yield the points along x for each value of y."""
        for value in self.y.values if self.y is not None else (None,):
            points = [point for point in self.points if point.y == value]
            if points:
                yield value, points

    def cliffs(self) -> list[Cliff]:
        """Return the cliffs of all curves."""
        if not self.x.ordered:
            return []
        return [cliff for _, points in self.curves() for cliff in cliffs(points)]


Batches = Generator[list[tuple[Any, Any, Workload]], Sequence[Point], Sweep]
"""Yields points to measure: x, y and the workload. Receives them measured, in the same order."""


def sweep(base: Workload, x: Axis, y: Axis | None, space: Space, held: Sequence[str], halvings: int) -> Batches:
    """Measure a workload along its axes. Dimensions in `held` keep their value where others would follow an axis."""
    headroom = Headroom(space, {*held, x.field, *([y.field] if y is not None else [])})
    refused: dict[tuple[Any, Any], str] = {}

    def workload_at(across: Any, along: Any) -> Workload | None:
        values = {**x.put(across), **(y.put(along) if y is not None else {})}
        workload = headroom.make(base.with_(**values))
        complaint = next((text for _, text in space.violations(workload)), None)
        if complaint is not None:
            refused[across, along] = complaint
        return None if complaint is not None else workload

    def listed(values: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any, Workload]]:
        made = ((across, along, workload_at(across, along)) for across, along in values)
        return [(across, along, workload) for across, along, workload in made if workload is not None]

    def found(points: Sequence[Point]) -> Sweep:
        return _sweep(x, y, base, points, refused)

    def without_outliers(
        points: list[Point],
    ) -> Generator[list[tuple[Any, Any, Workload]], Sequence[Point], list[Point]]:
        """Run the ends of all cliffs again, until the middle run of each end has been found."""
        while ends := [(one.x, one.y) for one in _ends(found(points).cliffs()) if one.runs < _RUNS_OF_AN_END]:
            for _ in range(_RUNS_OF_AN_END - 1):
                points = [*points, *(yield listed(ends))]
            points = settled(points)
        return points

    rows = y.values if y is not None else (None,)
    wanted = listed([(across, along) for along in rows for across in x.values])
    points = yield from without_outliers(list((yield wanted)) if wanted else [])
    for _ in range(halvings):
        between = [
            (value, cliff.before.y)
            for _, curve in found(points).curves()
            for cliff in (cliffs(curve) if x.ordered else ())
            if cliff.after.x > _CLOSE * cliff.before.x
            and (value := middle(space, x, cliff.before.x, cliff.after.x)) is not None
            and all(value != point.x for point in curve)
        ]
        wanted = listed(between)
        if not wanted:
            break
        points = yield from without_outliers([*points, *(yield wanted)])
    return found(points)


def _ends(of: Sequence[Cliff]) -> list[Point]:
    """Return the points at the ends of cliffs, each once."""
    return list({(point.x, point.y): point for cliff in of for point in (cliff.before, cliff.after)}.values())


def settled(runs: Iterable[Point]) -> list[Point]:
    """Return one point for each place: the middle run where enough were made to tell it, else the first one."""
    places: dict[Any, list[Point]] = {}
    for run in runs:
        places.setdefault((run.x, run.y), []).append(run)
    return [_middle(each) if len(each) >= _RUNS_OF_AN_END else each[0] for each in places.values()]


def _middle(runs: Sequence[Point]) -> Point:
    """Return the middle run of a point, by whether it is anomalous and then by its throughput."""
    decided = [run for run in runs if run.is_decided] or runs
    ordered = sorted(decided, key=lambda run: (run.is_anomalous, -(run.delivered_bps or 0.0)))
    return replace(ordered[(len(ordered) - 1) // 2], runs=sum(run.runs for run in runs))


def point_of(x: Any, y: Any, run: JudgedRun) -> Point:
    """Return a measured point."""
    if not isinstance(run.result, Measured) or run.verdict is None:
        return Point(x, y, _NOT_MEASURED.get(type(run.result), "not measured"), reason=_why(run))
    measurement, verdict = run.result.measurement, run.verdict
    reading = reading_of(verdict, measurement)
    packets = [host.delivered_pps for host in measurement.hosts if host.delivered_pps is not None]
    bound_ratio, healthy_bps = _by_bounds(measurement, run.host_bounds)
    latencies = list(measurement.latency.values())
    medians = [each.median_seconds for each in latencies if each.median_seconds is not None]
    tails = [each.p99_seconds for each in latencies if each.p99_seconds is not None]
    return Point(
        x,
        y,
        verdict.outcome.value,
        verdict.symptom if verdict.outcome is Outcome.ANOMALOUS else None,
        verdict.severity,
        verdict.reason,
        reading.delivered_bps,
        sum(packets) if packets else None,
        bound_ratio,
        reading.pause_ratio,
        max(medians, default=None),
        max(tails, default=None),
        healthy_bps,
        reading.victim_lost_ratio,
    )


def _by_bounds(measurement: Measurement, bounds: Mapping[str, Bound]) -> tuple[float | None, float | None]:
    """Return the ratio of the host farthest below its bound, and the healthy throughput of all hosts."""
    ratios, healthy = [], []
    for host in measurement.hosts:
        bound = bounds.get(host.host, UNBOUNDED)
        if host.delivered_bps is None or not math.isfinite(bound.bps) or not bound.bps or not bound.pps:
            continue
        ratio = max(host.delivered_bps / bound.bps, (host.delivered_pps or 0.0) / bound.pps)
        ratios.append(ratio)
        # Where packets are nearer to their bound, the bits that they carry are healthy, too.
        healthy.append(host.delivered_bps / ratio if ratio else bound.bps)
    return min(ratios, default=None), sum(healthy) if healthy else None


def cliffs(curve: Sequence[Point]) -> list[Cliff]:
    """Return the cliffs of one curve. A point without a decision tells neither where one begins nor where it ends."""
    neighbours = [Cliff(before, after) for before, after in pairwise(each for each in curve if each.is_decided)]
    return [each for each in neighbours if each.lost >= _FALL or each.before.is_anomalous != each.after.is_anomalous]


def _why(run: JudgedRun) -> str:
    return str(getattr(run.result, "reason", "") or getattr(run.result, "detail", ""))


def _sweep(
    x: Axis, y: Axis | None, base: Workload, points: Sequence[Point], refused: Mapping[tuple[Any, Any], str]
) -> Sweep:
    rows = {value: row for row, value in enumerate(y.values)} if y is not None else {None: 0}
    columns = {value: column for column, value in enumerate(x.values)}
    ordered = sorted(points, key=lambda point: (rows[point.y], point.x if x.ordered else columns[point.x]))
    return Sweep(x, y, base, tuple(ordered), dict(refused))
