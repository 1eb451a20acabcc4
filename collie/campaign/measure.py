"""Recorded, judged runs: the common part of search, reproduction and calibration.

The coroutines serve several pairs side by side (`lanes.py`). The blocking forms serve a single pair.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from itertools import cycle, islice

from collie.campaign.budget import Budget, BudgetSpent
from collie.campaign.events import PairSetAside, RunFinished
from collie.campaign.judgement import Judgement
from collie.campaign.lanes import Lane, LaneLost, LaneScheduler, LaneTask, PhaseOf, RunRequest, T, alone
from collie.campaign.observations import LostHost
from collie.campaign.pace import Pace
from collie.campaign.safety import Guard
from collie.campaign.siblings import SickPlain, delivered, is_too_slow, unfit
from collie.detect.bounds import Bounds
from collie.detect.judge import judge
from collie.detect.measurement import Measurement
from collie.detect.reading import RunReading, reading_of
from collie.detect.signature import Levels
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.detect.thresholds import Loss, Thresholds
from collie.errors import TestbedError
from collie.ports import (
    CampaignStore,
    HostLost,
    Measured,
    ProgressSink,
    RunRecord,
    RunResult,
    SetupFailed,
    Testbed,
    Unsupported,
)
from collie.workloads.setup import SetUp, made_for_all, misfit
from collie.workloads.workload import Workload

QUALIFY = "qualify"
"""Purpose of runs that compare or check pairs."""
_EXPLAINING = ("extract", "claim", "control")
"""Purposes of runs that vary the messages of one transport again and again, so that its curve pays."""
_SETUP_TRIES = 3
"""Limit on attempts to set up one probe."""
_FAILURES_IN_A_ROW = 5
"""Consecutive failed set-ups after which a pair must prove that it still works."""
_SIBLING_TRIES = 3
"""Limit on runs for one sound reading of a plain sibling."""
_LINKS_SECONDS = 600.0
"""Testbed time after which the links are timed again."""


def not_run_again(lost: LostHost) -> RunReading:
    """Return the reading of what cost a host."""
    return RunReading(inconclusive(f"not run again: it cost host {lost.host}"))


class Measurer:
    """Runs and judges workloads on one testbed, or on several equal ones.

    Attributes:
        judgement: what the runs so far say of a run.
        set_aside: pairs that no longer measure, with the reason.
        budget: a gate replaces it for each part of its campaign.
        sick: plain traffic that is itself anomalous and that no one has taken as suspicions yet.
    """

    def __init__(
        self,
        testbed: Testbed,
        store: CampaignStore,
        bounds: Bounds,
        thresholds: Thresholds,
        budget: Budget,
        sink: ProgressSink,
        guard: Guard | None = None,
        levels: Levels | None = None,
        lanes: Sequence[Lane] = (),
        phases: int = 1,
    ) -> None:
        self._guard = guard or Guard()
        self.scheduler = LaneScheduler(lanes or [alone(testbed)], testbed.info.virtual_time, store, sink, self._guard)
        self.catalog = testbed.info.catalog
        self._store = store
        self.judgement = Judgement(bounds, thresholds, testbed.info.catalog, levels)
        self._bounds = bounds
        self._thresholds = thresholds
        self.budget = budget
        self._sink = sink
        self.failed: Tally[str] = Tally()
        self.unsupported = 0
        self.refused: dict[Workload, str] = {}
        self.lost: dict[Workload, LostHost] = {}
        self.plain: list[Measurement] = []
        self.sick: list[SickPlain] = []
        self._ran: list[Workload] = []
        self.set_aside: dict[str, str] = {}
        self._pace = Pace()
        self._phases = phases
        self._curves: set[Workload] = set()
        self._links_timed_at = -_LINKS_SECONDS

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The active lanes."""
        return self.scheduler.lanes

    def retire(self, lane: Lane, reason: str) -> None:
        """Remove a lane and record the reason."""
        self.scheduler.lanes = tuple(each for each in self.lanes if each is not lane)
        self.set_aside[lane.name] = reason
        self._sink.on_event(PairSetAside(lane.name, reason))

    @property
    def runs(self) -> int:
        """Number of runs begun, recorded ones included."""
        return self.scheduler.runs

    @property
    def further_phases(self) -> int:
        """Number of runs on a set-up that an earlier run made."""
        return self.scheduler.further_phases

    @property
    def elapsed_seconds(self) -> float:
        """Testbed time at the end of the last delivered run."""
        return self.scheduler.elapsed_seconds

    def judged(self, workload: Workload, purpose: str) -> tuple[RunResult, Verdict | None]:
        """Run `judging` on the only lane, and wait for the result."""
        record, verdict = self._alone(self.judging(self.lanes[0], workload, purpose))
        return record.result, verdict

    def probe(self, workload: Workload, purpose: str) -> RunReading | None:
        """Run `probing` on the only lane, and wait for the result."""
        return self._alone(self.probing(self.lanes[0], workload, purpose))

    def measure_sibling(self, workload: Workload) -> None:
        """Measure the plain sibling again, for a recent bound. One run suffices if the bound is known."""
        tries = 1 if self.judgement.knows_bound(workload) else _SIBLING_TRIES
        self._alone(self.freshening(self.lanes[0], workload, tries))

    async def freshening(self, lane: Lane, workload: Workload, tries: int = _SIBLING_TRIES) -> None:
        """Measure the plain sibling again, and the one that imitates control verbs if it bounds the workload, too."""
        await self.measuring_sibling(lane, workload, tries)
        imitating = self._bounds.imitating(workload)
        if imitating is not None and self._bounds.settled(imitating):
            await self.measuring_sibling(lane, imitating, tries)

    def _alone(self, task: LaneTask[T]) -> T:
        (lane,) = self.lanes
        return self.scheduler.drive({lane: task})[lane]

    async def running(self, lane: Lane, workload: Workload, purpose: str, on: PhaseOf | None = None) -> RunRecord:
        """Run a workload once and record it without a verdict.

        Raises:
            BudgetSpent: no further run can begin.
            TestbedError: the testbed is gone.
        """
        return await self._run(lane, workload, purpose, on)

    async def judging(
        self, lane: Lane, workload: Workload, purpose: str, on: PhaseOf | None = None, asked: Symptom | None = None
    ) -> tuple[RunRecord, Verdict | None]:
        """Run a workload once and judge it. If the verdict depends on the plain sibling, measure that first."""
        record = await self.recording(lane, workload, purpose, on)
        return record, await self.judging_record(lane, record, asked)

    async def recording(self, lane: Lane, workload: Workload, purpose: str, on: PhaseOf | None = None) -> RunRecord:
        """Run a workload once and record it, to be judged when the other phases of its set-up have run."""
        return await self._run(lane, workload, purpose, on, announce=False)

    async def measuring_siblings(self, lane: Lane, records: Sequence[RunRecord]) -> None:
        """Measure the plain siblings that the verdicts on several runs depend on, as phases where they fit."""

        def needed() -> dict[Workload, Workload]:
            return {
                self._bounds.sibling(each.workload): each.workload
                for each in records
                if isinstance(each.result, Measured)
                and self.judgement.judged(each.workload, each.result.measurement, "search") is None
            }

        siblings = list(needed())
        made_for = made_for_all(siblings) if len(siblings) > 1 else None
        for sibling in siblings:
            if (workload := needed().get(sibling)) is not None:  # an earlier sibling may decide the verdict
                fits = made_for is not None and misfit(sibling, made_for) is None
                await self.measuring_sibling(lane, workload, on=PhaseOf(made_for) if made_for and fits else None)

    def leave_unjudged(self, lane: Lane, record: RunRecord) -> Verdict | None:
        """Announce a recorded run whose verdict no further run can settle, and return the verdict so far."""
        verdict = None
        if isinstance(record.result, Measured):
            verdict = self.judgement.judged(record.workload, record.result.measurement, record.purpose)
        if verdict is not None and record.verdict is None:
            self._store.annotate(record.run, verdict, lane.driven)
        self._announce(lane, record, verdict)
        return verdict

    async def judging_record(self, lane: Lane, record: RunRecord, asked: Symptom | None = None) -> Verdict | None:
        """Judge a recorded run. If the verdict depends on the plain sibling, measure that first.

        A run that was `asked` whether it shows a symptom needs no sibling if throughput does not decide. Then its
        throughput is left unjudged.
        """
        verdict = None
        try:
            if isinstance(record.result, Measured):
                measurement = record.result.measurement
                if asked is not None and self.judgement.is_free_of(asked, record.workload, measurement):
                    verdict = inconclusive(f"no {asked.words}; its throughput was not judged")
                    if record.verdict is None:
                        self._store.annotate(record.run, verdict, lane.driven)
                    return Verdict(Outcome.NORMAL, verdict.reason)
                verdict = await self._judge(lane, record.workload, measurement, record.purpose)
                verdict = self.judgement.learn(record, verdict, measurement)
                if record.verdict is None:  # a replayed run can have its verdict on record
                    self._store.annotate(record.run, verdict, lane.driven)
        finally:  # the sibling can raise `BudgetSpent`, but this run is on record
            self._announce(lane, record, verdict)
        return verdict

    async def probing(
        self, lane: Lane, workload: Workload, purpose: str, on: PhaseOf | None = None, asked: Symptom | None = None
    ) -> RunReading | None:
        """Run a workload, repeat a failed set-up, and return the reading. Return None if the device cannot run it."""
        cause = ""
        for _ in range(_SETUP_TRIES):
            if (lost := self.lost_to(workload)) is not None:
                return not_run_again(lost)
            record, verdict = await self.judging(lane, workload, purpose, on, asked)
            if isinstance(record.result, Measured) and verdict is not None:
                return reading_of(verdict, record.result.measurement)
            if isinstance(record.result, Unsupported):
                return None
            if isinstance(record.result, SetupFailed):
                cause = record.result.cause
        return RunReading(inconclusive(f"the traffic could not be set up {_SETUP_TRIES} times: {cause}"))

    def lost_to(self, workload: Workload, on: SetUp | None = None) -> LostHost | None:
        """Return the run that cost a host, of a workload or of a phase before it. Neither is then run again."""
        phases = (*on.before, workload) if on is not None else (workload,)
        return next((self.lost[each] for each in phases if each in self.lost), None)

    async def require_working(self, lane: Lane) -> None:
        """Retire a pair whose set-ups all fail, unless it can still run earlier workloads.

        Failures are faster than measurements, so such a pair would take most proposals and confirm nothing.

        Raises:
            LaneLost: the pair was retired.
            TestbedError: the pair is the last. A resume tries it again.
        """
        if len(lane.failed) < _FAILURES_IN_A_ROW:
            return
        ran = [workload for workload in self._ran if workload not in lane.failed and self.lost_to(workload) is None]
        control = "what could be run before" if ran else "plain traffic"
        failed = len(lane.failed)  # the runs below add to `lane.failed`
        for workload in islice(cycle(ran or [self._bounds.sibling(lane.failed[-1])]), _SETUP_TRIES):
            if self.lost_to(workload) is not None:
                break  # nothing is left that could tell
            last = await self._run(lane, workload, QUALIFY)
            if not isinstance(last.result, SetupFailed):
                break
            cause = last.result.detail
        else:
            self._give_up(lane, last, f"{failed} set-ups in a row failed, and so did {control}: {cause}")
        lane.failed.clear()

    def _give_up(self, lane: Lane, last: RunRecord, detail: str) -> None:
        if len(self.lanes) > 1:
            lost = LaneLost(last, lane.name, detail)
            self.retire(lane, lost.reason)
            raise lost
        if not self.scheduler.was_recorded(last.run):
            raise TestbedError(f"{lane.name} sets up nothing any more: {detail}")

    @property
    def set_up_seconds(self) -> float:
        """Return the mean time of a run with a set-up of its own."""
        return self._pace.whole

    @property
    def phase_cost(self) -> float:
        """Return the mean time of a further phase, in units of that of a run with a set-up of its own."""
        return self._pace.phase

    @property
    def budget_share(self) -> float:
        """Used share of the budget, 0..1."""
        return self.budget.share(self.elapsed_seconds, self.runs)

    async def measuring_sibling(
        self, lane: Lane, workload: Workload, tries: int = _SIBLING_TRIES, on: PhaseOf | None = None
    ) -> None:
        """Measure the plain sibling again, up to `tries` times until a run is sound.

        It is a phase of the set-up that stands if it fits.
        """
        sibling = self._bounds.sibling(workload)
        on = on or lane.phase_for(sibling)
        sick: list[SickPlain] = []
        beside_victim, slow = self._thresholds.loss_of is Loss.OF_VICTIM, 0
        for _ in range(tries):
            if (lost := self.lost_to(sibling)) is not None:
                self.judgement.tried_sibling(sibling, f"cost host {lost.host}: {lost.detail}")
                return
            record = await self._run(lane, sibling, "sibling", on)
            result = record.result
            verdict = self.judgement.unbounded(sibling, result.measurement) if isinstance(result, Measured) else None
            why = unfit(result, verdict, beside_victim=beside_victim)
            self.judgement.tried_sibling(sibling, why)
            if isinstance(result, Unsupported | HostLost):
                return
            if isinstance(result, Measured) and not why:
                self._bounds.learn(sibling, delivered(sibling, result.measurement))
                self.plain.append(result.measurement)
                await self._compare(lane, record, result.measurement)
                await self._timing_links(lane, workload)
                return
            if isinstance(result, Measured) and verdict is not None and verdict.is_anomalous:
                sick.append(SickPlain(record, result.measurement, verdict, lane))
            slow += beside_victim and isinstance(result, Measured) and is_too_slow(result.measurement)
        # One disturbed run proves nothing, but a sibling that is unfit for one reason in every try is no reference.
        if _SIBLING_TRIES in {len(sick), slow} and not self._bounds.settled(sibling):
            self._bounds.distrust(sibling)
            if sick:
                self.suspect(sick[0])

    async def _compare(self, lane: Lane, record: RunRecord, measurement: Measurement) -> None:
        """Compare a plain workload that misses the specification with plain traffic of other transports."""
        plain, deficit = record.workload, self._thresholds.throughput_deficit
        if self._bounds.is_outpaced(plain) or self._thresholds.loss_of is Loss.OF_VICTIM:
            return
        for relative in self._bounds.relatives(plain, deficit):
            if not self._bounds.settled(relative):
                await self.measuring_sibling(lane, relative)
            if self._bounds.reaches(relative, deficit):
                self._bounds.outpace(plain, relative)
                verdict = judge(plain, measurement, self._bounds.tightest(plain), self._thresholds)
                self.suspect(SickPlain(record, measurement, verdict, lane))
                return

    def suspect(self, sick: SickPlain) -> None:
        """Remember plain traffic that is itself anomalous."""
        if sick.verdict.is_anomalous:
            self.sick.append(sick._replace(verdict=self.judgement.with_signature(sick.verdict, sick.measurement)))

    async def _judge(self, lane: Lane, workload: Workload, measurement: Measurement, purpose: str) -> Verdict:
        verdict = await self._by_sibling(lane, workload, measurement, purpose)
        plain = self._bounds.unbatched(workload)
        if verdict.symptom is Symptom.LOW_THROUGHPUT and plain is not None and not self._bounds.settled(plain):
            await self.measuring_sibling(lane, plain)
            verdict = await self._by_sibling(lane, workload, measurement, purpose)  # brackets may no longer decide
        imitating = self._bounds.imitating(workload)
        is_relative = verdict.symptom is not None and verdict.symptom.is_relative
        if imitating is None or not is_relative or self._bounds.is_outpaced(workload):
            return verdict
        sibling = self._bounds.sibling(imitating)
        if not self.judgement.tried(sibling):
            await self.measuring_sibling(lane, imitating)
            verdict = await self._by_sibling(lane, workload, measurement, purpose)
        return verdict if self._bounds.is_reference(sibling) else self.judgement.without_imitation(imitating)

    async def _by_sibling(self, lane: Lane, workload: Workload, measurement: Measurement, purpose: str) -> Verdict:
        if (verdict := self.judgement.judged(workload, measurement, purpose)) is not None:
            return verdict
        if purpose in _EXPLAINING and self._phases > 1 and self._thresholds.loss_of is Loss.OF_WORKLOAD:
            await self._measuring_curve(lane, workload)
            if (verdict := self.judgement.judged(workload, measurement, purpose)) is not None:
                return verdict
        await self.measuring_sibling(lane, workload)
        return self.judgement.settled(workload, measurement)

    async def _timing_links(self, lane: Lane, workload: Workload) -> None:
        """Run the plain traffic whose latency the calibration knows, unless a recent run tells how the links are."""
        load, recent = self.judgement.load, self.elapsed_seconds - self._links_timed_at < _LINKS_SECONDS
        if load is None or not workload.offered_bps or workload == load or recent or self.lost_to(load) is not None:
            return
        self._links_timed_at = self.elapsed_seconds
        record = await self._run(lane, load, "sibling", lane.phase_for(load))
        result = record.result
        if isinstance(result, Measured) and self.judgement.unbounded(load, result.measurement).is_normal:
            verdict = self.judgement.learn_links(result.measurement)
            if verdict is not None:
                self.suspect(SickPlain(record, result.measurement, verdict, lane))

    async def _measuring_curve(self, lane: Lane, workload: Workload) -> None:
        """Measure the curve of a workload's transport, once, as phases of one set-up."""
        curve = self._bounds.curve(workload)
        if not curve or curve[0] in self._curves:
            return
        self._curves.add(curve[0])
        on = PhaseOf(made_for_all(curve), first=True)
        for plain in curve:
            if not self.judgement.knows_bound(plain):
                await self.measuring_sibling(lane, plain, tries=1, on=on)
                on = PhaseOf(on.made_for)

    async def _run(
        self, lane: Lane, workload: Workload, purpose: str, on: PhaseOf | None = None, *, announce: bool = True
    ) -> RunRecord:
        if self.budget.spent(self.elapsed_seconds, self.runs):
            raise BudgetSpent
        if self._guard.spent and not self.scheduler.replaying:  # replayed runs were within their limits
            raise BudgetSpent("pause budget")
        try:
            record = await RunRequest(workload, purpose, on)
        except LaneLost as lost:
            self._announce(lane, lost.record, None)
            self.retire(lane, lost.reason)
            raise
        if isinstance(record.result, Measured):
            lane.failed.clear()
            self._pace.learn(record)
            if len(self._ran) < _SETUP_TRIES and workload not in self._ran:
                self._ran.append(workload)
        if isinstance(record.result, SetupFailed):
            lane.failed.append(workload)
            self.failed[record.result.cause] += 1
        if isinstance(record.result, Unsupported):
            self.unsupported += 1
            self.refused[workload] = record.result.reason
        if isinstance(record.result, HostLost):
            self.lost[workload] = LostHost(record.run, record.result.host, workload, record.result.detail)
        if announce:
            self._announce(lane, record, None)
        return record

    def _announce(self, lane: Lane, record: RunRecord, verdict: Verdict | None) -> None:
        replayed = self.scheduler.was_recorded(record.run)
        self._sink.on_event(RunFinished(record, verdict, self.budget_share, replayed, lane.driven, lane.temperature))
