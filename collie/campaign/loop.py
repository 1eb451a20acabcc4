"""The search loop: ask, measure, judge, confirm, extract, tell.

Rules.
1. Nothing is told to the strategy before it is on record.
2. A workload that a known MFS covers is not measured; the strategy hears `skipped`. But the first few that each
   explanation covers are measured all the same (*audits*): a healthy one contradicts it, and it is revised.
3. A suspicion is confirmed on fresh queue pairs before it is called an anomaly; only then its MFS is extracted.
4. An explanation takes tens of runs. A recipe may put it off until it pays: when the search has met the anomaly often
   enough (same transport and symptom, alike signature: such a *sighting* is not confirmed again), or when what is left
   of the budget is needed for all that wait. What is alike to something explained comes last. What an earlier
   explanation covers by then is marked as the same.
5. Every run counts towards the budget, whatever its purpose. The budget ends the loop at any depth; an anomaly whose
   extraction it cut short is kept and says so.
6. Several pairs of hosts share everything that is known; each goes through the same loop (`lanes.py`). A suspicion is
   confirmed by another pair than the one that raised it. Where it does not show there, but again where it was seen, it
   tells of that pair and not of its model: the pair is set aside and named, and nothing is found.
7. What a pair was doing when it was lost, another begins again: a proposal, a confirmation, an explanation (which need
   not measure again what the lost pair has measured for it).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from collie.campaign.budget import BudgetSpent
from collie.campaign.events import AnomalyConfirmed, AnomalyExplained, AnomalyMerged, SuspicionDropped
from collie.campaign.lanes import Lane, LaneLost
from collie.campaign.measure import LostHost, Measurer
from collie.campaign.triage import ConfirmedAnomaly, Observation, Suspicion, Triage
from collie.counters.catalog import Catalog
from collie.detect.confirm import Confirmed, Reliability, confirm, trust
from collie.detect.symptom import Symptom, Verdict
from collie.ports import CampaignStore, Measured, ProgressSink, RunRecord, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly, KnownAnomalies
from collie.search.discovery import DiscoveryEstimate
from collie.search.discriminating_counters import rank
from collie.search.extract import extract
from collie.search.recipe import Recipe
from collie.search.strategy import Answer, ProposalOutcome, Strategy
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_MAX_SKIPPED = 2000
"""Proposals in a row that known anomalies cover: then they cover, for practical purposes, the space."""

_MAX_OUTAGES = 3
"""Runs of one proposal that may end in a dead data path: it may be the proposal that kills it."""

_EXPLANATION_RUNS = 35
"""Runs that an explanation is expected to take, when some are kept back for it."""

Result = TypeVar("Result")


class _SetAside(Exception):
    """The pair whose course this is takes no further part."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How a campaign ended.

    Attributes:
        runs: measurements of every purpose.
        failed_runs: set-ups that failed, by cause.
        unsupported_runs: workloads that the device cannot run.
        skipped: proposals that known anomalies cover.
        elapsed_seconds: testbed time.
        anomalies: in the order found.
        lost: runs that cost a host.
        path_killers: the last run of each proposal that met a dead data path every time.
        ended_by: `budget`, `pause budget`, or `coverage` when known anomalies leave nothing to propose.
        trust: how far the findings can be trusted; None when too little was judged.
        prospects: the chance of another find in the next hour; None when too little is known.
        pairs: of hosts that measured.
        set_aside: pairs that are unlike the others or were lost, with the reason.
    """

    runs: int
    failed_runs: Mapping[str, int]
    unsupported_runs: int
    skipped: int
    elapsed_seconds: float
    anomalies: tuple[Anomaly, ...]
    ended_by: str
    trust: Reliability | None = None
    prospects: DiscoveryEstimate | None = None
    lost: tuple[LostHost, ...] = ()
    pairs: int = 1
    set_aside: Mapping[str, str] = field(default_factory=dict)
    path_killers: tuple[RunRecord, ...] = ()

    @property
    def measured_runs(self) -> int:
        """Runs that were measured at all, whatever they say."""
        return self.runs - sum(self.failed_runs.values()) - self.unsupported_runs - len(self.lost)


class SearchLoop:
    """One campaign.

    Args:
        measurer: runs, records and judges.
        store: keeps anomalies.
        strategy: proposes.
        space: where conditions are looked for.
        recipe: how to confirm and to extract.
        sink: who watches.
        known: minimal feature sets from elsewhere that need not be found again.
        catalog: of the testbed's counters.
    """

    def __init__(
        self,
        measurer: Measurer,
        store: CampaignStore,
        strategy: Strategy,
        space: Space,
        recipe: Recipe,
        sink: ProgressSink,
        known: KnownAnomalies,
        catalog: Catalog,
    ) -> None:
        self._measurer = measurer
        self._strategy = strategy
        self._space = space
        self._recipe = recipe
        self._sink = sink
        self._known = known
        self._triage = Triage(measurer, store, space, known)
        self._skipped = 0
        self._refused: set[Workload] = set()
        self._catalog = catalog
        self._skipped_in_a_row = 0
        self._pairs = len(measurer.lanes)
        self._searching = self._pairs
        self._again: list[Workload] = []
        self._outages: dict[Workload, list[RunRecord]] = {}
        self._judged = 0
        self._dropped: list[Verdict] = []

    def run(self) -> Summary:
        """Search until the budget is spent.

        Raises:
            TestbedError: the testbed is gone; everything up to here is on record.
        """
        while True:
            self._searching = len(self._measurer.lanes)
            ended = self._measurer.drive({lane: self._search(lane) for lane in self._measurer.lanes})
            spent = next((what for what in ended.values() if what), None)
            # A pair may be lost when the others have nothing left to do.
            if spent or not (self._again or self._triage.suspects or self._triage.waiting):
                self._measurer.settle()
                return self.summary(spent or "coverage")

    async def _search(self, lane: Lane) -> str | None:
        """Go through the loop with one pair; return which budget ended it, if one did."""
        try:
            while self._again or self._suspect_for(lane) or self._skipped_in_a_row < _MAX_SKIPPED:
                await self._measurer.require_working(lane)
                if (suspect := self._suspect_for(lane)) is not None:
                    await self._investigate(lane, suspect)
                elif (
                    waiting := self._triage.due(self._recipe.explain_after_sightings, self._rest_is_needed)
                ) is not None:
                    await self._explain(lane, waiting)
                else:
                    measured = await self._step(lane)
                    self._skipped_in_a_row = 0 if measured else self._skipped_in_a_row + 1
            while self._triage.waiting:
                await self._explain(lane, self._triage.waiting[0])
        except BudgetSpent as spent:
            return spent.what
        except (_SetAside, LaneLost):
            self._drop_refuted(lane)
        finally:
            self._searching -= 1
        return None

    def _drop_refuted(self, lane: Lane) -> None:
        """Drop what other pairs have not seen and the one that has can be asked no more."""
        for suspect in [each for each in self._triage.suspects if each.refuted and each.lane is lane]:
            self._triage.suspects.remove(suspect)
            self._drop(suspect)

    def summary(self, ended_by: str) -> Summary:
        """Return how the campaign stands."""
        return Summary(
            self._measurer.runs,
            dict(self._measurer.failed),
            self._measurer.unsupported,
            self._skipped,
            self._measurer.elapsed_seconds,
            tuple(self._triage.found),
            ended_by,
            trust(self._recipe.confirmation, self._judged, self._dropped),
            self._triage.prospects,
            tuple(self._measurer.lost.values()),
            self._pairs,
            dict(self._measurer.set_aside),
            tuple(confirmed[-1] for confirmed in self._outages.values() if len(confirmed) == _MAX_OUTAGES),
        )

    async def _step(self, lane: Lane) -> bool:
        """Take one proposal to its end, or to a suspicion; return whether it was measured."""
        workload = self._again.pop(0) if self._again else self._strategy.ask()
        if self._recipe.skip_known and self._known.covers(workload):
            if (doubted := self._triage.to_audit(workload, self._recipe.audits)) is not None:
                await self._audit(lane, doubted, workload)
                return True
            self._skipped += 1
            self._triage.sight(workload)
            self._strategy.tell(workload, Answer(ProposalOutcome.SKIPPED))
            return False
        if workload in self._refused:
            self._strategy.tell(workload, Answer(ProposalOutcome.UNSUPPORTED))
            return False
        record, verdict = await self._propose(lane, workload, "search")
        if isinstance(record.result, SetupFailed) and record.result.of_outage and self._is_proposed_again(record):
            return True
        if not isinstance(record.result, Measured):
            fate = ProposalOutcome.UNSUPPORTED if isinstance(record.result, Unsupported) else ProposalOutcome.FAILED
            if not isinstance(record.result, SetupFailed):
                self._refused.add(workload)
            self._strategy.tell(workload, Answer(fate))
            return True
        self._judged += 1
        self._outages.pop(workload, None)
        measurement = record.result.measurement
        if verdict is not None and verdict.is_anomalous:
            suspect = Suspicion(workload, verdict, measurement, record.run, lane)
            if self._triage.suspect(suspect):
                self._tell(suspect, found=True)
        else:
            self._strategy.tell(workload, Answer(ProposalOutcome.MEASURED, measurement))
        return True

    def _is_proposed_again(self, record: RunRecord) -> bool:
        """Put a proposal that met a dead data path back, unless it has met one too often."""
        confirmed = self._outages.setdefault(record.workload, [])
        confirmed.append(record)
        if len(confirmed) < _MAX_OUTAGES:
            self._again.append(record.workload)
            return True
        self._refused.add(record.workload)
        return False

    async def _propose(self, lane: Lane, workload: Workload, purpose: str) -> tuple[RunRecord, Verdict | None]:
        """Run a proposal; let the record and whoever watches know what the strategy is after."""
        lane.driven = self._strategy.driven
        lane.temperature = self._strategy.temperature
        try:
            return await self._measurer.judging(lane, workload, purpose)
        except LaneLost:
            self._again.append(workload)
            raise

    async def _audit(self, lane: Lane, confirmed: ConfirmedAnomaly, workload: Workload) -> None:
        """Measure what an explanation covers; revise it when that is healthy."""
        confirmed.audits += 1
        try:
            record, verdict = await self._propose(lane, workload, "audit")
        except LaneLost:
            confirmed.audits -= 1
            raise
        shows = verdict is not None and verdict.is_anomalous
        fate, measurement = ProposalOutcome.SKIPPED, None
        if isinstance(record.result, Measured):
            fate, measurement = ProposalOutcome.MEASURED, record.result.measurement
        self._strategy.tell(workload, Answer(fate, measurement, shows))
        if not self._triage.stands(confirmed):
            return
        if shows:
            confirmed.anomaly = confirmed.anomaly.shown_again()
            self._triage.keep(confirmed.anomaly)
        elif verdict is not None and verdict.is_normal:
            self._triage.contradicted(confirmed)
            await self._explain(lane, confirmed)

    def _tell(self, seen: Observation, *, found: bool) -> None:
        self._strategy.tell(seen.workload, Answer(ProposalOutcome.MEASURED, seen.measurement, found))

    def _suspect_for(self, lane: Lane) -> Suspicion | None:
        return self._triage.suspect_for(lane, alone=self._searching == 1)

    async def _investigate(self, lane: Lane, suspect: Suspicion) -> None:
        """Confirm a suspicion and see to its explanation."""
        suspect.taken = True
        symptom = suspect.suspicion.symptom
        assert symptom is not None
        policy = self._recipe.confirmation
        try:
            await self._freshen_bound(lane, suspect.workload, policy.siblings(suspect.suspicion))
            probes = confirm(suspect.workload, symptom, policy, suspect.suspicion)
            confirmation, _ = await self._drive(lane, probes, "confirm")
        except LaneLost:
            suspect.taken = False
            raise
        suspect.taken = False
        elsewhere = lane is not suspect.lane
        refuted = not confirmation.confirmed and not confirmation.put_aside  # runs that say nothing refute nothing
        if elsewhere and refuted and not suspect.refuted and suspect.lane in self._measurer.lanes:
            suspect.refuted = True
            return
        self._triage.suspects.remove(suspect)
        of_one_pair = suspect.refuted and not elsewhere and confirmation.confirmed
        found = confirmation.confirmed and not of_one_pair
        if found:
            anomaly = self._anomaly(suspect, symptom, confirmation)
            self._triage.confirmed(suspect, anomaly, explain=self._recipe.explain)
            self._sink.on_event(AnomalyConfirmed(anomaly))
        elif not confirmation.confirmed:
            self._drop(suspect, put_aside=confirmation.put_aside)
            return
        for seen in suspect.all_seen:
            self._tell(seen, found=found)
        if of_one_pair and len(self._measurer.lanes) > 1:  # of the last one nobody can tell
            self._measurer.retire(lane, f"{suspect.suspicion.reason}; another pair does not show it")
            raise _SetAside

    def _drop(self, suspect: Suspicion, *, put_aside: bool = False) -> None:
        if not put_aside:
            self._dropped.append(suspect.suspicion)
        self._sink.on_event(SuspicionDropped(suspect.run, suspect.suspicion))
        for seen in suspect.all_seen:
            self._tell(seen, found=False)

    def _rest_is_needed(self, explanations: int) -> bool:
        """Whether the rest of the budget should go into explanations.

        A campaign that goes on with a larger budget has to take the same steps up to where it stopped: there the record
        knows.
        """
        if (purpose := self._measurer.next_purpose) is not None:
            return purpose == "extract"
        spent, lanes = self._measurer.budget_share, max(1, self._searching)
        one_after_another = -(-explanations // lanes) * _EXPLANATION_RUNS * lanes
        return spent + one_after_another * spent / max(1, self._measurer.runs) >= 1.0

    async def _freshen_bound(self, lane: Lane, workload: Workload, siblings: int) -> None:
        if not self._measurer.knows_bound(workload):
            await self._measurer.measuring_sibling(lane, workload)
        for _ in range(siblings):
            await self._measurer.measuring_sibling(lane, workload)

    def _anomaly(self, suspect: Suspicion, symptom: Symptom, confirmation: Confirmed) -> Anomaly:
        reproduced = sorted(confirmation.reproduced, key=lambda verdict: verdict.severity)
        typical = reproduced[len(reproduced) // 2]
        return Anomaly(
            id=f"a{len(self._triage.found) + 1}",
            symptom=symptom,
            severity=median(verdict.severity for verdict in reproduced),
            workload=suspect.workload,
            found_as=suspect.workload,
            mfs=Mfs(()),
            reason=typical.reason,
            host=typical.host,
            found_at_run=suspect.run,
            found_at_seconds=self._measurer.elapsed_seconds,
            extraction_runs=0,
            complete=False,
        )

    async def _explain(self, lane: Lane, confirmed: ConfirmedAnomaly) -> None:
        """Find out when an anomaly shows; or find out better, if an explanation of it was contradicted."""
        anomaly = confirmed.anomaly
        with self._triage.explaining(confirmed):
            probes = extract(
                anomaly.workload,
                anomaly.symptom,
                self._space,
                self._recipe.extraction,
                self._known.covers,
                self._measurer.judgements,
                lambda probe: anomaly.symptom is not Symptom.LOW_THROUGHPUT or self._measurer.knows_bound(probe),
            )
            try:
                extracted, runs = await self._drive(lane, probes, "extract")
            except (_SetAside, LaneLost):
                self._triage.abandon(confirmed)
                raise
        # The simplest workload moves the fewest counters besides those of the cause.
        reproduced = self._measurer.measurement(extracted.workload) or confirmed.measurement
        telling, hint = rank(reproduced, self._measurer.plain, anomaly.symptom, self._catalog)
        confirmed.anomaly = dataclasses.replace(
            anomaly,
            workload=extracted.workload,
            mfs=extracted.mfs,
            extraction_runs=anomaly.extraction_runs + runs,
            complete=extracted.complete,
            trials=extracted.trials,
            passed=extracted.passed,
            confidence=extracted.confidence,
            telling=telling,
            hint=hint,
            revised=(*anomaly.revised, anomaly.mfs) if anomaly.complete else anomaly.revised,
            same_as=confirmed.covered_by,
        )
        self._triage.explained(confirmed)
        self._sink.on_event(AnomalyExplained(confirmed.anomaly))
        if confirmed.anomaly.complete:
            for same in self._triage.merge(confirmed.anomaly):
                self._sink.on_event(AnomalyMerged(same))

    async def _drive(
        self, lane: Lane, probes: Generator[Workload, Verdict | None, Result], purpose: str
    ) -> tuple[Result, int]:
        """Answer a generator's probes by measuring; return what it returns, and how many runs that took."""
        runs, answer = 0, None
        try:
            while True:
                probe = probes.send(answer)
                before = lane.runs
                reading = await self._measurer.probing(lane, probe, purpose)
                answer = reading.verdict if reading else None
                runs += lane.runs - before
                await self._measurer.require_working(lane)
                if purpose == "extract" and (suspect := self._suspect_for(lane)) is not None:
                    await self._investigate(lane, suspect)  # who raised it waits for an answer, and this takes long
        except StopIteration as stop:
            result: Result = stop.value
            return result, runs
