"""Explanations of confirmed anomalies, and what they say of other anomalies."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator
from typing import Protocol, TypeVar

from collie.campaign.budget import BudgetSpent
from collie.campaign.events import AnomalyExplained, AnomalyMerged, AnomalyReplaced
from collie.campaign.lanes import Lane
from collie.campaign.measure import Measurer
from collie.campaign.observations import ConfirmedAnomaly, Observation, Suspicion
from collie.campaign.triage import Triage
from collie.campaign.trust import Trust
from collie.detect.confirm import confirm
from collie.detect.symptom import Verdict
from collie.ports import ProgressSink
from collie.search.anomaly import Anomaly, KnownAnomalies, chance_of_next
from collie.search.discriminating_counters import rank
from collie.search.extract import MfsExtraction
from collie.search.fresh_runs import Judgements, Surroundings, claim, nothing_measured
from collie.search.joins import Explained, Joined, compare, predicts, reduced
from collie.search.phases import answers
from collie.search.recipe import Recipe
from collie.search.second_cause import NO_FLOOR, Floor, floor_between, is_more_severe
from collie.workloads.feature import Condition, Mfs
from collie.workloads.setup import SetUp
from collie.workloads.space import Space, widen_to_untested
from collie.workloads.workload import Workload

Result = TypeVar("Result")

_SIBLING_COST = 0.5
"""Expected number of runs of a plain sibling that a verdict on throughput may need."""
_UNLIKELY = 0.05
"""Chance of the fresh runs of a wider set at the show rate of the narrower one, below which they refute it."""


class Drive(Protocol):
    """Measures what a generator yields."""

    async def __call__(
        self,
        lane: Lane,
        probes: Generator[Workload, Verdict | None, Result],
        purpose: str,
        floor: Floor = NO_FLOOR,
        about: Observation | None = None,
        after: SetUp | None = None,
    ) -> tuple[Result, int]:
        """Send the generator the verdicts, and return its result and the number of runs.

        A verdict that does not reach the `floor` counts as normal. Questions `about` an observation are phases where
        they fit, and are judged as far as its symptom goes. Each run comes `after` the phases of a set-up, if there are
        any.
        """


class Explainer:
    """Explains anomalies on a lane."""

    def __init__(
        self,
        measurer: Measurer,
        triage: Triage,
        known: KnownAnomalies,
        space: Space,
        recipe: Recipe,
        trust: Trust,
        sink: ProgressSink,
        drive: Drive,
    ) -> None:
        self._measurer = measurer
        self._triage = triage
        self._known = known
        self._space = space
        self._recipe = recipe
        self._trust = trust
        self._sink = sink
        self._drive = drive

    async def explain(self, lane: Lane, confirmed: ConfirmedAnomaly) -> Anomaly:
        """Find the set of an anomaly and record it."""
        anomaly, floor = confirmed.anomaly, confirmed.floor

        def judgements() -> Iterator[tuple[Workload, Verdict]]:
            return ((workload, floor.apply(verdict)) for workload, verdict in self._measurer.judgement.judgements())

        around = self._around(lane, confirmed, judgements)
        runs = 0
        extraction = MfsExtraction(anomaly.workload, anomaly.symptom, self._recipe.extraction, around)
        with self._triage.explaining(confirmed):
            while not extraction.is_over:
                _, asked = await self._drive(lane, extraction.questions(), "extract", floor, about=confirmed)
                _, claimed = await self._drive(lane, extraction.claims(), "claim", floor)
                runs += asked + claimed
            extracted = extraction.result()
            if not await self._still_shows(lane, anomaly, extracted.workload):
                extracted = dataclasses.replace(extracted, workload=anomaly.workload)
        judgement = self._measurer.judgement
        # The simplest workload moves the fewest unrelated counters.
        typical = judgement.measurement(extracted.workload) or confirmed.measurement
        telling, hint = rank(typical, self._measurer.plain, anomaly.symptom, self._measurer.catalog, extracted.mfs)
        confirmed.severity_alone = judgement.severity(extracted.workload) or anomaly.severity
        confirmed.anomaly = dataclasses.replace(
            anomaly.reduced_to(extracted.workload, judgement.typical(extracted.workload, anomaly.symptom)),
            mfs=extracted.mfs,
            extraction_runs=anomaly.extraction_runs + runs,
            complete=extracted.complete,
            trials=extracted.trials,
            passed=extracted.passed,
            confidence=extracted.confidence,
            fresh_runs=extracted.fresh_runs,
            fresh_shows=extracted.fresh_shows,
            floor=floor,
            telling=telling,
            hint=hint,
            is_plain=judgement.is_plain(extracted.workload),
        )
        self._triage.explained(confirmed)
        self._sink.on_event(AnomalyExplained(confirmed.anomaly))
        return confirmed.anomaly

    async def _still_shows(self, lane: Lane, anomaly: Anomaly, simplest: Workload) -> bool:
        """Whether the simplest workload is anomalous against its plain sibling as this is now.

        A testbed drifts. The search can have measured the sibling hours before the simplest workload, which need not
        miss its bound by much.
        """
        measurement = self._measurer.judgement.measurement(simplest)
        if measurement is None or not anomaly.symptom.is_relative or simplest == anomaly.workload:
            return True
        try:
            await self._measurer.measuring_sibling(lane, simplest)
        except BudgetSpent:  # the explanation is complete, and the next run ends the search
            return True
        return self._measurer.judgement.settled(simplest, measurement).is_anomalous

    def _around(
        self, lane: Lane, confirmed: ConfirmedAnomaly, judgements: Judgements = nothing_measured
    ) -> Surroundings:
        milder = self._triage.milder_around(confirmed)
        return Surroundings(
            self._space,
            self._recipe.noise,
            lambda probe: self._known.covers(probe, but=milder),
            judgements,
            lambda probe: self._cost(lane, confirmed.anomaly, probe),
            lambda: lane.set_up,
            confirmed.foreseen.mfs if confirmed.foreseen is not None else None,
        )

    def _cost(self, lane: Lane, anomaly: Anomaly, probe: Workload) -> float:
        is_phase = self._recipe.phases > 1 and answers(self._space, probe, lane.set_up)
        own = self._measurer.phase_cost if is_phase else 1.0
        needs_sibling = anomaly.symptom.is_relative and not self._measurer.judgement.knows_bound(probe)
        return own + _SIBLING_COST * needs_sibling

    async def compare(self, lane: Lane, waiting: ConfirmedAnomaly, explained: ConfirmedAnomaly) -> None:
        """Join a covered anomaly if its controls agree. A second cause that they show takes its place.

        Nothing comes of it if another lane withdraws one of the two explanations meanwhile.
        """
        stood = self._triage.stands(waiting)
        if not self._triage.stands(explained):
            return
        anomaly, mfs = waiting.anomaly, explained.anomaly.mfs
        verdict = self._measurer.judgement.with_signature(waiting.verdict, waiting.measurement)
        checked: frozenset[Condition] = frozenset()
        with self._triage.comparing(waiting):
            while True:
                before = explained.anomaly.mfs
                probes = compare(anomaly.workload, verdict, self._covering(explained), self._space, checked)
                joined, _ = await self._drive(lane, probes, "control", about=waiting)
                second = await self._confirmed(lane, joined)
                if joined.needless is not None:
                    await self._widen(lane, explained, joined.needless)
                if not self._triage.stands(explained) or self._triage.stands(waiting) is not stood:
                    return
                if explained.anomaly.mfs != before:
                    checked = frozenset()
                elif joined.suspect is not None and second is None:
                    checked = joined.checked
                else:
                    break
        if joined.same:
            self._sink.on_event(AnomalyMerged(self._triage.merge(waiting, explained.anomaly)))
        elif waiting.anomaly.complete:
            return  # it has a set of its own
        elif joined.suspect is not None and second is not None:
            assert second.symptom is not None
            waiting.workload, waiting.verdict = joined.suspect, second
            waiting.measurement = self._measurer.judgement.measurement(joined.suspect) or waiting.measurement
            waiting.anomaly = dataclasses.replace(
                anomaly,
                workload=joined.suspect,
                found_as=joined.suspect,
                symptom=second.symptom,
                reason=second.reason,
                severity=second.severity,
                host=second.host,
                found_at_run=self._measurer.judgement.first_run(joined.suspect, second.symptom),
                found_at_seconds=self._measurer.elapsed_seconds,
                is_plain=self._measurer.judgement.is_plain(joined.suspect),
                known_as="",
            )
            self._triage.keep(waiting.anomaly)
            self._sink.on_event(AnomalyReplaced(waiting.anomaly))
        else:
            waiting.inside = widen_to_untested(mfs, self._space)
            waiting.floor = floor_between(joined.alone, verdict)
            if waiting.floor == NO_FLOOR:
                waiting.floor = floor_between(self._covering(explained).cause, verdict)

    async def _confirmed(self, lane: Lane, joined: Joined) -> Verdict | None:
        """Return a typical verdict on a control with another cause if set-ups of its own confirm that, else None."""
        if joined.suspect is None or joined.symptom is None:
            return None
        probes = confirm(joined.suspect, joined.symptom, self._trust.rule, self._recipe.confirmation.void_runs)
        floor = Floor(self._recipe.confirming_severity(joined.symptom))
        confirmation, _ = await self._drive(lane, probes, "confirm", floor)
        return confirmation.typical if confirmation.confirmed else None

    def _covering(self, explained: ConfirmedAnomaly) -> Explained:
        anomaly = explained.anomaly
        own = widen_to_untested(anomaly.mfs, self._space)
        typical = self._measurer.judgement.measurement(anomaly.workload) or explained.measurement
        cause = self._measurer.judgement.with_signature(explained.verdict, typical)
        cause = dataclasses.replace(cause, severity=explained.severity_alone)
        return Explained(
            anomaly.mfs, anomaly.workload, cause, lambda workload: self._known.covers(workload, but=(own,))
        )

    async def _widen(self, lane: Lane, explained: ConfirmedAnomaly, needless: Condition) -> None:
        """Drop a condition of a set if fresh runs without it keep its claim.

        If another lane changes or withdraws the set meanwhile, these runs tell nothing of it.
        """
        from scipy.stats import binom  # a second that most commands do not need

        before = explained.anomaly.mfs
        mfs = Mfs(tuple(condition for condition in before.conditions if condition != needless))
        if not mfs.conditions:
            return
        probes = claim(mfs, explained.anomaly.workload, self._recipe.extraction, self._around(lane, explained))
        (shows, runs), _ = await self._drive(lane, probes, "claim", explained.floor)
        anomaly = explained.anomaly
        if not self._triage.stands(explained) or anomaly.mfs != before:
            return
        if not runs or binom.cdf(shows, runs, chance_of_next(anomaly.fresh_shows, anomaly.fresh_runs)) < _UNLIKELY:
            return
        self._triage.contradicted(explained)
        revised = explained.anomaly.revised
        explained.anomaly = dataclasses.replace(
            anomaly, mfs=mfs, fresh_runs=runs, fresh_shows=shows, revised=revised, floor=explained.floor
        )
        self._triage.explained(explained)
        self._sink.on_event(AnomalyExplained(explained.anomaly))

    async def exceeds(self, lane: Lane, explained: ConfirmedAnomaly, run: Suspicion) -> bool:
        """Whether a run inside a set is worse than the set predicts, so that a second cause shows.

        Then the suspicion gets the severity from which on the second cause shows.
        """
        mfs = explained.anomaly.mfs
        if not mfs.conditions or not is_more_severe(run.verdict, explained.severity_alone):
            return False
        alone = reduced(run.workload, mfs, self._space)
        reading = await self._measurer.probing(lane, alone, "control")
        if reading is None or reading.verdict.is_inconclusive or predicts(reading.verdict, run.verdict):
            return False
        run.inside = widen_to_untested(mfs, self._space)
        run.floor = floor_between(reading.verdict, run.verdict)
        return True
