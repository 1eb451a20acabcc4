"""Single workloads outside a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from collie.campaign.budget import Budget, BudgetSpent
from collie.campaign.calibrate import DENSE_SIZES, calibrate, plan
from collie.campaign.measure import Measurer
from collie.campaign.reproduce import CountersAtDiscovery, Plan, Reproduction, planned, reproduce
from collie.campaign.safety import OPTIONS, Guard, SafetyRecord
from collie.detect.bounds import Bound, Bounds, Calibration
from collie.detect.judge import Thresholds
from collie.detect.signature import Levels
from collie.detect.symptom import Symptom, Verdict
from collie.errors import TestbedError
from collie.ports import CampaignStore, ProgressSink, RunResult, Testbed
from collie.workloads.feature import Mfs
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Opcode, Workload


@dataclass(frozen=True, slots=True)
class Case:
    """An anomaly to run again, named as on the command line.

    Attributes:
        workload: it satisfies `mfs`.
        on: the set-up that it needs, after the phases that bring it. None: any set-up of its own.
    """

    name: str
    workload: Workload
    symptom: Symptom
    mfs: Mfs
    at_discovery: CountersAtDiscovery | None = None
    on: SetUp | None = None


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """One run, with its verdict if it was measured. `bound` is the healthy throughput of a receiving host."""

    workload: Workload
    sibling: Workload
    bound: Bound
    result: RunResult
    verdict: Verdict | None


class SingleRunSession:
    """A testbed for single workloads. `safety` is None before the end, and for a simulation without limits."""

    def __init__(
        self,
        testbed: Testbed,
        store: CampaignStore,
        space: Space,
        thresholds: Thresholds,
        calibration: Calibration,
        sink: ProgressSink,
        guard: Guard | None = None,
        levels: Levels | None = None,
    ) -> None:
        self.safety: SafetyRecord | None = None
        self.space = space
        self.testbed = testbed
        self._bounds = Bounds(testbed.specification, calibration, space)
        self._measurer = Measurer(testbed, store, self._bounds, thresholds, Budget(), sink, guard, levels)

    def measure(self, workload: Workload) -> JudgedRun:
        """Run the plain sibling and then the workload."""
        with within_budget():
            self._measurer.measure_sibling(workload)
        return self.judge(workload)

    def judge(self, workload: Workload) -> JudgedRun:
        """Run a workload. Run its plain sibling only if the known ceiling does not decide the verdict."""
        with within_budget():
            result, verdict = self._measurer.judged(workload, "measure")
        sibling = self._bounds.sibling(workload)
        return JudgedRun(workload, sibling, self._bounds.tightest(workload), result, verdict)

    def calibrate(
        self, repeats: int, sizes: Sequence[int] = DENSE_SIZES, opcodes: Sequence[Opcode] = ()
    ) -> Calibration:
        """Measure plain traffic of every transport, size and given opcode. No opcode means all."""
        with within_budget():
            return calibrate(self._measurer, plan(self.space, sizes, opcodes), repeats)

    def reproduce(self, case: Case, *, repeat: int, controls: bool) -> Reproduction:
        """Run an anomaly again. With `controls`, also run it with each of its conditions broken."""
        with within_budget():
            plan = (
                planned(case.workload, case.mfs, self.space, case.on) if controls else Plan(case.workload, on=case.on)
            )
            return reproduce(
                self._measurer, plan, case.symptom, repeat=repeat, controls=controls, at_discovery=case.at_discovery
            )


@contextmanager
def within_budget() -> Iterator[None]:
    """Turn a spent budget into a TestbedError: a single workload then has no result."""
    try:
        yield
    except BudgetSpent as spent:
        raise TestbedError(
            f"{spent} before the last run; fewer runs need less, and {OPTIONS['pause_per_campaign']} or `safety:` in "
            "the hosts file sets it"
        ) from None
