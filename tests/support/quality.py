"""How good a minimal feature set is, against the ground truth of a simulated subsystem.

Precision: the share of points inside the set that are anomalous, through any mechanism. Half of the points are plain
wherever the set names nothing (as plain as set and constraints allow), half are random there. What the set names is
drawn anew each time from the values of the ladders that satisfy it. A set that lacks a condition loses precision.

Recall: the share of a mechanism's true region that the set covers. The region is visited by a random walk from the
subsystem's witness of the mechanism: one dimension mutated at a time, a move accepted while the workload stays
anomalous with every *other* mechanism cured. A set with a superfluous or too narrow condition loses recall; so does one
of several sets that share a region, so recall is also of interest for all sets of a mechanism together.

Points that the device cannot run count nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from collie.simulator.capabilities import unsupported_reason
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload
from tests.support.regions import Redrawing

_MAX_REJECTED = 200
"""Moves in a row that leave the region: then the walk begins again at the witness."""

_MADE_OF = {
    "min_message_bytes": ("messages",),
    "max_message_bytes": ("messages",),
    "min_segment_bytes": ("messages", "sge_count", "sge_split"),
    "max_segment_bytes": ("messages", "sge_count", "sge_split"),
    "gpu_hosts": ("memory", "peer_memory"),
    "far_hosts": ("numa_node", "peer_numa_node"),
    "total_qps": ("qps", "direction"),
    "total_mrs": ("qps", "mrs_per_qp"),
    "total_recv_wqes": ("qps", "recv_wq_depth"),
    "total_send_wqes": ("qps", "send_wq_depth"),
}
"""The dimensions behind each derived feature."""


def precision(
    space: Space, mfs: Mfs, witness: Workload, subsystem: SubsystemFile, truth: Truth, points: int, rng: Random
) -> float:
    """Return the share of points inside a set that are anomalous.

    Args:
        space: where to draw.
        mfs: the set.
        witness: a workload that it covers; drawing starts from it.
        subsystem: tells what the device cannot run.
        truth: of the same subsystem.
        points: how many to draw.
        rng: of the drawing.
    """
    half = points // 2
    drawn = inside(space, mfs, witness, half, rng, rest_plain=True)
    drawn += inside(space, mfs, witness, points - half, rng, rest_plain=False)
    runnable = [workload for workload in drawn if not unsupported_reason(subsystem, workload)]
    return float(np.mean(truth.severities(runnable) > 0)) if runnable else float("nan")


def inside(space: Space, mfs: Mfs, witness: Workload, points: int, rng: Random, *, rest_plain: bool) -> list[Workload]:
    """Draw workloads that a set covers, dimension by dimension, each point going on from the one before.

    Rejection would take years in a region of one point in a million.
    """
    names = list(space.dimensions)
    if rest_plain:
        witness = _plainer(space, mfs, witness)
        named = {part for condition in mfs.conditions for part in _MADE_OF.get(condition.dimension, ())}
        named |= {condition.dimension for condition in mfs.conditions}
        names = [name for name in names if name in named]
    drawn, redrawing = list[Workload](), Redrawing(space, mfs, witness)
    for _ in range(points):
        rng.shuffle(names)
        for name in names:
            redrawing.redraw(name, rng)
        workload = redrawing.workload
        drawn.append(_plainer(space, mfs, workload, names) if rest_plain else workload)
    return drawn


def _plainer(space: Space, mfs: Mfs, workload: Workload, but: Sequence[str] = ()) -> Workload:
    """Make plain every dimension that the set and the constraints leave free."""
    for name in space.dimensions:
        if name not in but:
            candidate = workload.with_(**{name: space.base.get(name)})
            if mfs.covers(candidate) and space.allows(candidate):
                workload = candidate
    return workload


def true_region(
    space: Space, mechanism: Mechanism, subsystem: SubsystemFile, truth: Truth, points: int, rng: Random
) -> list[Workload]:
    """Walk through the region in which a mechanism by itself makes workloads anomalous.

    Raises:
        LookupError: the subsystem has no witness of the mechanism, or the witness has no neighbour in its region.
    """
    witness = next((one.trigger for one in subsystem.witnesses if one.mechanism is mechanism), None)
    if witness is None:
        raise LookupError(f"subsystem {subsystem.name} has no witness of {mechanism}")
    workload, visited, rejected, restarts = witness, list[Workload](), 0, 0
    while len(visited) < points:
        candidate = space.mutate(workload, rng)
        if not unsupported_reason(subsystem, candidate) and truth.severities_alone(mechanism, [candidate])[0] > 0:
            workload, rejected = candidate, 0
            visited.append(candidate)
            continue
        rejected += 1
        if rejected >= _MAX_REJECTED:
            workload, rejected, restarts = witness, 0, restarts + 1
            if restarts > points:
                raise LookupError(f"the witness of {mechanism} has no neighbour that shows it")
    return visited


def recall(sets: Sequence[Mfs], region: Sequence[Workload]) -> float:
    """Return the share of a region that any of some sets covers."""
    return sum(any(mfs.covers(workload) for mfs in sets) for workload in region) / len(region)
