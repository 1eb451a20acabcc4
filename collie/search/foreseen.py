"""A known anomaly of another testbed, which may show on this one."""

from __future__ import annotations

from dataclasses import dataclass

from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class ForeseenAnomaly:
    """A known anomaly of another testbed.

    Attributes:
        name: its id there, with that campaign in front: `june/a1`. A published one has its id alone.
        mfs: its set there.
        workloads: workloads that show it there, the plainest first.
    """

    name: str
    mfs: Mfs
    workloads: tuple[Workload, ...]
