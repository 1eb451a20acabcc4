"""A minimal feature set as strips. Each strip is the ladder of one feature, filled where the conditions hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from collie.report.quantities import show
from collie.workloads.feature import PRODUCTS, Condition, Mfs, Op, feature_value
from collie.workloads.space import Space
from collie.workloads.workload import Workload

MAX_CELLS = 24

_WIDTH = 760.0
_LEFT = 168.0
_ROW, _CELL_HEIGHT = 50.0, 18.0
_CHARACTER = 7.7  # wider than in most fonts
_APART = 8.0


@dataclass(frozen=True, slots=True)
class LadderCell:
    """A step of a ladder: whether conditions hold, whether the simplest workload has it, and whether it is plain."""

    x: float
    width: float
    inside: bool
    here: bool
    plain: bool


@dataclass(frozen=True, slots=True)
class Strip:
    """The strip of one feature. `labels` are (middle, text)."""

    feature: str
    y: float
    height: float
    cells: tuple[LadderCell, ...]
    labels: tuple[tuple[float, str], ...]
    words: str


@dataclass(frozen=True, slots=True)
class Strips:
    """The figure of a minimal feature set."""

    width: float
    height: float
    strips: tuple[Strip, ...]


def strips_of(mfs: Mfs, workload: Workload, space: Space) -> Strips:
    """Draw every feature of an MFS. `workload` is the simplest workload that shows the anomaly."""
    features = list(dict.fromkeys(condition.dimension for condition in mfs.conditions))
    strips = tuple(
        _strip(feature, [c for c in mfs.conditions if c.dimension == feature], workload, space, row * _ROW + 8)
        for row, feature in enumerate(features)
    )
    return Strips(_WIDTH, _ROW * len(strips) + 8, strips)


def steps_of(feature: str, space: Space, *also: Any) -> tuple[Any, ...]:
    """Return the values in `also` and the ladder of a feature, thinned to `MAX_CELLS` values in all."""
    steps = _steps(feature, space)
    if any(isinstance(step, str | bool | tuple) for step in (*steps, *also)):
        return tuple(dict.fromkeys((*steps, *also)))
    return tuple(sorted({*_spread(steps, MAX_CELLS - len(also)), *also}))


def _steps(feature: str, space: Space) -> Sequence[Any]:
    if feature.endswith(("_message_bytes", "_segment_bytes")):
        feature = "messages"
    if feature in PRODUCTS:
        one, other = (_steps(name, space) for name in PRODUCTS[feature])
        most = space.limits.total_mrs if feature == "total_mrs" else math.inf
        return sorted({product for a in one for b in other if (product := a * b) <= most})
    if feature == "total_qps":
        return sorted({count * directions for count in _steps("qps", space) for directions in (1, 2)})
    if feature in {"gpu_hosts", "far_hosts"}:
        return (0, 1, 2)
    dimension = space.dimensions.get(feature)
    if dimension is None:
        return (feature_value(space.base, feature),)
    return space.ladder(feature) or dimension.candidates()


def _spread(steps: Sequence[Any], most: int) -> list[Any]:
    if len(steps) <= most:
        return list(steps)
    return [steps[round(index * (len(steps) - 1) / (most - 1))] for index in range(most)]


def _strip(feature: str, conditions: Sequence[Condition], workload: Workload, space: Space, y: float) -> Strip:
    here, plain = feature_value(workload, feature), feature_value(space.base, feature)
    named = [value for c in conditions for value in (c.value if c.op is Op.ONE_OF else (c.value,))]
    steps = steps_of(feature, space, *named, here, plain)
    inside = [all(condition.admits(step) for condition in conditions) for step in steps]
    width = (_WIDTH - _LEFT) / len(steps)
    cells = tuple(
        LadderCell(round(_LEFT + index * width, 1), round(width, 1), inside[index], step == here, step == plain)
        for index, step in enumerate(steps)
    )
    words = f"{feature}: {' and '.join(map(str, conditions))}; here {show(feature, here)}, plain {show(feature, plain)}"
    return Strip(feature, y, _CELL_HEIGHT, cells, _labels(feature, steps, cells), words)


def _labels(feature: str, steps: Sequence[Any], cells: Sequence[LadderCell]) -> tuple[tuple[float, str], ...]:
    """Label the steps that fit, by priority: ends of the filled part, `here` and plain, ends of the ladder, others."""
    taken: list[tuple[float, float]] = []
    labels = []
    for index in _by_weight(cells):
        text = show(feature, steps[index])
        half = len(text) * _CHARACTER / 2
        middle = cells[index].x + cells[index].width / 2
        middle = min(max(middle, _LEFT + half), _WIDTH - half)
        if all(middle + half + _APART < left or middle - half - _APART > right for left, right in taken):
            taken.append((middle - half, middle + half))
            labels.append((round(middle, 1), text))
    return tuple(sorted(labels))


def _by_weight(cells: Sequence[LadderCell]) -> Iterable[int]:
    last = len(cells) - 1
    inside = [cell.inside for cell in cells]
    borders = [i for i in range(last + 1) if inside[i] and (i in (0, last) or not (inside[i - 1] and inside[i + 1]))]
    marked = [i for i in range(last + 1) if cells[i].here or cells[i].plain]
    return dict.fromkeys([*borders, *marked, 0, last, *range(last + 1)])
