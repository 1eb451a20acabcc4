"""Distances in a space: from plain traffic, and between workloads."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from collie.workloads.dimension import Choice, Ordered
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_STEP = 0.05
_MORE_MESSAGES = 0.5
"""What a step from plain, and a further message, count beside a dimension that is not plain."""


def oddity(workload: Workload, space: Space) -> float:
    """Return how far a workload is from plain: the dimensions that are not, and a little for how far each is."""
    total = 0.0
    for name, dimension in space.dimensions.items():
        value = workload.get(name)
        if value == dimension.plain:
            continue
        total += 1.0
        if isinstance(dimension, Ordered):
            total += _STEP * abs(bisect_left(dimension.ladder, value) - bisect_left(dimension.ladder, dimension.plain))
        elif not isinstance(dimension, Choice):
            total += _MORE_MESSAGES * (len(value) - 1)
    return total


def place(workload: Workload, space: Space) -> NDArray[np.float64]:
    """Return coordinates in which a dimension from end to end, or another choice, is a distance of 1 (city blocks)."""
    found: list[float] = []
    for name, dimension in space.dimensions.items():
        value = workload.get(name)
        if isinstance(dimension, Choice):
            found += [0.5 * (value == other) for other in dimension.values]
            continue
        ladder = dimension.ladder if isinstance(dimension, Ordered) else dimension.element.ladder
        sizes = (value,) if isinstance(dimension, Ordered) else (min(value), max(value))
        found += [bisect_left(ladder, size) / max(1, len(ladder) - 1) for size in sizes]
    return np.array(found)
