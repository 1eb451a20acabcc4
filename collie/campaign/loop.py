"""The search loop: ask, measure, judge, confirm, extract, tell.

Rules.
1. Every run is on record before the strategy receives its result.
2. A workload that a known MFS covers is skipped. The first few that an explanation covers run nevertheless, and later
   one of ten (*audits*). An audit that is normal twice contradicts the explanation, which is then revised. An audit far
   worse than the set predicts is a suspicion.
3. A suspicion is confirmed on fresh queue pairs before it becomes an anomaly. Only anomalies are extracted. A plain
   sibling that is itself anomalous is a suspicion, too, and comes before the workload that asked for it.
4. An explanation takes tens of runs. A recipe can delay it until the anomaly has enough *sightings*: unconfirmed runs
   with its transport, its symptom and a similar signature. It begins anyway once waiting explanations need the rest of
   the budget. The anomaly least like an explained one comes first. Sightings that the finished set leaves out are
   suspicions again. Anomalies that an explanation covers are joined with it if controls agree (`search.joins`).
5. Every run counts towards the budget, which ends the loop at any depth. An anomaly with an unfinished extraction is
   kept as incomplete.
6. All pairs of hosts share one state and run the same loop (`lanes.py`). A suspicion of one pair is confirmed on
   another. If only the first pair reproduces it, that pair is at fault. It is named and set aside without an anomaly.
7. Another pair repeats the work of a lost pair. An explanation that starts again reuses the recorded runs.
8. Proposals that fit the set-up that stands are its phases (`workloads.setup`). All are judged when the last has run,
   because a verdict can need a plain sibling, which needs another set-up. A suspicion that fresh set-ups refute is
   looked for after the phases before it (`history.py`).

Invariant. Seed and recorded results determine the next step. So a killed campaign is resumed by replaying its record.

Worked example. `collie search --subsystem F --seed 1 --budget 120runs` makes these runs.

    run       purpose    result
    1-17      search     plain traffic of six transports on three set-ups, and its siblings (7-9, 14-15): normal
    18-39     search     fourteen random phases and the siblings of two set-ups (24-31): normal
    40        repeat     one of these phases on a set-up of its own: no other throughput
    41-48     search     eight phases of a fourth set-up: three suspicions
    49-52     sibling    the bounds of these runs, as phases of one plain set-up
    53-63     confirm    three of three confirm each, as so early nothing is known of strays: a1, a2, a3
    64-86     extract    three explanations need the rest of the budget. 23 phases of one set-up ask about a1
    87-120    extract    claims and questions that need other set-ups. The budget ends before a1 is complete
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from collie.campaign.budget import BudgetSpent
from collie.campaign.events import AnomalyConfirmed, AnomalyMerged, SuspicionDropped
from collie.campaign.explain import Explainer, at_least, typical_of
from collie.campaign.history import probing_after, tracing
from collie.campaign.lanes import Lane, LaneLost, PhaseOf
from collie.campaign.measure import Measurer
from collie.campaign.summary import Summary, Unconfirmed
from collie.campaign.triage import ConfirmedAnomaly, Observation, Suspicion, Triage
from collie.campaign.trust import Trust
from collie.detect.confirm import Confirmed, confirm
from collie.detect.reading import reading_of
from collie.detect.symptom import Symptom, Verdict
from collie.ports import CampaignStore, Measured, ProgressSink, RunRecord, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly, KnownAnomalies
from collie.search.phases import answers, roomy
from collie.search.recipe import Recipe
from collie.search.strategy import Answer, ProposalOutcome, Strategy
from collie.workloads.feature import Mfs
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_MAX_SKIPPED = 2000
"""Number of consecutive covered or refused proposals after which the search ends."""

_MAX_OUTAGES = 3
"""Number of runs that end in a dead data path after which their proposal is refused."""

_PHASE_TRIES = 20
"""Number of consecutive covered or refused proposals after which a set-up has no further phase."""

_REPEATED = 20
"""One of so many normal later phases is repeated on a set-up of its own."""
_ALIKE = 0.1
"""Share by which the throughput of such a phase may differ."""
_MAX_TRACED = 10
"""Limit on suspicions that are looked for after the phases before them."""
_QUIET = 4
"""Number of set-ups without a suspicion after which an observation is followed that looked familiar."""

_EXPLANATION_RUNS = 45
"""Expected runs of an explanation, each with a set-up of its own."""
_EXPLANATION_SET_UPS = 32
"""Expected time of an explanation by phases, in runs with a set-up of their own."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Proposal:
    """A proposal to run, with the strategy's values at that time. An audit tests the explanation of `doubted`."""

    workload: Workload
    driven: str | None
    temperature: float | None
    doubted: ConfirmedAnomaly | None = None


