"""The distance of a change from a published threshold.

An extracted explanation is exact to one step of the ladder: the step outside was measured as normal. A publication
gives "about 500 queue pairs", and 480 may show the anomaly as well. Changes stay one step clear of such thresholds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace

from collie.advise.overlap import Known
from collie.workloads.feature import DERIVED, SOURCES, Condition, Mfs, Op
from collie.workloads.space import Space


def with_margin(known: Known, space: Space) -> Known:
    """Return an anomaly with published thresholds one step wider, or any other unchanged.

    Features of several dimensions have no ladder, so half or twice the threshold is taken. Counts of hosts are exact.
    """
    if not known.is_coarse:
        return known
    return replace(known, mfs=Mfs(tuple(_wider(condition, space) for condition in known.mfs.conditions)))


def _wider(condition: Condition, space: Space) -> Condition:
    name, op, value = condition.dimension, condition.op, condition.value
    if op not in {Op.AT_LEAST, Op.AT_MOST} or name in {"gpu_hosts", "far_hosts"}:
        return condition
    if name in DERIVED and "messages" not in SOURCES[name]:
        return replace(condition, value=(value + 1) // 2 if op is Op.AT_LEAST else value * 2)
    ladder = space.ladder(name)
    below, above = ladder[: bisect_left(ladder, value)], ladder[bisect_right(ladder, value) :]
    beyond = below[-1:] if op is Op.AT_LEAST else above[:1]
    if not beyond or beyond[0] in (ladder[0], ladder[-1]):
        return condition  # no value would remain beyond it
    return replace(condition, value=beyond[0])
