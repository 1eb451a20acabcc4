"""Workloads drawn from inside a minimal feature set."""

from __future__ import annotations

from random import Random

from collie.search.joins import reduced
from collie.search.phases import answers
from collie.workloads.dimension import Choice, Vector
from collie.workloads.feature import Mfs
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import QpType, Workload

_SWEEPS = 2
_TRIES = 20
_PAGE_BYTES = 4096


def draw_inside(
    space: Space, mfs: Mfs, start: Workload, rng: Random, *, rest_plain: bool = False, on: SetUp | None = None
) -> Workload:
    """Return a workload that a set covers, with each value drawn uniformly from its ladder.

    The dimensions are redrawn in turn from the values that keep the set and the constraints of the space, because
    rejection would take too long in a small set. `start` lies inside. With `rest_plain` the dimensions that the set
    does not name are plain where possible. With `on`, where the start fits, the workload can be a phase of that set-up.
    """
    workload = start
    names = list(space.dimensions)
    for _ in range(_SWEEPS):
        rng.shuffle(names)
        for name in names:
            workload = _redrawn(space, mfs, workload, name, rng, on)
    return reduced(workload, mfs, space) if rest_plain else workload


def _redrawn(space: Space, mfs: Mfs, workload: Workload, name: str, rng: Random, on: SetUp | None) -> Workload:
    dimension = space.dimensions[name]
    if isinstance(dimension, Vector):
        longest = workload.mtu if workload.qp_type is QpType.UD else dimension.element.high
        sizes = [size for size in dimension.element.ladder if size <= longest]
        length = rng.randint(1, dimension.max_length)
        drawn = [tuple(rng.choice(sizes) for _ in range(length)) for _ in range(_TRIES)]
        candidates = [_with_messages(workload, messages) for messages in drawn]
    else:
        values = list(dimension.values if isinstance(dimension, Choice) else dimension.ladder)
        rng.shuffle(values)
        candidates = [workload.with_(**{name: value}) for value in values]
    fitting = (each for each in candidates if mfs.covers(each) and space.allows(each))
    return next((each for each in fitting if on is None or answers(space, each, on)), workload)


def _with_messages(workload: Workload, messages: tuple[int, ...]) -> Workload:
    """Return a workload with other messages, and a region that holds the longest."""
    pages = -(-max(messages) // _PAGE_BYTES)
    return workload.with_(messages=messages, mr_bytes=max(workload.mr_bytes, pages * _PAGE_BYTES))
