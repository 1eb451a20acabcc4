"""A testbed with trouble in some runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from collie.detect.measurement import Watch
from collie.ports import HostLost, RunResult
from collie.testing.fakes import FakeTestbed
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

Trouble = Callable[[Workload, int], RunResult | None]
HANGS = HostLost("b", "it hangs", 99.0)


@dataclass
class Troubled(FakeTestbed):
    """A testbed with another result of some runs."""

    trouble: Trouble = lambda _workload, _run: None

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        result = super().measure(workload, run, watch, on)
        return self.trouble(workload, run) or result
