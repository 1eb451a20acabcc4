"""Workloads just outside a set, which tell whether each of its conditions is needed where it says so.

Hypotheses can agree on a threshold that no run has tested: the prior alone prefers it, or a healthy run that breaks
several conditions. A reader takes a threshold for tested. So one step beyond it has to be healthy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from collie.search.candidates import Candidate
from collie.search.hypotheses import Hypotheses

Floats = NDArray[np.float64]


def untested(thresholds: Floats, near: Sequence[Candidate], hypotheses: Hypotheses) -> Iterator[list[Candidate]]:
    """Yield for each condition that no healthy run tests those candidates that break it, and it alone, by least.

    `thresholds` are those of the set, shape (limits), -inf for no condition. A run tests a condition if it breaks this
    one alone, and by no more than any of the candidates.
    """
    points = np.array([candidate.point for candidate in near])
    for place in np.flatnonzero(np.isfinite(thresholds)).tolist() if len(points) else ():
        others = thresholds.copy()
        others[place] = -np.inf
        outside = (points >= others).all(axis=1) & (points[:, place] < thresholds[place])
        if not outside.any():
            continue
        others[place] = nearest = points[outside, place].max()
        if not hypotheses.is_healthy_between(others, thresholds[place], place):
            yield [near[index] for index in np.flatnonzero(outside & (points[:, place] == nearest)).tolist()]
