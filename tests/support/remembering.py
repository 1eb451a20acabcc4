"""A testbed on which earlier phases of a set-up bring an anomaly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from collie.detect.measurement import Watch
from collie.ports import Measured, RunResult
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

ANY = Mfs((Condition("qps", Op.AT_LEAST, 1),))


@dataclass
class Remembering(FakeTestbed):
    """Pauses after a phase with more queue pairs on the same set-up.

    Attributes:
        ends: whether a set-up ends with its first phase, asked for each.
        on: the set-up of every run.
    """

    ends: Callable[[], bool] = lambda: False
    on: list[SetUp | None] = field(default_factory=list)

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        self.on.append(on)
        used = max((each.qps for each in on.before), default=0) if on is not None else 0
        self.planted = (Planted(ANY),) if used > workload.qps else ()
        result = super().measure(workload, run, watch, on)
        first = on is not None and not on.before
        return replace(result, stands=False) if isinstance(result, Measured) and first and self.ends() else result
