"""The conditions that a diagnosis suggests."""

from __future__ import annotations

from collie.campaign.diagnose import Diagnosis
from collie.workloads.dimension import Ordered
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import Space


def suspected_set(diagnosis: Diagnosis, space: Space) -> Mfs:
    """Return the conditions that the changes that cure break: each limit lies at the workload's own value."""
    workload = diagnosis.run.workload
    conditions = []
    for change in diagnosis.changes:
        name, after = change.dimension, change.run.workload.get(change.dimension)
        before = workload.get(name)
        if not change.cures or before == after:
            continue
        if name == "messages":
            shorter = max(after) < max(before) or min(after) < min(before)
            conditions.append(
                Condition("max_message_bytes", Op.AT_LEAST, max(before))
                if shorter
                else Condition("min_message_bytes", Op.AT_MOST, min(before))
            )
        elif isinstance(space.dimensions[name], Ordered):
            conditions.append(Condition(name, Op.AT_LEAST if after < before else Op.AT_MOST, before))
        else:
            conditions.append(Condition(name, Op.EQUAL, before))
    return Mfs(tuple(conditions))
