"""Sweeps of one workload on a testbed, and their records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from collie.app.adapters import Adapters
from collie.app.inputs import narrowed_space_of, pruned_space_of, recipe_of
from collie.app.sessions import open_session
from collie.campaign.choice import SearchChoice
from collie.campaign.safety import SafetyRecord
from collie.campaign.single_run import SingleRunSession
from collie.campaign.sweep import MOST_CURVES, Batches, Cliff, Point, Sweep, point_of, settled, sweep
from collie.errors import UsageError
from collie.files import read_bytes, write_whole
from collie.plain import CODEC
from collie.ports import ProgressSink, SetupFailed
from collie.untrusted import read_json
from collie.workloads.space import Space
from collie.workloads.sweep import Axis, axis_name, parsed_axis
from collie.workloads.units import format_value
from collie.workloads.workload import Workload, render

_AT_ONCE = 16
"""Number of points after which the record is written."""
_TRIES = 3
"""Number of attempts to set a point up."""
_MOST_POINTS = 2000
_MAX_RECORD_BYTES = 16 << 20

Key = tuple[Any, Any]


@dataclass(frozen=True)
class SweepChoice:
    """An operator's choice of a sweep.

    Attributes:
        x, y: axes as written, such as `qps=1..1024`.
        base: the workload that the axes vary.
        fixed: dimensions that keep their value where others would follow an axis.
        halvings: how often the place of a cliff is halved.
        record: the JSON file with every point.
        resume: do not repeat the points that the record has.
        against: another sweep that the figure shows, too.
    """

    x: str
    y: str | None
    base: Workload
    fixed: tuple[str, ...]
    halvings: int
    record: Path
    resume: bool = False
    against: Path | None = None


@dataclass(frozen=True)
class Swept:
    """A finished sweep. `about` is as in `SweepRecord`. `runs` and `elapsed_seconds` are those of this command."""

    sweep: Sweep
    about: Mapping[str, Any]
    runs: int
    elapsed_seconds: float
    safety: SafetyRecord | None

    @property
    def testbed(self) -> str:
        """The name of the testbed."""
        return str(self.about["testbed"])


@dataclass(frozen=True)
class SweepRecord:
    """A sweep on record.

    Attributes:
        about: testbed, axes and workload, which a resumed sweep must share.
    """

    path: Path
    about: Mapping[str, Any]
    points: tuple[Point, ...]

    @property
    def testbed(self) -> str:
        """The name of the testbed."""
        return str(self.about["testbed"])

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(axis_name(str(self.about[name])) for name in ("x", "y") if self.about[name])


def run_sweep(
    adapters: Adapters, choice: SearchChoice, wanted: SweepChoice, earlier: SweepRecord | None, sink: ProgressSink
) -> Swept:
    """Sweep a workload, and write the record after every few points. An `earlier` record is not that of another sweep.

    Raises:
        UsageError: the axes are none of the space, the earlier record is of another sweep, or no point can run.
    """
    _axes_on(adapters, choice, wanted)  # wrong axes are refused before any host is contacted
    with open_session(adapters, choice, sink) as session:
        able = replace(choice, capabilities=choice.capabilities or session.testbed.capabilities)
        x, y = _axes_on(adapters, able, wanted)
        about = _about(adapters, session, choice, wanted)
        if earlier is not None and earlier.about != about:
            other = next(key for key in {**about, **earlier.about} if about.get(key) != earlier.about.get(key))
            raise UsageError(f"{earlier.path} is of another sweep (another {other}); name another file with -o")
        kept = earlier.points if earlier is not None and wanted.resume else ()
        known = {_key(point.x, point.y): point for point in kept if point.is_judged}
        batches = sweep(wanted.base, x, y, session.space, wanted.fixed, wanted.halvings)
        found = _driven(session, batches, known, lambda points: _write(wanted.record, _document(about, points)))
        if not found.points:
            reason = next(iter(found.refused.values()), "there is none")
            raise UsageError(f"no point of this sweep can run; the first because {reason}")
        _write(wanted.record, as_json(found, about))
        runs, seconds = session.runs, session.elapsed_seconds
    return Swept(found, about, runs, seconds, session.safety)


def _axes_on(adapters: Adapters, choice: SearchChoice, wanted: SweepChoice) -> tuple[Axis, Axis | None]:
    x, y = _axes(narrowed_space_of(adapters, replace(choice, capabilities=None)), wanted)
    space, dropped = pruned_space_of(adapters, choice)
    lost = {x.field, *([y.field] if y is not None else [])}.difference(space.dimensions)
    for drop in dropped:
        if drop.dimension in lost:
            only = format_value(space.base.get(drop.dimension))
            raise UsageError(f"{drop.dimension} is {only} on this testbed and does not vary: {drop.reason}")
    return _axes(space, wanted)


def _axes(space: Space, wanted: SweepChoice) -> tuple[Axis, Axis | None]:
    x = parsed_axis(space, wanted.x, wanted.base, "--x")
    y = parsed_axis(space, wanted.y, wanted.base, "--y") if wanted.y is not None else None
    fields = {x.field} if y is None else {x.field, y.field}
    if y is not None and len(fields) == 1:
        raise UsageError(f"both axes are {x.dimension}; give two different dimensions")
    if fixed := fields.intersection(wanted.fixed):
        raise UsageError(f"{fixed.pop()} is fixed and an axis; give one of them")
    if len(x.values) * (len(y.values) if y is not None else 1) > _MOST_POINTS:
        raise UsageError(f"the axes have more than {_MOST_POINTS} points; give shorter ranges, or values with commas")
    if wanted.against is not None and y is not None and y.ordered and len(y.values) > MOST_CURVES:
        raise UsageError(
            f"--against {wanted.against}: {len(y.values)} values of {y.dimension} are drawn as a map, which has no "
            f"room for another sweep; give --y at most {MOST_CURVES} values"
        )
    return x, y


def _driven(
    session: SingleRunSession, batches: Batches, known: Mapping[Key, Point], keep: Callable[[Sequence[Point]], None]
) -> Sweep:
    """Measure what a sweep asks for. After every few points `keep` all so far, and the known ones still to come.

    A known point is not measured when it is asked for at first, but is when the sweep wants it again. The sweep has
    those that it did not ask for, too: an earlier sweep halved the cliffs more often.
    """
    done: list[Point] = []
    left = dict(known)
    try:
        batch = next(batches)
        while True:
            begin = len(done)
            for points in _measured(session, batch, left):
                done += points
                for point in points:
                    left.pop(_key(point.x, point.y), None)
                keep([*settled(done), *left.values()])
            batch = batches.send(done[begin:])
    except StopIteration as stop:
        found: Sweep = stop.value
        return found.with_points(_beyond(found, left.values()))


def _beyond(found: Sweep, points: Iterable[Point]) -> list[Point]:
    rows = {_plain(y): y for y in found.y.values} if found.y is not None else {None: None}
    return [_placed(point, point.x, rows[point.y]) for point in points if found.x.ordered and point.y in rows]


def read_sweep(path: Path) -> SweepRecord:
    """Read the record of a sweep.

    Raises:
        UsageError: the file cannot be read, or is none.
    """
    try:
        document = read_json(read_bytes(path, _MAX_RECORD_BYTES).decode())
        points = tuple(CODEC.read(Point, {**each, **_axis_values(each)}) for each in document["points"])
        about = dict(document["about"])
        if document["schema_version"] != 1 or not {"testbed", "x", "y"} <= about.keys():
            raise ValueError("another program wrote it")
        return SweepRecord(path, about, points)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is no record of a sweep ({error!s:.100}); name the .json that `collie sweep` wrote"
        ) from None


def _axis_values(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the axes of a recorded point, with lists as the tuples that workloads have."""
    return {name: tuple(point[name]) if isinstance(point[name], list) else point[name] for name in ("x", "y")}


