"""Distances in a space: from plain traffic, and between workloads."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collie.workloads.dimension import Choice, Dimension, Ordered
from collie.workloads.space import Space
from collie.workloads.workload import Workload, reader

_STEP = 0.05
_MORE_MESSAGES = 0.5
"""Cost of a step from plain and of a further message, relative to a dimension that is not plain."""


class Plainness:
    """Distances of the workloads of a space from plain and from each other."""

    def __init__(self, space: Space) -> None:
        self._dimensions = tuple(space.dimensions.values())
        self._places = tuple(cache(partial(_place, dimension)) for dimension in self._dimensions)
        self._values = reader(tuple(space.dimensions))

    def complexity(self, workload: Workload) -> float:
        """Return the number of dimensions that are not plain, plus a little for how far each is."""
        total = 0.0
        for dimension, value in zip(self._dimensions, self._values(workload), strict=True):
            if value == dimension.plain:
                continue
            total += 1.0
            if isinstance(dimension, Ordered):
                ladder = dimension.ladder
                total += _STEP * abs(bisect_left(ladder, value) - bisect_left(ladder, dimension.plain))
            elif not isinstance(dimension, Choice):
                total += _MORE_MESSAGES * (len(value) - 1)
        return total

    def place(self, workload: Workload) -> NDArray[np.float64]:
        """Return coordinates for city-block distances. Both ends of a dimension, or two choices, are 1 apart."""
        pairs = zip(self._places, self._values(workload), strict=True)
        return np.array([coordinate for place, value in pairs for coordinate in place(value)])


def _place(dimension: Dimension, value: Any) -> tuple[float, ...]:
    if isinstance(dimension, Choice):
        return tuple(0.5 * (value == other) for other in dimension.values)
    ladder = dimension.ladder if isinstance(dimension, Ordered) else dimension.element.ladder
    sizes = (value,) if isinstance(dimension, Ordered) else (min(value), max(value))
    return tuple(bisect_left(ladder, size) / max(1, len(ladder) - 1) for size in sizes)
