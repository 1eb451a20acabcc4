"""Random workloads of a space that a subsystem supports."""

from __future__ import annotations

from random import Random

from collie.errors import UsageError
from collie.simulator.capabilities import capabilities, unsupported_reason
from collie.simulator.hardware import Subsystem
from collie.workloads.pruning import prune
from collie.workloads.space import Space
from collie.workloads.workload import Workload

POINTS = 3_000
"""Workloads to draw. With 95 %, they include a mechanism that one in 1,000 shows. Judging them takes seconds."""


def draw(subsystem: Subsystem, space: Space, points: int = POINTS) -> list[Workload]:
    """Draw workloads that the subsystem supports. The same arguments give the same workloads.

    Raises:
        UsageError: the subsystem supports no workload of the space.
    """
    try:
        supported, _ = prune(space, capabilities(subsystem))
    except ValueError as error:
        raise UsageError(f"subsystem {subsystem.name} supports no workload of space {space.name}: {error}") from None
    rng = Random(0)
    drawn = (supported.sample(rng) for _ in range(points))
    # Each capability limits a single dimension, so unsupported combinations can remain.
    return [workload for workload in drawn if unsupported_reason(subsystem, workload) is None]
