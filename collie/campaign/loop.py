"""The search loop: ask, measure, judge, confirm, extract, tell.

Rules.
1. Every run is on record before the strategy receives its result.
2. A workload that a known MFS covers is skipped. The first few that an explanation covers run nevertheless, and later
   one of ten (*audits*). While the search is fruitless (rule 4), workloads drawn inside the sets run, too. An audit
   that is normal twice contradicts the explanation, which is then revised. One far worse than the set predicts is a
   suspicion.
3. A suspicion is confirmed on fresh queue pairs before it becomes an anomaly. Only anomalies are extracted. A plain
   sibling that is itself anomalous is a suspicion, too, and comes before the workload that asked for it.
4. An explanation takes tens of runs. A recipe can delay it until the anomaly has enough *sightings*: unconfirmed runs
   with its transport, its symptom and a similar signature. It begins anyway once waiting explanations need the rest of
   the budget. The least familiar anomaly comes first (`search.familiarity`). One that is familiar waits until the
   search is *fruitless*: it has found nothing new for as long as an explanation takes, twice as long after the first
   of these. Sightings that the finished set leaves out are suspicions again. Anomalies that an explanation covers are
   joined with it if controls agree (`search.joins`).
5. Every run counts towards the budget, which ends the loop at any depth. An anomaly with an unfinished extraction is
   kept as incomplete.
6. All pairs of hosts share one state and run the same loop (`lanes.py`). A suspicion of one pair is confirmed on
   another. If only the first pair reproduces it, that pair is at fault. It is named and set aside without an anomaly.
7. Another pair repeats the work of a lost pair. An explanation that starts again reuses the recorded runs.
8. Known anomalies of another testbed are looked for first (`transfer.py`). Their sets are hypotheses here.
9. Proposals that fit the set-up that stands are its phases (`workloads.setup`). All are judged when the last has run,
   because a verdict can need a plain sibling, which needs another set-up. A suspicion that fresh set-ups refute is
   looked for after the phases before it (`history.py`).

Invariant. Seed and recorded results determine the next step. So a killed campaign is resumed by replaying its record.

Worked example. `collie search --subsystem F --seed 5 --budget 120runs` makes these runs.

    run       purpose    result
    1-15      search     plain traffic of six transports on two set-ups, and its siblings (7-9, 14-15): normal
    16-27     search     eight phases of UD, and four siblings on one set-up: one suspicion
    28-30     confirm    three of three confirm, as so early nothing is known of strays: a1
    31-42     search     one workload of RC, eight phases of another set-up, and three siblings: one suspicion
    43-44     repeat     one of the later phases alone: it is normal there, too
    45-47     confirm    three of three: a2
    48-73     extract    two explanations need the rest of the budget. Phases of few set-ups ask about a1
    74-94     claim      five fresh runs inside its set (74, 79, 83, 87, 91), each with questions on its set-up
    95-120    extract    questions about a2. The budget ends before it is complete
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeVar

from collie.campaign.audits import Audits
from collie.campaign.budget import BudgetSpent
from collie.campaign.carry_over import CarryOver
from collie.campaign.confirming import Confirmer, SetAside
from collie.campaign.events import AnomalyMerged
from collie.campaign.explain import Explainer
from collie.campaign.history import probing_after
from collie.campaign.lanes import Lane, LaneLost, PhaseOf
from collie.campaign.measure import Measurer
from collie.campaign.observations import ConfirmedAnomaly, Observation, Suspicion
from collie.campaign.phases import standing_or_new
from collie.campaign.proposals import Proposal, Proposals
from collie.campaign.summary import Summary
from collie.campaign.transfer import Transfer
from collie.campaign.triage import Triage
from collie.campaign.trust import Trust
from collie.detect.symptom import Verdict
from collie.ports import CampaignStore, Measured, ProgressSink, RunRecord, SetupFailed, Unsupported, is_anew
from collie.search.anomaly import KnownAnomalies
from collie.search.foreseen import ForeseenAnomaly
from collie.search.phases import roomy
from collie.search.recipe import Recipe
from collie.search.second_cause import NO_FLOOR, Floor
from collie.search.strategy import Answer, ProposalOutcome, Strategy
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_MAX_SKIPPED = 2000
"""Number of consecutive covered or refused proposals after which the search ends."""

_QUIET = 4
"""Number of set-ups without a suspicion after which an observation is followed that looked familiar."""

_EXPLANATION_RUNS = 45
"""Expected runs of an explanation, each with a set-up of its own."""
_EXPLANATION_SET_UPS = 32
"""Expected time of an explanation by phases, in runs with a set-up of their own."""

Result = TypeVar("Result")


class _Phase(NamedTuple):
    """A proposal that ran, and the set-up that it was a phase of, as it was before."""

    proposal: Proposal
    record: RunRecord
    on: SetUp | None


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
        foreseen: Sequence[ForeseenAnomaly] = (),
    ) -> None:
        self._measurer = measurer
        self._strategy = strategy
        self._space = space
        self._recipe = recipe
        self._sink = sink
        self._triage = Triage(measurer, store, space, known)
        self._skipped_in_a_row = 0
        self._pairs = len(measurer.lanes)
        self._searching = self._pairs
        self._trust = Trust(recipe.confirmation, recipe.noise)
        self._proposals = Proposals(strategy, space, recipe, known, self._triage, measurer)
        self._confirmer = Confirmer(measurer, self._triage, strategy, space, recipe, self._trust, sink, self._drive)
        self._explainer = Explainer(measurer, self._triage, known, space, recipe, self._trust, sink, self._drive)
        self._audits = Audits(measurer, self._triage, self._explainer, space, known.copy())
        self._transfer = Transfer(measurer, self._triage, space, known, foreseen, phases=recipe.phases > 1)
        self._carry_over = CarryOver(measurer)

    def run(self) -> Summary:
        """Search until the budget is spent or the space is covered. Raises `TestbedError`."""
        while True:
            self._searching = len(self._measurer.lanes)
            ended = self._measurer.scheduler.drive({lane: self._search(lane) for lane in self._measurer.lanes})
            spent = next((what for what in ended.values() if what), None)
            # A pair can be lost after the other pairs have returned. They begin again to finish its work.
            waiting = self._triage.suspicions or self._triage.waiting or self._transfer.waiting
            if spent or not (self._proposals.again or waiting):
                self._measurer.scheduler.settle()
                self._triage.note_likely_causes()
                return self.summary(spent or "coverage")

    async def _search(self, lane: Lane) -> str | None:
        """Run the loop on one pair and return the budget that ended it, if one did."""
        try:
            while self._proposals.again or self._suspicion_for(lane) or self._skipped_in_a_row < _MAX_SKIPPED:
                await self._measurer.require_working(lane)
                self._confirmer.suspect_plain()
                if (suspicion := self._suspicion_for(lane)) is not None:
                    await self._confirmer.investigate(lane, suspicion)
                elif (waiting := self._due()) is not None:
                    await self._explain(lane, waiting)
                elif self._transfer.waiting:
                    await self._transfer.look_for(lane)
                else:
                    began = self._measurer.elapsed_seconds
                    measured = await self._step(lane)
                    self._triage.fruitless_seconds += self._measurer.elapsed_seconds - began
                    self._triage.quiet += measured
                    if self._triage.quiet > _QUIET:
                        self._triage.quiet = 0
                        self._triage.recall()
                    self._skipped_in_a_row = 0 if measured else self._skipped_in_a_row + 1
                    if measured and self._recipe.audits and self._fruitless >= 1.0:
                        await self._look_inside(lane)
            while self._triage.waiting:
                await self._explain(lane, self._triage.waiting[0])
        except BudgetSpent as spent:
            return spent.what
        except (SetAside, LaneLost):
            self._drop_refuted(lane)
        finally:
            self._searching -= 1
        return None

    def _drop_refuted(self, lane: Lane) -> None:
        for suspicion in [each for each in self._triage.suspicions if each.refuted and each.lane is lane]:
            self._triage.suspicions.remove(suspicion)
            self._confirmer.drop(suspicion)

    def summary(self, ended_by: str) -> Summary:
        """Return the current result."""
        return Summary(
            runs=self._measurer.runs,
            failed_runs=dict(self._measurer.failed),
            unsupported_runs=self._measurer.unsupported,
            skipped=self._proposals.skipped,
            elapsed_seconds=self._measurer.elapsed_seconds,
            anomalies=tuple(self._triage.found.values()),
            ended_by=ended_by,
            trust=self._trust.reliability,
            unconfirmed=tuple(self._confirmer.unconfirmed),
            further_phases=self._measurer.further_phases,
            repeated_phases=len(self._carry_over.changed),
            changed_phases=sum(self._carry_over.changed),
            discovery_estimate=self._triage.discovery_estimate,
            lost=tuple(self._measurer.lost.values()),
            pairs=self._pairs,
            set_aside=dict(self._measurer.set_aside),
            path_killers=self._proposals.path_killers,
            not_confirmed=self._transfer.not_confirmed,
        )

    async def _step(self, lane: Lane) -> bool:
        """Make a set-up for one proposal, and run those that fit as its phases. Return whether any was run."""
        first = self._proposals.first()
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
        except BudgetSpent:
            for _, record, _ in phases:
                self._measurer.leave_unjudged(lane, record)
            raise
        except LaneLost:
            for phase in phases:
                self._leave(lane, phase)
            raise
        return True

    def _leave(self, lane: Lane, phase: _Phase) -> None:
        """Leave a phase of a lost pair to another one if no verdict is known, or if it may be a suspicion."""
        verdict = self._measurer.leave_unjudged(lane, phase.record)
        if isinstance(phase.record.result, Measured) and (verdict is None or verdict.is_anomalous):
            self._proposals.again.append(phase.record.workload)
        else:
            self._heard(lane, phase.record, verdict, phase.on)

    async def _measure(self, lane: Lane, first: Proposal, phases: list[_Phase]) -> None:
        """Measure a proposal, and on the same set-up others that fit, into `phases`."""
        if self._recipe.phases == 1:
            phases.append(await self._recorded(lane, first, None))
            return
        made_for = roomy(self._space, first.workload)
        phases.append(await self._recorded(lane, first, SetUp(made_for)))
        while lane.set_up is not None and len(phases) < self._recipe.phases:
            proposal = self._proposals.phase(lane.set_up)
            if proposal is None:
                return
            phases.append(await self._recorded(lane, proposal, lane.set_up))

    async def _judge(self, lane: Lane, proposal: Proposal, record: RunRecord, on: SetUp | None) -> None:
        lane.driven, lane.temperature = proposal.driven, proposal.temperature
        try:
            verdict = await self._measurer.judging_record(lane, record)
        except LaneLost:
            self._proposals.again.append(record.workload)
            raise
        self._heard(lane, record, verdict, on)
        if on is not None and on.before and verdict is not None and verdict.is_normal:
            await self._carry_over.check(lane, record)

    async def _recorded(self, lane: Lane, proposal: Proposal, on: SetUp | None) -> _Phase:
        lane.driven, lane.temperature = proposal.driven, proposal.temperature
        phase_of = PhaseOf(on.made_for, first=not on.before) if on is not None else None
        try:
            record = await self._measurer.recording(lane, proposal.workload, "search", phase_of)
        except LaneLost:
            self._proposals.again.append(proposal.workload)
            raise
        return _Phase(proposal, record, SetUp(on.made_for) if on is not None and is_anew(record.result) else on)

    def _heard(self, lane: Lane, record: RunRecord, verdict: Verdict | None, on: SetUp | None) -> None:
        """Tell the strategy of a run. An anomalous one becomes a suspicion."""
        workload = record.workload
        if isinstance(record.result, SetupFailed) and record.result.of_outage and self._proposals.lost_path(record):
            return
        if not isinstance(record.result, Measured):
            outcome = ProposalOutcome.FAILED
            if isinstance(record.result, Unsupported):
                self._proposals.refuse(workload)
                outcome = ProposalOutcome.UNSUPPORTED
            self._strategy.tell(workload, Answer(outcome))
            return
        if verdict is not None:
            self._trust.judged(verdict)
        self._proposals.measured(workload)
        measurement = record.result.measurement
        if verdict is not None and verdict.is_anomalous:
            suspicion = Suspicion(workload, verdict, measurement, record.run, lane, on=on)
            if self._triage.observe(suspicion):
                self._confirmer.tell(suspicion, found=True)
        else:
            self._strategy.tell(workload, Answer(ProposalOutcome.MEASURED, measurement))

    async def _audit(self, lane: Lane, confirmed: ConfirmedAnomaly, workload: Workload) -> None:
        """Measure a proposal that an explanation covers."""
        try:
            record, verdict = await self._audits.measure(lane, confirmed, workload)
        except LaneLost:
            self._proposals.again.append(workload)
            raise
        shows = verdict is not None and verdict.is_anomalous
        outcome, measurement = ProposalOutcome.SKIPPED, None
        if isinstance(record.result, Measured):
            outcome, measurement = ProposalOutcome.MEASURED, record.result.measurement
        self._strategy.tell(workload, Answer(outcome, measurement, shows))
        await self._revise(lane, confirmed, record, verdict)

    async def _look_inside(self, lane: Lane) -> None:
        """Measure a workload drawn inside the explanation that was tested least."""
        confirmed = min(self._triage.with_set, key=attrgetter("audits"), default=None)
        if confirmed is None:
            return
        if (drawn := self._audits.draw(confirmed)) is None:
            confirmed.audits += 1  # what was known before covers it all
            return
        await self._revise(lane, confirmed, *await self._audits.measure(lane, confirmed, drawn))

    async def _revise(
        self, lane: Lane, confirmed: ConfirmedAnomaly, record: RunRecord, verdict: Verdict | None
    ) -> None:
        """Let an anomaly wait for a new explanation if an audit contradicts the one that it has."""
        if not await self._audits.holds(lane, confirmed, record, verdict):
            self._triage.contradicted(confirmed)
            self._triage.explain_next(confirmed)

    def _suspicion_for(self, lane: Lane) -> Suspicion | None:
        return self._triage.suspicion_for(lane, alone=self._searching == 1)

    def _due(self) -> ConfirmedAnomaly | None:
        sightings = self._recipe.explain_after_sightings
        return self._triage.due(sightings, self._rest_is_needed, fruitless=self._fruitless)

    @property
    def _fruitless(self) -> float:
        """Time of the search since it found anything new, in units of the expected time of an explanation."""
        set_ups = _EXPLANATION_RUNS if self._recipe.phases == 1 else _EXPLANATION_SET_UPS
        return self._triage.fruitless_seconds / (set_ups * self._measurer.set_up_seconds)

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
            runs /= lanes  # all of them measured
        return spent + one_after_another * runs * spent / max(1, measured) >= 1.0

    async def _explain(self, lane: Lane, confirmed: ConfirmedAnomaly) -> None:
        try:
            explained = await self._explainer.explain(lane, confirmed)
        except (SetAside, LaneLost):
            self._triage.explain_next(confirmed)
            raise
        if not explained.complete:
            return
        if (around := self._triage.same_set(confirmed)) is not None:
            self._sink.on_event(AnomalyMerged(self._triage.merge(confirmed, around.anomaly)))
            return
        # Another lane can withdraw this explanation or take up a waiting anomaly while controls run.
        for earlier in self._triage.explained_before(confirmed):
            if self._triage.stands(confirmed):
                await self._explainer.compare(lane, confirmed, earlier)
        for waiting in self._triage.covered_by(explained):
            if waiting in self._triage.waiting:
                await self._explainer.compare(lane, waiting, confirmed)

    async def _drive(
        self,
        lane: Lane,
        probes: Generator[Workload, Verdict | None, Result],
        purpose: str,
        floor: Floor = NO_FLOOR,
        about: Observation | None = None,
        after: SetUp | None = None,
    ) -> tuple[Result, int]:
        """Measure what a generator yields (`explain.Drive`)."""
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
                answer = floor.apply(reading.verdict) if reading else None
                runs += lane.runs - before
                await self._measurer.require_working(lane)
                if purpose in ("extract", "claim") and (suspicion := self._suspicion_for(lane)) is not None:
                    # another pair waits for this confirmation, and an extraction takes long
                    await self._confirmer.investigate(lane, suspicion)
        except StopIteration as stop:
            result: Result = stop.value
            return result, runs

    def _phase_of(self, lane: Lane, probe: Workload, about: Observation | None) -> PhaseOf:
        """Return the set-up of a question. What is not `about` an observation has a set-up of its own."""
        if about is None:
            return PhaseOf(probe, first=True)
        likely = [about.workload, self._space.base]
        if about.verdict.symptom is not None and about.verdict.symptom.is_relative:
            likely.append(self._measurer.judgement.sibling(probe))
        return standing_or_new(lane, self._space, probe, *likely)