def as_json(found: Sweep, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sweep as plain values: rates in bits/s and packets/s, times in seconds, shares 0..1."""
    return {
        **_document(about, found.points),
        "cliffs": [_cliff(each) for each in found.cliffs()],
        "refused": _refused(found),
    }


def _measured(
    session: SingleRunSession, batch: Sequence[tuple[Any, Any, Workload]], known: Mapping[Key, Point]
) -> Iterator[list[Point]]:
    for begin in range(0, len(batch), _AT_ONCE):
        part = batch[begin : begin + _AT_ONCE]
        missing = [each for each in part if _key(*each[:2]) not in known]
        new: dict[Key, Point] = {}
        for _ in range(_TRIES):
            runs = session.measure_together([workload for _, _, workload in missing]) if missing else []
            new |= {_key(x, y): point_of(x, y, run) for (x, y, _), run in zip(missing, runs, strict=True)}
            failed = [isinstance(run.result, SetupFailed) for run in runs]
            missing = [each for each, again in zip(missing, failed, strict=True) if again]
        yield [new.get(_key(x, y)) or _placed(known[_key(x, y)], x, y) for x, y, _ in part]


def _placed(point: Point, x: Any, y: Any) -> Point:
    """Return a recorded point with the values of the axes as the space has them."""
    return replace(point, x=x, y=y)


def _about(adapters: Adapters, session: SingleRunSession, choice: SearchChoice, wanted: SweepChoice) -> dict[str, Any]:
    info = session.testbed.info
    settings = "".join(f", {name} {value}" for name, value in choice.testbed.settings.items())
    return {
        "testbed": f"{info.title}{settings}",
        "noise": choice.testbed.noise if info.virtual_time else None,
        "space": session.space.name,
        "recipe": recipe_of(adapters, choice.testbed, choice.recipe).name,
        "x": wanted.x,
        "y": wanted.y,
        "fixed": sorted(wanted.fixed),
        "workload": render(wanted.base),
        **({"condition": " ".join(conditions)} if (conditions := choice.testbed.conditions()) else {}),
    }


def _key(x: Any, y: Any) -> Key:
    return _plain(x), _plain(y)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _document(about: Mapping[str, Any], points: Sequence[Point]) -> dict[str, Any]:
    written = [{**CODEC.write(each), "x": _plain(each.x), "y": _plain(each.y)} for each in points]
    return {"schema_version": 1, "about": dict(about), "points": written}


def _write(path: Path, document: Mapping[str, Any]) -> None:
    try:
        write_whole(path, [json.dumps(document, allow_nan=False, indent=1), "\n"])
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def _cliff(cliff: Cliff) -> dict[str, Any]:
    before, after = cliff.before, cliff.after
    return {"y": _plain(before.y), "x_before": _plain(before.x), "x_after": _plain(after.x), "lost_ratio": cliff.lost}


def _refused(found: Sweep) -> list[dict[str, Any]]:
    return [{"x": _plain(x), "y": _plain(y), "reason": reason} for (x, y), reason in found.refused.items()]