class _Phase(NamedTuple):
    """A proposal that ran, and the set-up that it was a phase of, as it was before."""

    proposal: _Proposal
    record: RunRecord
    on: SetUp | None


class _SetAside(Exception):
    """The pair of this lane has been set aside."""


class SearchLoop:
    """The search of one campaign. `space` bounds the explanations."""

    def __init__(
        self,
        measurer: Measurer,
        store: CampaignStore,
        strategy: Strategy,
        space: Space,
        recipe: Recipe,
        sink: ProgressSink,
        known: KnownAnomalies,
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
        self._skipped_in_a_row = 0
        self._pairs = len(measurer.lanes)
        self._searching = self._pairs
        self._again: list[Workload] = []
        self._kept: list[_Proposal] = []
        self._outages: dict[Workload, list[RunRecord]] = {}
        self._trust = Trust(recipe.confirmation, recipe.noise)
        self._explainer = Explainer(measurer, self._triage, known, space, recipe, self._trust, sink, self._drive)
        self._unconfirmed: list[Unconfirmed] = []
        self._carried: list[bool] = []
        self._normal_phases = self._traced = 0

    def run(self) -> Summary:
        """Search until the budget is spent or the space is covered. Raises `TestbedError`."""
        while True:
            self._searching = len(self._measurer.lanes)
            ended = self._measurer.scheduler.drive({lane: self._search(lane) for lane in self._measurer.lanes})
            spent = next((what for what in ended.values() if what), None)
            # A pair can be lost after the other pairs have returned. They begin again to finish its work.
            if spent or not (self._again or self._triage.suspicions or self._triage.waiting):
                self._measurer.scheduler.settle()
                return self.summary(spent or "coverage")

    async def _search(self, lane: Lane) -> str | None:
        """Run the loop on one pair and return the budget that ended it, if one did."""
        try:
            while self._again or self._suspicion_for(lane) or self._skipped_in_a_row < _MAX_SKIPPED:
                await self._measurer.require_working(lane)
                self._suspect_siblings()
                if (suspicion := self._suspicion_for(lane)) is not None:
                    await self._investigate(lane, suspicion)
                elif (waiting := self._due()) is not None:
                    await self._explain(lane, waiting)
                else:
                    measured = await self._step(lane)
                    self._triage.quiet += measured
                    if self._triage.quiet > _QUIET:
                        self._triage.quiet = 0
                        self._triage.recall()
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
        for suspicion in [each for each in self._triage.suspicions if each.refuted and each.lane is lane]:
            self._triage.suspicions.remove(suspicion)
            self._drop(suspicion)

    def summary(self, ended_by: str) -> Summary:
        """Return the current result."""
        return Summary(
            runs=self._measurer.runs,
            failed_runs=dict(self._measurer.failed),
            unsupported_runs=self._measurer.unsupported,
            skipped=self._skipped,
            elapsed_seconds=self._measurer.elapsed_seconds,
            anomalies=tuple(self._triage.found.values()),
            ended_by=ended_by,
            trust=self._trust.reliability,
            unconfirmed=tuple(self._unconfirmed),
            repeated_phases=len(self._carried),
            changed_phases=sum(self._carried),
            discovery_estimate=self._triage.discovery_estimate,
            lost=tuple(self._measurer.lost.values()),
            pairs=self._pairs,
            set_aside=dict(self._measurer.set_aside),
            path_killers=tuple(outages[-1] for outages in self._outages.values() if len(outages) == _MAX_OUTAGES),
        )

    async def _step(self, lane: Lane) -> bool:
        """Make a set-up for one proposal, and run those that fit as its phases. Return whether any was run."""
        first = self._first()
        if first is None:
            return False
        if (doubted := first.doubted) is not None:
            await self._audit(lane, doubted, first.workload)
            return True
        phases: list[_Phase] = []
        try:
            await self._measure(lane, first, phases)
            # A verdict can take a run of the plain sibling, which ends the set-up. So the phases are judged afterwards.
            await self._measurer.measuring_siblings(lane, [record for _, record, _ in phases])
            while phases:
                await self._judge(lane, *phases.pop(0))
        except (BudgetSpent, LaneLost):
            for _, record, _ in phases:
                self._measurer.leave_unjudged(lane, record)
            raise
        return True

    async def _measure(self, lane: Lane, first: _Proposal, phases: list[_Phase]) -> None:
        """Measure a proposal, and on the same set-up others that fit, into `phases`."""
        if self._recipe.phases == 1:
            phases.append(await self._recorded(lane, first, None))
            return
        made_for = roomy(self._space, first.workload)
        phases.append(await self._recorded(lane, first, SetUp(made_for)))
        while lane.set_up is not None and len(phases) < self._recipe.phases:
            proposal = self._phase(lane.set_up)
            if proposal is None or proposal.doubted is not None:
                self._kept += [proposal] if proposal is not None else []
                return
            phases.append(await self._recorded(lane, proposal, lane.set_up))

    async def _judge(self, lane: Lane, proposal: _Proposal, record: RunRecord, on: SetUp | None) -> None:
        lane.driven, lane.temperature = proposal.driven, proposal.temperature
        verdict = await self._measurer.judging_record(lane, record)
        self._heard(lane, record, verdict, on)
        if on is not None and on.before and verdict is not None and verdict.is_normal:
            await self._repeat(lane, record)

    async def _repeat(self, lane: Lane, record: RunRecord) -> None:
        """Run one of `_REPEATED` normal later phases again, on a set-up of its own, and note whether that differs."""
        self._normal_phases += 1
        if self._normal_phases % _REPEATED or not isinstance(record.result, Measured):
            return
        fresh = await self._measurer.probing(lane, record.workload, "repeat")
        if fresh is not None and not fresh.verdict.is_inconclusive:
            then = reading_of(fresh.verdict, record.result.measurement).delivered_bps or 0.0
            changed = abs(then - (fresh.delivered_bps or 0.0)) > _ALIKE * max(then, fresh.delivered_bps or 0.0)
            self._carried.append(changed or fresh.verdict.is_anomalous)

    def _first(self) -> _Proposal | None:
        """Return a proposal for a new set-up, or None if it is covered or refused."""
        if self._kept:
            return self._kept.pop(0)
        return self._vetted(self._again.pop(0) if self._again else self._strategy.ask())

    def _phase(self, set_up: SetUp) -> _Proposal | None:
        """Return a proposal that fits a set-up, or None. The last one that does not is kept for a set-up of its own."""
        other = None
        for _ in range(_PHASE_TRIES):
            workload = self._again.pop(0) if self._again else self._strategy.ask_on(set_up)
            if workload is None:
                break
            proposal = self._vetted(workload)
            if proposal is not None and self._space.misfit(proposal.workload, set_up.made_for) is None:
                return proposal
            other = proposal or other
        if other is not None:
            self._kept.append(other)
        return None

    def _vetted(self, workload: Workload) -> _Proposal | None:
        """Return a proposal that is to be run, or None if it is covered or refused."""
        driven, temperature = self._strategy.driven, self._strategy.temperature
        if self._recipe.skip_known and self._known.covers(workload):
            if (doubted := self._triage.to_audit(workload, self._recipe.audits)) is not None:
                return _Proposal(workload, driven, temperature, doubted)
            self._skipped += 1
            self._triage.sight(workload)
            self._strategy.tell(workload, Answer(ProposalOutcome.SKIPPED))
            return None
        if workload in self._refused:
            self._strategy.tell(workload, Answer(ProposalOutcome.UNSUPPORTED))
            return None
        return _Proposal(workload, driven, temperature)

    async def _recorded(self, lane: Lane, proposal: _Proposal, on: SetUp | None) -> _Phase:
        lane.driven, lane.temperature = proposal.driven, proposal.temperature
        phase_of = PhaseOf(on.made_for, first=not on.before) if on is not None else None
        try:
            return _Phase(proposal, await self._measurer.recording(lane, proposal.workload, "search", phase_of), on)
        except LaneLost:
            self._again.append(proposal.workload)
            raise

    def _heard(self, lane: Lane, record: RunRecord, verdict: Verdict | None, on: SetUp | None) -> None:
        """Tell the strategy of a run. An anomalous one becomes a suspicion."""
        workload = record.workload
        if isinstance(record.result, SetupFailed) and record.result.of_outage and self._propose_again(record):
            return
        if not isinstance(record.result, Measured):
            outcome = ProposalOutcome.UNSUPPORTED if isinstance(record.result, Unsupported) else ProposalOutcome.FAILED
            if not isinstance(record.result, SetupFailed):
                self._refused.add(workload)
            self._strategy.tell(workload, Answer(outcome))
            return
        self._trust.judged()
        self._outages.pop(workload, None)
        measurement = record.result.measurement
        if verdict is not None and verdict.is_anomalous:
            suspicion = Suspicion(workload, verdict, measurement, record.run, lane, on=on)
            if self._triage.observe(suspicion):
                self._tell(suspicion, found=True)
        else:
            self._strategy.tell(workload, Answer(ProposalOutcome.MEASURED, measurement))

    def _propose_again(self, record: RunRecord) -> bool:
        """Queue a proposal again after a dead data path, and return True. After `_MAX_OUTAGES` refuse it."""
        outages = self._outages.setdefault(record.workload, [])
        outages.append(record)
        if len(outages) < _MAX_OUTAGES:
            self._again.append(record.workload)
            return True
        self._refused.add(record.workload)
        return False

    async def _audit(self, lane: Lane, confirmed: ConfirmedAnomaly, workload: Workload) -> None:
        confirmed.audits += 1
        try:
            record, verdict = await self._measurer.judging(lane, workload, "audit")
        except LaneLost:
            confirmed.audits -= 1
            self._again.append(workload)
            raise
        shows = verdict is not None and verdict.is_anomalous
        outcome, measurement = ProposalOutcome.SKIPPED, None
        if isinstance(record.result, Measured):
            outcome, measurement = ProposalOutcome.MEASURED, record.result.measurement
        self._strategy.tell(workload, Answer(outcome, measurement, shows))
        if not self._triage.stands(confirmed):
            return
        if verdict is not None and shows and measurement is not None:
            confirmed.anomaly = confirmed.anomaly.with_reproduction()
            self._triage.keep(confirmed.anomaly)
            suspicion = Suspicion(workload, verdict, measurement, record.run, lane, proposed=False)
            if await self._explainer.exceeds(lane, confirmed, suspicion):
                self._triage.suspicions.append(suspicion)
        elif verdict is not None and verdict.is_normal and await self._explainer.contradicts(lane, confirmed, workload):
            self._triage.contradicted(confirmed)
            await self._explain(lane, confirmed)

    def _tell(self, observation: Observation, *, found: bool) -> None:
        self._strategy.tell(observation.workload, Answer(ProposalOutcome.MEASURED, observation.measurement, found))

    def _suspicion_for(self, lane: Lane) -> Suspicion | None:
        return self._triage.suspicion_for(lane, alone=self._searching == 1)

    def _due(self) -> ConfirmedAnomaly | None:
        return self._triage.due(self._recipe.explain_after_sightings, self._rest_is_needed)

    def _suspect_siblings(self) -> bool:
        """Turn plain siblings that are themselves anomalous into suspicions. Return whether one is new."""
        new = False
        while self._measurer.sick:
            sick = self._measurer.sick.pop(0)
            run = sick.record
            if not self._space.complaints(run.workload):
                suspicion = Suspicion(run.workload, sick.verdict, sick.measurement, run.run, sick.lane, proposed=False)
                new = self._triage.put_first(suspicion) or new
        return new

    async def _investigate(self, lane: Lane, suspicion: Suspicion) -> None:
        suspicion.taken = True
        symptom = suspicion.verdict.symptom
        assert symptom is not None
        policy = self._recipe.confirmation
        try:
            await self._freshen_bound(lane, suspicion.workload, policy.siblings(suspicion.verdict))
            suspicion.taken = False
            if self._suspect_siblings():
                return  # the simpler workload comes first
            suspicion.taken = True
            probes = confirm(suspicion.workload, symptom, self._trust.rule, policy.void_runs)
            confirmation, _ = await self._drive(lane, probes, "confirm", self._confirming_floor(suspicion))
        except LaneLost:
            suspicion.taken = False
            raise
        suspicion.taken = False
        elsewhere = lane is not suspicion.lane
        refuted = not confirmation.confirmed and not confirmation.deferred  # inconclusive runs do not refute it
        if elsewhere and refuted and not suspicion.refuted and suspicion.lane in self._measurer.lanes:
            suspicion.refuted = True
            return
        self._triage.suspicions.remove(suspicion)
        of_one_pair = suspicion.refuted and not elsewhere and confirmation.confirmed
        found = confirmation.confirmed and not of_one_pair
        if found:
            anomaly = self._anomaly(suspicion, symptom, confirmation)
            self._triage.confirmed(suspicion, anomaly, explain=self._recipe.explain)
            self._sink.on_event(AnomalyConfirmed(anomaly))
        elif not confirmation.confirmed:
            if not (refuted and await self._shows_after(lane, suspicion, symptom)):
                self._drop(suspicion, confirmation)
            return
        for observation in suspicion.proposals:
            self._tell(observation, found=found)
        if of_one_pair and len(self._measurer.lanes) > 1:  # the last pair cannot be compared with another
            self._measurer.retire(lane, f"{suspicion.verdict.reason}; another pair does not show it")
            raise _SetAside

    async def _shows_after(self, lane: Lane, suspicion: Suspicion, symptom: Symptom) -> bool:
        """Whether a suspicion that does not show alone shows after what came before it on its set-up.

        Then it is an anomaly with that history. Its set is not looked for.
        """
        on = suspicion.on
        if on is None or (not on.before and on.is_own(suspicion.workload)) or self._traced >= _MAX_TRACED:
            return False
        self._traced += 1
        after = await tracing(self._measurer, lane, suspicion.workload, on, "confirm", symptom)
        if after is None:
            return False
        probes = confirm(suspicion.workload, symptom, self._trust.rule, self._recipe.confirmation.void_runs)
        confirmation, _ = await self._drive(lane, probes, "confirm", self._confirming_floor(suspicion), after=after)
        if not confirmation.confirmed:
            return False
        anomaly = self._anomaly(suspicion, symptom, confirmation)
        anomaly = replace(anomaly, history=after.before, made_for=after.made_for)
        self._triage.confirmed(suspicion, anomaly, explain=False)
        self._sink.on_event(AnomalyConfirmed(anomaly))
        for observation in suspicion.proposals:
            self._tell(observation, found=True)
        return True

    def _confirming_floor(self, suspicion: Suspicion) -> float:
        if suspicion.verdict.symptom is not Symptom.LOW_THROUGHPUT:
            return suspicion.floor
        deficit = self._recipe.thresholds.throughput_deficit
        return max(suspicion.floor, deficit * self._recipe.confirmation.confirming_deficit)

    def _drop(self, suspicion: Suspicion, confirmation: Confirmed | None = None) -> None:
        if confirmation is None or not confirmation.deferred:
            self._trust.dropped()
        if confirmation is not None and confirmation.reproduced:
            shows = len(confirmation.reproduced)
            self._unconfirmed.append(
                Unconfirmed(suspicion.run, suspicion.workload, suspicion.verdict, shows, confirmation.runs)
            )
        self._sink.on_event(SuspicionDropped(suspicion.run, suspicion.verdict))
        for observation in suspicion.proposals:
            self._tell(observation, found=False)

    def _rest_is_needed(self, explanations: int) -> bool:
        """Whether this number of explanations needs the rest of the budget.

        While runs are replayed, the record decides. A resume with a larger budget must repeat the recorded steps.
        """
        if (purpose := self._measurer.scheduler.next_purpose) is not None:
            return purpose in ("extract", "claim")
        spent, lanes = self._measurer.budget_share, max(1, self._searching)
        one_after_another = -(-explanations // lanes) * lanes
        # A run that the device refuses, or that fails to set up, takes hardly any time.
        measured = self._measurer.runs - self._measurer.unsupported - sum(self._measurer.failed.values())
        runs: float = _EXPLANATION_RUNS
        if self._recipe.phases > 1:
            runs = _EXPLANATION_SET_UPS * self._measurer.set_up_seconds * measured / self._measurer.elapsed_seconds
        return spent + one_after_another * runs * spent / max(1, measured) >= 1.0

    async def _freshen_bound(self, lane: Lane, workload: Workload, siblings: int) -> None:
        if not self._measurer.knows_bound(workload):
            await self._measurer.measuring_sibling(lane, workload)
        for _ in range(siblings):
            await self._measurer.measuring_sibling(lane, workload)

    def _anomaly(self, suspicion: Suspicion, symptom: Symptom, confirmation: Confirmed) -> Anomaly:
        typical = typical_of(confirmation.reproduced)
        return Anomaly(
            id=f"a{len(self._triage.found) + 1}",
            symptom=symptom,
            severity=typical.severity,
            workload=suspicion.workload,
            found_as=suspicion.workload,
            mfs=Mfs(()),
            reason=typical.reason,
            host=typical.host,
            found_at_run=suspicion.run,
            found_at_seconds=self._measurer.elapsed_seconds,
            extraction_runs=0,
            complete=False,
        )

    async def _explain(self, lane: Lane, confirmed: ConfirmedAnomaly) -> None:
        try:
            explained = await self._explainer.explain(lane, confirmed)
        except (_SetAside, LaneLost):
            self._triage.abandon(confirmed)
            raise
        if not explained.complete:
            return
        if (around := self._triage.same_set(confirmed)) is not None:
            self._sink.on_event(AnomalyMerged(self._triage.merge(confirmed, around.anomaly)))
            return
        for earlier in self._triage.explained_before(confirmed):
            await self._explainer.compare(lane, confirmed, earlier)
        for waiting in self._triage.covered_by(explained):
            await self._explainer.compare(lane, waiting, confirmed)

    async def _drive(
        self,
        lane: Lane,
        probes: Generator[Workload, Verdict | None, Result],
        purpose: str,
        floor: float = 0.0,
        about: Observation | None = None,
        after: SetUp | None = None,
    ) -> tuple[Result, int]:
        """Measure the workloads that a generator yields and send it the verdicts. Return its result and run count.

        A verdict below the `floor` counts as normal. Questions `about` an observation are phases where they fit, and
        are judged as far as its symptom goes. Each run comes `after` the phases of a set-up, if there are any.
        """
        asked = about.verdict.symptom if about is not None and self._recipe.phases > 1 else None
        runs, answer = 0, None
        try:
            while True:
                probe = probes.send(answer)
                before = lane.runs
                on = self._phase_of(lane, probe, about) if self._recipe.phases > 1 and purpose != "confirm" else None
                if after is not None:
                    reading = await probing_after(self._measurer, lane, probe, after, purpose)
                else:
                    reading = await self._measurer.probing(lane, probe, purpose, on, asked)
                answer = at_least(reading.verdict, floor) if reading else None
                runs += lane.runs - before
                await self._measurer.require_working(lane)
                if purpose in ("extract", "claim") and (suspicion := self._suspicion_for(lane)) is not None:
                    # another pair waits for this confirmation, and an extraction takes long
                    await self._investigate(lane, suspicion)
        except StopIteration as stop:
            result: Result = stop.value
            return result, runs

    def _phase_of(self, lane: Lane, probe: Workload, about: Observation | None) -> PhaseOf:
        """Return the set-up that stands if a question fits it, else one with room for those that are likely next.

        What is not `about` an observation has a set-up of its own.
        """
        if about is None:
            return PhaseOf(probe, first=True)
        if lane.set_up is not None and answers(self._space, probe, lane.set_up):
            return PhaseOf(lane.set_up.made_for)
        likely = [about.workload, self._space.base]
        if about.verdict.symptom is Symptom.LOW_THROUGHPUT:
            likely.append(self._measurer.sibling(probe))
        return PhaseOf(roomy(self._space, probe, *likely), first=True)
