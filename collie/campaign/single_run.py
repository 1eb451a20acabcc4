"""Single workloads outside a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from collie.campaign.budget import Budget, BudgetSpent
from collie.campaign.calibrate import DENSE_SIZES, calibrate, plain_load, plan
from collie.campaign.lanes import Lane, LaneTask, PhaseOf
from collie.campaign.measure import Measurer
from collie.campaign.reproduce import CountersAtDiscovery, Plan, Reproduction, planned, reproduce
from collie.campaign.safety import OPTIONS, Guard, SafetyRecord
from collie.detect.bounds import Bound, Bounds, Calibration, host_bounds
from collie.detect.measurement import Measurement
from collie.detect.signature import Levels
from collie.detect.symptom import Symptom, Verdict
from collie.detect.thresholds import Thresholds
from collie.errors import TestbedError
from collie.ports import CampaignStore, Measured, ProgressSink, RunRecord, RunResult, Testbed
from collie.workloads.feature import Mfs
from collie.workloads.setup import SetUp, made_for_all
from collie.workloads.space import Space
from collie.workloads.workload import Opcode, Workload

_RECOVERED = 1.25
"""Factor of throughput from a slow run to one that may be normal: low throughput lacks a fifth at least."""

T = TypeVar("T")


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
class Phase:
    """The place of a run among several: both numbers count from 1. `apart` is why the set-up before could not serve."""

    set_up: int
    number: int
    made_for: Workload
    apart: str = ""


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """One run, with its verdict if it was measured. `bound` is the healthy throughput of a port."""

    workload: Workload
    sibling: Workload
    bound: Bound
    result: RunResult
    verdict: Verdict | None
    phase: Phase | None = None

    @property
    def host_bounds(self) -> Mapping[str, Bound]:
        """The healthy throughput of each receiving host, by which the verdict is made."""
        return host_bounds(self.workload, self.bound)


@dataclass(frozen=True, slots=True)
class SharedSetUp:
    """Workloads that run as phases of one set-up, in order. `apart` is why the set-up before could not serve them."""

    made_for: Workload
    workloads: tuple[Workload, ...]
    apart: str = ""


def shared_set_ups(workloads: Sequence[Workload], space: Space, phases: int | None = None) -> list[SharedSetUp]:
    """Divide workloads among set-ups without changing their order. `phases` limits the workloads of each."""
    found: list[SharedSetUp] = []
    for workload in workloads:
        before = found[-1].workloads if found else ()
        if before and phases is not None and len(before) >= phases:
            apart = f"a set-up has at most {phases} phase{'s' * (phases > 1)}"
        else:
            apart = _apart(before, workload, space)
        if before and not apart:
            together = (*before, workload)
            found[-1] = replace(found[-1], made_for=made_for_all(together), workloads=together)
        else:
            found.append(SharedSetUp(workload, (workload,), apart))
    return found


def _apart(before: tuple[Workload, ...], workload: Workload, space: Space) -> str:
    """Return why no set-up serves a workload and those before it, or an empty text."""
    together = (*before, workload)
    made_for = made_for_all(together)
    # The common set-up can be too large for the space although no workload is.
    own = {complaint for each in together for complaint in space.complaints(each)}
    too_large = (text for name, text in space.complaints(made_for) if (name, text) not in own)
    misfits = (text for each in together if (text := space.misfit(each, made_for)))
    return next(misfits, None) or next(too_large, "")


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
        self.measure_plain(workload)
        return self.judge(workload)

    def measure_plain(self, workload: Workload) -> None:
        """Run the plain sibling of a workload."""
        with within_budget():
            self._measurer.measure_sibling(workload)

    def measure_all(self, workloads: Sequence[Workload], phases: int | None = None) -> list[JudgedRun]:
        """Run workloads in order, as phases of common set-ups where they fit. Run the plain siblings before each."""
        found: list[JudgedRun] = []
        set_ups = 0
        for shared in shared_set_ups(workloads, self.space, phases):
            apart, number = shared.apart, 0
            with within_budget():
                runs = self._drive(self._phases(self._measurer.lanes[0], shared))
            for record, verdict in runs:
                if record.set_up == record.run:
                    set_ups, number = set_ups + 1, 0
                    apart = "an earlier phase ended the set-up before" if runs[0][0] is not record else shared.apart
                number += 1
                judged = self._judged(record.workload, record.result, verdict)
                found.append(replace(judged, phase=Phase(set_ups, number, shared.made_for, apart)))
        return found

    def measure_together(self, workloads: Sequence[Workload], *, until_normal: bool = False) -> list[JudgedRun]:
        """Run workloads in order, as phases of common set-ups where they fit.

        Plain siblings run last, and only those on which a verdict still depends. With `until_normal`, no workload runs
        after one that looks normal.
        """
        with within_budget():
            runs = self._drive(self._together(self._measurer.lanes[0], workloads, until_normal=until_normal))
        return [self._judged(record.workload, record.result, verdict) for record, verdict in runs]

    async def _together(
        self, lane: Lane, workloads: Sequence[Workload], *, until_normal: bool
    ) -> list[tuple[RunRecord, Verdict | None]]:
        records: list[RunRecord] = []
        for shared in shared_set_ups(workloads, self.space):
            for index, workload in enumerate(shared.workloads):
                if until_normal and records and self._looks_normal(records[-1], records[0]):
                    break
                on = PhaseOf(shared.made_for, first=not index)
                records.append(await self._measurer.recording(lane, workload, "measure", on))
        lane.set_up = lane.set_up_by = None  # what the phases left behind must not lower a plain sibling
        await self._measurer.measuring_siblings(lane, records)
        return [(record, await self._measurer.judging_record(lane, record)) for record in records]

    def _looks_normal(self, record: RunRecord, first: RunRecord) -> bool:
        """Whether a run is normal or, as long as its plain sibling is not measured, has recovered from the first."""
        if not isinstance(record.result, Measured) or not isinstance(first.result, Measured):
            return False
        measurement = record.result.measurement
        verdict = self._measurer.judgement.judged(record.workload, measurement, "measure")
        if verdict is not None:
            return verdict.is_normal
        alike = self._bounds.sibling(record.workload) == self._bounds.sibling(first.workload)
        return alike and _delivered(measurement) > _RECOVERED * _delivered(first.result.measurement)

    @property
    def elapsed_seconds(self) -> float:
        """Testbed time of all runs so far."""
        return self._measurer.elapsed_seconds

    @property
    def runs(self) -> int:
        """Number of runs so far, plain siblings included."""
        return self._measurer.runs

    @property
    def plain(self) -> Sequence[Measurement]:
        """The runs of plain siblings so far."""
        return self._measurer.plain

    async def _phases(self, lane: Lane, shared: SharedSetUp) -> list[tuple[RunRecord, Verdict | None]]:
        plain = {self._bounds.sibling(workload): workload for workload in shared.workloads}
        for common in shared_set_ups(list(plain), self.space):
            for index, sibling in enumerate(common.workloads):
                on = PhaseOf(common.made_for, first=not index)
                await self._measurer.measuring_sibling(lane, plain[sibling], on=on)
        records = [
            await self._measurer.recording(lane, workload, "measure", PhaseOf(shared.made_for, first=not index))
            for index, workload in enumerate(shared.workloads)
        ]
        lane.set_up = lane.set_up_by = None  # what the phases left behind must not lower a plain sibling
        return [(record, await self._measurer.judging_record(lane, record)) for record in records]

    def _drive(self, task: LaneTask[T]) -> T:
        (lane,) = self._measurer.lanes
        return self._measurer.scheduler.drive({lane: task})[lane]

    def judge(self, workload: Workload) -> JudgedRun:
        """Run a workload. Run its plain sibling only if the known ceiling does not decide the verdict."""
        with within_budget():
            result, verdict = self._measurer.judged(workload, "measure")
        return self._judged(workload, result, verdict)

    def _judged(self, workload: Workload, result: RunResult, verdict: Verdict | None) -> JudgedRun:
        return JudgedRun(workload, self._bounds.sibling(workload), self._bound(workload, verdict), result, verdict)

    def _bound(self, workload: Workload, verdict: Verdict | None) -> Bound:
        """Return the bound by which the verdict is made, or the lowest one if the verdict has none."""
        tightest, bps = self._bounds.tightest(workload), verdict.bound_bps if verdict is not None else None
        if bps is not None:
            # Siblings with fewer or more bytes in flight can have decided, and there are more of them by now.
            known = (tightest, self._bounds.ceiling(workload), *filter(None, self._bounds.bracket(workload)))
            return next((bound for bound in known if bound.bps == bps), self._bounds.by_siblings(workload, bps))
        return tightest if self._bounds.known(workload) else self._bounds.bracket(workload)[1] or tightest

    def calibrate(
        self, repeats: int, sizes: Sequence[int] = DENSE_SIZES, opcodes: Sequence[Opcode] = ()
    ) -> Calibration:
        """Measure plain traffic of every transport, size and given opcode. No opcode means all."""
        with within_budget():
            return calibrate(self._measurer, plan(self.space, sizes, opcodes), repeats, plain_load(self.space))

    def reproduce(self, case: Case, *, repeat: int, controls: bool) -> Reproduction:
        """Run an anomaly again. With `controls`, also run it with each of its conditions broken."""
        with within_budget():
            plan = (
                planned(case.workload, case.mfs, self.space, case.on) if controls else Plan(case.workload, on=case.on)
            )
            return reproduce(
                self._measurer, plan, case.symptom, repeat=repeat, controls=controls, at_discovery=case.at_discovery
            )


def _delivered(measurement: Measurement) -> float:
    return sum(host.delivered_bps or 0.0 for host in measurement.hosts)


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
