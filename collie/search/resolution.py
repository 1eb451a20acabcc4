"""Resolution of a minimal feature set: thresholds are exact to one step of the ladder."""

from __future__ import annotations

from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import Space


def widen_to_untested(mfs: Mfs, space: Space) -> Mfs:
    """Widen every threshold up to the step that did not reproduce the anomaly.

    Extraction does not know the boundary between two steps. A workload in that gap (entry sizes lie off the ladder) is
    the same anomaly.
    """
    return Mfs(tuple(_widened(condition, space) for condition in mfs.conditions))


def _widened(condition: Condition, space: Space) -> Condition:
    ladder = space.ladder(condition.dimension)
    if condition.op is Op.AT_LEAST:
        below = [step for step in ladder if step < condition.value]
        return Condition(condition.dimension, Op.AT_LEAST, below[-1] + 1) if below else condition
    if condition.op is Op.AT_MOST:
        above = [step for step in ladder if step > condition.value]
        return Condition(condition.dimension, Op.AT_MOST, above[0] - 1) if above else condition
    return condition
