"""A minimal feature set as strips. Each strip is the ladder of one feature, filled where the conditions hold.

Widths are in percent, so that a strip fills a wide window and a narrow one. Heights are in CSS pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from collie.report.quantities import show
from collie.workloads.feature import Condition, Mfs, Op, feature_value
from collie.workloads.space import Space
from collie.workloads.workload import Workload

MAX_CELLS = 24

_NARROW, _WIDE = 320.0, 520.0
"""Smallest widths in pixels of a strip: on a phone, and on everything else."""
_NAME, _ROW, _CELL_HEIGHT = 20.0, 62.0, 16.0
_CHARACTER = 7.7  # wider than in most fonts
_APART = 8.0
_MOST_ENDS = {"total_mrs": 1, "nic_mrs": 4}
"""Multiple of the memory regions that a space allows for one flow."""


@dataclass(frozen=True, slots=True)
class LadderCell:
    """A step of a ladder: whether conditions hold, whether the simplest workload has it, and whether it is plain."""

    x: float
    width: float
    inside: bool
    here: bool
    plain: bool


@dataclass(frozen=True, slots=True)
class StripLabel:
    """A value under a strip. `anchor` says which end of the text is at `x`. A phone shows only those that fit there."""

    x: float
    text: str
    anchor: str
    fits_narrow: bool


@dataclass(frozen=True, slots=True)
class Strip:
    """The strip of one feature. `y` is the upper end of its cells. The name stands above them."""

    feature: str
    y: float
    height: float
    cells: tuple[LadderCell, ...]
    labels: tuple[StripLabel, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Strips:
    """The figure of a minimal feature set."""

    height: float
    strips: tuple[Strip, ...]


def strips_of(mfs: Mfs, workload: Workload, space: Space) -> Strips:
    """Draw every feature of an MFS. `workload` is the simplest workload that shows the anomaly."""
    features = list(dict.fromkeys(condition.dimension for condition in mfs.conditions))
    strips = tuple(
        _strip(feature, [c for c in mfs.conditions if c.dimension == feature], workload, space, row * _ROW + _NAME)
        for row, feature in enumerate(features)
    )
    return Strips(_ROW * len(strips), strips)


def steps_of(feature: str, space: Space, *also: Any) -> tuple[Any, ...]:
    """Return the values in `also` and the ladder of a feature, thinned to `MAX_CELLS` values in all."""
    steps = _steps(feature, space)
    if any(isinstance(step, str | bool | tuple) for step in (*steps, *also)):
        return tuple(dict.fromkeys((*steps, *also)))
    return tuple(sorted({*_spread(steps, MAX_CELLS - len(also)), *also}))


def _steps(feature: str, space: Space) -> Sequence[Any]:
    values = space.values(feature)
    ends = _MOST_ENDS.get(feature)
    return [value for value in values if value <= ends * space.limits.total_mrs] if ends else values


def _spread(steps: Sequence[Any], most: int) -> list[Any]:
    if len(steps) <= most:
        return list(steps)
    return [steps[round(index * (len(steps) - 1) / (most - 1))] for index in range(most)]


def _strip(feature: str, conditions: Sequence[Condition], workload: Workload, space: Space, y: float) -> Strip:
    here, plain = feature_value(workload, feature), feature_value(space.base, feature)
    named = [value for c in conditions for value in (c.value if c.op is Op.ONE_OF else (c.value,))]
    steps = steps_of(feature, space, *named, here, plain)
    inside = [all(condition.admits(step) for condition in conditions) for step in steps]
    width = 100 / len(steps)
    cells = tuple(
        LadderCell(round(index * width, 2), round(width, 2), inside[index], step == here, step == plain)
        for index, step in enumerate(steps)
    )
    words = f"{feature}: {' and '.join(map(str, conditions))}; here {show(feature, here)}, plain {show(feature, plain)}"
    return Strip(feature, y, _CELL_HEIGHT, cells, _labels(feature, steps, cells), words)


def _labels(feature: str, steps: Sequence[Any], cells: Sequence[LadderCell]) -> tuple[StripLabel, ...]:
    """Label the steps that fit, by priority: ends of the filled part, `here` and plain, ends of the ladder, others."""
    texts = [show(feature, step) for step in steps]
    anchors = ["middle"] * len(cells)
    for index, anchor in ((len(cells) - 1, "end"), (0, "start")):
        if len(texts[index]) * _CHARACTER > cells[index].width * _NARROW / 100:
            anchors[index] = anchor
    narrow = _fitting(texts, anchors, cells, _NARROW, ())
    return tuple(
        StripLabel(round(_anchored(cells[index], anchors[index]), 2), texts[index], anchors[index], index in narrow)
        for index in sorted(_fitting(texts, anchors, cells, _WIDE, narrow))
    )


def _anchored(cell: LadderCell, anchor: str) -> float:
    return cell.x + {"start": 0.0, "middle": cell.width / 2, "end": cell.width}[anchor]


def _fitting(
    texts: Sequence[str], anchors: Sequence[str], cells: Sequence[LadderCell], width: float, first: Iterable[int]
) -> list[int]:
    """Return the steps whose labels fit side by side at a width, those in `first` before the others."""
    taken: dict[int, tuple[float, float]] = {}
    for index in dict.fromkeys((*first, *_by_weight(cells))):
        long = len(texts[index]) * _CHARACTER
        left = _anchored(cells[index], anchors[index]) * width / 100
        left -= {"start": 0.0, "middle": long / 2, "end": long}[anchors[index]]
        right = left + long
        free = all(right + _APART < begin or left - _APART > end for begin, end in taken.values())
        if free and left >= 0 and right <= width:
            taken[index] = (left, right)
    return list(taken)


def _by_weight(cells: Sequence[LadderCell]) -> Iterable[int]:
    last = len(cells) - 1
    inside = [cell.inside for cell in cells]
    borders = [i for i in range(last + 1) if inside[i] and (i in (0, last) or not (inside[i - 1] and inside[i + 1]))]
    marked = [i for i in range(last + 1) if cells[i].here or cells[i].plain]
    return dict.fromkeys([*borders, *marked, 0, last, *range(last + 1)])
