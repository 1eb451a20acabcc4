"""Confirmation of suspicions on fresh set-ups, and after the phases that came before them."""

from __future__ import annotations

from dataclasses import replace

from collie.campaign.events import AnomalyConfirmed, SuspicionDropped
from collie.campaign.explain import Drive
from collie.campaign.history import tracing
from collie.campaign.lanes import Lane, LaneLost
from collie.campaign.measure import Measurer
from collie.campaign.observations import Observation, Suspicion
from collie.campaign.summary import Unconfirmed
from collie.campaign.triage import Triage
from collie.campaign.trust import Trust
from collie.detect.confirm import Confirmed, confirm
from collie.detect.symptom import Symptom
from collie.ports import ProgressSink
from collie.search.anomaly import Anomaly
from collie.search.recipe import Recipe
from collie.search.strategy import Answer, ProposalOutcome, Strategy
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_MAX_TRACED = 10
"""Limit on suspicions that are looked for after the phases before them."""


class SetAside(Exception):
    """The pair of this lane has been set aside."""


class Confirmer:
    """Confirms suspicions on a lane.

    Attributes:
        unconfirmed: suspicions that showed again too rarely.
    """

    def __init__(
        self,
        measurer: Measurer,
        triage: Triage,
        strategy: Strategy,
        space: Space,
        recipe: Recipe,
        trust: Trust,
        sink: ProgressSink,
        drive: Drive,
    ) -> None:
        self.unconfirmed: list[Unconfirmed] = []
        self._traced = 0
        self._measurer = measurer
        self._triage = triage
        self._strategy = strategy
        self._space = space
        self._recipe = recipe
        self._trust = trust
        self._sink = sink
        self._drive = drive

    def tell(self, observation: Observation, *, found: bool) -> None:
        """Tell the strategy what came of an observation."""
        self._strategy.tell(observation.workload, Answer(ProposalOutcome.MEASURED, observation.measurement, found))

    def suspect_plain(self) -> bool:
        """Turn plain traffic that is itself anomalous into suspicions. Return whether one is new."""
        new = False
        while self._measurer.sick:
            sick = self._measurer.sick.pop(0)
            run = sick.record
            if not self._space.complaints(run.workload):
                suspicion = Suspicion(run.workload, sick.verdict, sick.measurement, run.run, sick.lane, proposed=False)
                new = self._triage.put_first(suspicion) or new
        return new

    async def investigate(self, lane: Lane, suspicion: Suspicion) -> None:
        """Confirm a suspicion or drop it. Raises `SetAside` if only the pair that observed it shows it."""
        suspicion.taken = True
        symptom = suspicion.verdict.symptom
        assert symptom is not None
        policy = self._recipe.confirmation
        floor = suspicion.floor.at_least(self._recipe.confirming_severity(symptom))
        try:
            await self._freshen_bound(lane, suspicion.workload, policy.siblings(suspicion.verdict))
            suspicion.taken = False
            if self.suspect_plain():
                return  # the simpler workload comes first
            suspicion.taken = True
            probes = confirm(suspicion.workload, symptom, self._trust.rule, policy.void_runs)
            confirmation, _ = await self._drive(lane, probes, "confirm", floor)
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
            anomaly = self._anomaly(suspicion, confirmation)
            self._triage.confirmed(suspicion, anomaly, explain=self._recipe.explain, is_next=anomaly.is_plain)
            self._sink.on_event(AnomalyConfirmed(anomaly))
        elif not confirmation.confirmed:
            try:
                shows = refuted and await self._shows_after(lane, suspicion, symptom)
            except LaneLost:
                suspicion.refuted = False  # its own pair does not show it alone either, so another one goes on
                self._triage.suspicions.append(suspicion)
                raise
            if not shows:
                self.drop(suspicion, confirmation)
            return
        elif len(self._measurer.lanes) == 1:
            # Another pair did not show it and is gone. The last pair cannot be compared, so nobody knows which is odd.
            reason = f"{suspicion.verdict.reason}; another pair, which is gone, did not show it"
            suspicion.verdict = replace(suspicion.verdict, reason=reason)
            self.drop(suspicion, confirmation)
            return
        for observation in suspicion.proposals:
            self.tell(observation, found=found)
        if of_one_pair:
            self._measurer.retire(lane, f"{suspicion.verdict.reason}; another pair does not show it")
            raise SetAside

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
        floor = suspicion.floor.at_least(self._recipe.confirming_severity(symptom))
        confirmation, _ = await self._drive(lane, probes, "confirm", floor, after=after)
        if not confirmation.confirmed:
            return False
        anomaly = self._anomaly(suspicion, confirmation)
        anomaly = replace(anomaly, history=after.before, made_for=after.made_for, is_plain=False)
        self._triage.confirmed(suspicion, anomaly, explain=False)
        self._sink.on_event(AnomalyConfirmed(anomaly))
        for observation in suspicion.proposals:
            self.tell(observation, found=True)
        return True

    def drop(self, suspicion: Suspicion, confirmation: Confirmed | None = None) -> None:
        """Note that a suspicion is not confirmed, and how often it showed."""
        if confirmation is None or not (confirmation.deferred or confirmation.confirmed):  # else it was no stray run
            self._trust.dropped()
        shows, runs = (len(confirmation.reproduced), confirmation.runs) if confirmation is not None else (0, 0)
        if shows:
            self.unconfirmed.append(Unconfirmed(suspicion.run, suspicion.workload, suspicion.verdict, shows, runs))
        suspicion.dropped = True
        self._sink.on_event(SuspicionDropped(suspicion.run, suspicion.verdict, shows, runs))
        for observation in suspicion.proposals:
            self.tell(observation, found=False)

    async def _freshen_bound(self, lane: Lane, workload: Workload, siblings: int) -> None:
        if not self._measurer.judgement.knows_bound(workload):
            await self._measurer.measuring_sibling(lane, workload)
        for _ in range(siblings):
            await self._measurer.freshening(lane, workload)

    def _anomaly(self, suspicion: Suspicion, confirmation: Confirmed) -> Anomaly:
        typical = confirmation.typical
        assert typical.symptom is not None
        return Anomaly(
            id=f"a{len(self._triage.found) + 1}",
            symptom=typical.symptom,
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
            is_plain=self._measurer.judgement.is_plain(suspicion.workload),
            known_as=suspicion.foreseen.name if suspicion.foreseen is not None else "",
        )
