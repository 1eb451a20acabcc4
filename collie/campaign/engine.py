"""The search loop: ask, measure, judge, confirm, extract, tell (DESIGN 4).

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
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from collie.campaign.budget import BudgetSpent
from collie.campaign.events import AnomalyConfirmed, AnomalyExplained, AnomalyMerged, SuspicionDropped
from collie.campaign.measure import LostHost, Measurer
from collie.counters.catalog import Catalog
from collie.detect.confirm import Confirmed, Trust, confirm, trust
from collie.detect.measurement import Measurement
from collie.detect.signature import same_cause
from collie.detect.symptom import Symptom, Verdict
from collie.ports import CampaignStore, Measured, ProgressSink, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly, KnownAnomalies
from collie.search.extract import extract
from collie.search.prospects import Prospects, Sighting, prospects
from collie.search.recipe import Recipe
from collie.search.resolution import as_wide_as_it_may_be
from collie.search.strategy import Answer, Fate, Strategy
from collie.search.telling import tell
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_MOST_SKIPPED = 2000
"""Proposals in a row that known anomalies cover: then they cover, for practical purposes, the space."""

_EXPLANATION_RUNS = 35
"""Runs that an explanation is expected to take, when some are kept back for it."""

Result = TypeVar("Result")


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
        ended_by: `budget`, `pause budget`, or `coverage` when known anomalies leave nothing to propose.
        trust: how far the findings can be trusted; None when too little was judged.
        prospects: the chance of another find in the next hour; None when too little is known.
    """

    runs: int
    failed_runs: Mapping[str, int]
    unsupported_runs: int
    skipped: int
    elapsed_seconds: float
    anomalies: tuple[Anomaly, ...]
    ended_by: str
    trust: Trust | None = None
    prospects: Prospects | None = None
    lost: tuple[LostHost, ...] = ()


@dataclass
class _Seen:
    """A run that shows something.

    Attributes:
        suspicion: its verdict.
        measurement: what it showed.
    """

    suspicion: Verdict
    measurement: Measurement


@dataclass
class _Met(_Seen):
    """A confirmed anomaly, and the run that raised the suspicion.

    Attributes:
        anomaly: as it stands.
        sightings: how often the search met it while its explanation was put off.
        audits: runs that its explanation covers and that were made to see whether it holds.
    """

    anomaly: Anomaly
    sightings: int = 0
    audits: int = 0


class Engine:
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
        self._store = store
        self._strategy = strategy
        self._space = space
        self._recipe = recipe
        self._sink = sink
        self._known = known
        self._found: list[Anomaly] = []
        self._skipped = 0
        self._on_record = {anomaly.id for anomaly in store.anomalies()}
        self._refused: set[Workload] = set()
        self._catalog = catalog
        self._waiting: list[_Met] = []
        self._explained: list[_Met] = []
        self._judged = 0
        self._dropped: list[Verdict] = []
        self._sightings: list[Sighting] = []

    def run(self) -> Summary:
        """Search until the budget is spent.

        Raises:
            TestbedError: the testbed is gone; everything up to here is on record.
        """
        try:
            skipped_in_a_row = 0
            while skipped_in_a_row < _MOST_SKIPPED:
                while waiting := self._due():
                    self._explain(waiting)
                skipped_in_a_row = 0 if self._step() else skipped_in_a_row + 1
            while self._waiting:
                self._explain(self._waiting[0])
            ended_by = "coverage"
        except BudgetSpent as spent:
            ended_by = spent.what
        return self.summary(ended_by)

    def summary(self, ended_by: str) -> Summary:
        """Return how the campaign stands."""
        return Summary(
            self._measurer.runs,
            dict(self._measurer.failed),
            self._measurer.unsupported,
            self._skipped,
            self._measurer.elapsed_seconds,
            tuple(self._found),
            ended_by,
            trust(self._recipe.confirmation, self._judged, self._dropped),
            prospects(
                [anomaly.found_at_seconds for anomaly in self._found if anomaly.same_as is None],
                self._sightings_of_kinds(),
                self._measurer.elapsed_seconds,
            ),
            tuple(self._measurer.lost.values()),
        )

    def _sightings_of_kinds(self) -> list[Sighting]:
        """Return the sightings under the anomaly that explains what was sighted."""
        kinds = {anomaly.id: anomaly.same_as or anomaly.id for anomaly in self._found}
        return [Sighting(sighting.seconds, kinds[sighting.kind]) for sighting in self._sightings]

    def _step(self) -> bool:
        """Take one proposal to its end; return whether it was measured."""
        workload = self._strategy.ask()
        if self._recipe.skip_known and self._known.covers(workload):
            if (doubted := self._to_audit(workload)) is not None:
                self._audit(doubted, workload)
                return True
            self._skipped += 1
            self._sight(workload)
            self._strategy.tell(workload, Answer(Fate.SKIPPED))
            return False
        if workload in self._refused:
            self._strategy.tell(workload, Answer(Fate.UNSUPPORTED))
            return False
        self._aim()
        result, verdict = self._measurer.judged(workload, "search")
        if not isinstance(result, Measured):
            fate = Fate.UNSUPPORTED if isinstance(result, Unsupported) else Fate.FAILED
            if not isinstance(result, SetupFailed):
                self._refused.add(workload)
            self._strategy.tell(workload, Answer(fate))
            return True
        self._judged += 1
        found = verdict is not None and verdict.is_anomalous and self._meet(workload, verdict, result.measurement)
        self._strategy.tell(workload, Answer(Fate.MEASURED, result.measurement, found))
        return True

    def _aim(self) -> None:
        """Let the record and whoever watches know what the strategy is after."""
        self._measurer.driven = self._strategy.driven
        self._measurer.temperature = self._strategy.temperature

    def _to_audit(self, workload: Workload) -> _Met | None:
        """Return the explanation that covers a workload, if it has not been put to the test often enough."""
        covering = (met for met in self._explained if met.anomaly.mfs.covers(workload))
        return next((met for met in covering if met.audits < self._recipe.audits), None)

    def _audit(self, met: _Met, workload: Workload) -> None:
        """Measure what an explanation covers; revise it when that is healthy."""
        met.audits += 1
        self._aim()
        result, verdict = self._measurer.judged(workload, "audit")
        shows = verdict is not None and verdict.is_anomalous
        fate, measurement = Fate.SKIPPED, None
        if isinstance(result, Measured):
            fate, measurement = Fate.MEASURED, result.measurement
        self._strategy.tell(workload, Answer(fate, measurement, shows))
        if shows:
            met.anomaly = met.anomaly.shown_again()
            self._keep(met.anomaly)
        elif verdict is not None and verdict.is_normal:
            self._known.remove(self._widened(met.anomaly))
            self._explained.remove(met)
            self._explain(met)

    def _widened(self, anomaly: Anomaly) -> Mfs:
        return as_wide_as_it_may_be(anomaly.mfs, self._space)

    def _meet(self, workload: Workload, suspicion: Verdict, measurement: Measurement) -> bool:
        """Tell whether a suspicion is an anomaly: one that waits for its explanation, or a new one."""
        seen = _Seen(suspicion, measurement)
        for waiting in self._waiting:
            if self._is_sighting(waiting, workload, seen):
                waiting.sightings += 1
                self._sightings.append(Sighting(self._measurer.elapsed_seconds, waiting.anomaly.id))
                return True
        return self._investigate(workload, suspicion, measurement)

    def _investigate(self, workload: Workload, suspicion: Verdict, measurement: Measurement) -> bool:
        """Confirm a suspicion and see to its explanation; return whether it was confirmed."""
        symptom = suspicion.symptom
        assert symptom is not None
        run = self._measurer.runs
        if any(a.complete and not a.mfs.conditions and a.symptom is symptom for a in self._found):
            return True  # everything shows this symptom, whatever runs: there is nothing left to explain
        policy = self._recipe.confirmation
        self._freshen_bound(workload, policy.siblings(suspicion))
        confirmed = self._drive(confirm(workload, symptom, policy, suspicion), "confirm")
        if not confirmed.confirmed:
            if not confirmed.put_aside:
                self._dropped.append(suspicion)
            self._sink.on_event(SuspicionDropped(run, suspicion))
            return False
        anomaly = self._anomaly(workload, symptom, run, confirmed)
        self._sightings.append(Sighting(self._measurer.elapsed_seconds, anomaly.id))
        self._keep(anomaly)
        self._sink.on_event(AnomalyConfirmed(anomaly))
        if self._recipe.explain:
            self._waiting.append(_Met(suspicion, measurement, anomaly))
        return True

    def _sight(self, workload: Workload) -> None:
        covering = next((a for a in self._found if a.complete and a.mfs.covers(workload)), None)
        if covering is not None:
            self._sightings.append(Sighting(self._measurer.elapsed_seconds, covering.id))

    def _due(self) -> _Met | None:
        """Return an anomaly whose explanation pays now."""
        if self._waiting and not self._recipe.put_off:
            return self._waiting[0]
        fresh = [waiting for waiting in self._waiting if not self._is_kin(waiting)]
        oftenest = max(fresh, key=lambda waiting: waiting.sightings, default=None)
        if oftenest and oftenest.sightings >= self._recipe.put_off:
            return oftenest
        waiting = fresh or self._waiting
        return waiting[0] if waiting and self._rest_is_needed(len(waiting)) else None

    def _rest_is_needed(self, explanations: int) -> bool:
        """Whether the rest of the budget should go into explanations.

        A campaign that goes on with a larger budget has to take the same steps up to where it stopped: there the record
        knows.
        """
        if self._measurer.replaying:
            return self._measurer.next_purpose == "extract"
        spent = self._measurer.budget_share
        return spent + explanations * _EXPLANATION_RUNS * spent / max(1, self._measurer.runs) >= 1.0

    def _is_kin(self, waiting: _Met) -> bool:
        """Whether something alike is explained already: the same cause, most likely, where its explanation ends."""
        return any(self._is_sighting(other, waiting.anomaly.found_as, waiting) for other in self._explained)

    def _is_sighting(self, met: _Met, workload: Workload, seen: _Seen) -> bool:
        """Whether what was seen is most likely an anomaly that was met before.

        Signatures are taken anew: what is ordinary is known the better the longer a campaign runs.
        """
        before = met.anomaly.found_as
        if seen.suspicion.symptom is not met.suspicion.symptom or before.qp_type is not workload.qp_type:
            return False  # one counter often serves several transports, each with limits of its own
        elsewhere = before.opcode is not workload.opcode
        signature = self._measurer.signature
        return same_cause(signature(met.measurement), signature(seen.measurement), elsewhere=elsewhere)

    def _freshen_bound(self, workload: Workload, siblings: int) -> None:
        if not self._measurer.knows_bound(workload):
            self._measurer.measure_sibling(workload)
        for _ in range(siblings):
            self._measurer.measure_sibling(workload)

    def _anomaly(self, workload: Workload, symptom: Symptom, run: int, confirmed: Confirmed) -> Anomaly:
        shown = sorted(confirmed.shown, key=lambda verdict: verdict.severity)
        typical = shown[len(shown) // 2]
        return Anomaly(
            id=f"a{len(self._found) + 1}",
            symptom=symptom,
            severity=median(verdict.severity for verdict in shown),
            workload=workload,
            found_as=workload,
            mfs=Mfs(()),
            reason=typical.reason,
            host=typical.host,
            found_at_run=run,
            found_at_seconds=self._measurer.elapsed_seconds,
            extraction_runs=0,
            complete=False,
        )

    def _explain(self, met: _Met) -> None:
        """Find out when an anomaly shows; or find out better, if an explanation of it was contradicted."""
        anomaly, first = met.anomaly, self._measurer.runs
        if met in self._waiting:
            self._waiting.remove(met)
        extracted = self._drive(
            extract(
                anomaly.workload,
                anomaly.symptom,
                self._space,
                self._recipe.extraction,
                self._known.covers,
                self._measurer.judgements,
                lambda probe: anomaly.symptom is not Symptom.LOW_THROUGHPUT or self._measurer.knows_bound(probe),
            ),
            "extract",
        )
        # The simplest workload moves the fewest counters besides those of the cause.
        shown = self._measurer.measurement(extracted.workload) or met.measurement
        telling, hint = tell(shown, self._measurer.plain, anomaly.symptom, self._catalog)
        met.anomaly = dataclasses.replace(
            anomaly,
            workload=extracted.workload,
            mfs=extracted.mfs,
            extraction_runs=anomaly.extraction_runs + self._measurer.runs - first,
            complete=extracted.complete,
            trials=extracted.trials,
            passed=extracted.passed,
            confidence=extracted.confidence,
            telling=telling,
            hint=hint,
            revised=(*anomaly.revised, anomaly.mfs) if anomaly.complete else anomaly.revised,
        )
        if extracted.complete:  # a set that lacks conditions would hide what it does not explain
            self._known.add(self._widened(met.anomaly))
            self._explained.append(met)
        self._keep(met.anomaly)
        self._sink.on_event(AnomalyExplained(met.anomaly))
        if extracted.complete:
            self._merge(met.anomaly)

    def _merge(self, explained: Anomaly) -> None:
        """Mark what waits and is explained by now as the same."""
        covered = [
            waiting
            for waiting in self._waiting
            if explained.symptom.is_kin(waiting.anomaly.symptom) and explained.mfs.covers(waiting.anomaly.found_as)
        ]
        for waiting in covered:
            self._waiting.remove(waiting)
            same = dataclasses.replace(waiting.anomaly, same_as=explained.id)
            self._keep(same)
            self._sink.on_event(AnomalyMerged(same))

    def _keep(self, anomaly: Anomaly) -> None:
        known = next((index for index, found in enumerate(self._found) if found.id == anomaly.id), None)
        if known is None:
            self._found.append(anomaly)
        else:
            self._found[known] = anomaly
        # What is being replayed is on record already, possibly in a later and better state.
        if not (self._measurer.replaying and anomaly.id in self._on_record):
            self._store.add_anomaly(anomaly)

    def _drive(self, probes: Generator[Workload, Verdict | None, Result], purpose: str) -> Result:
        """Answer a generator's probes by measuring."""
        try:
            probe = next(probes)
            while True:
                probe = probes.send(self._measurer.probe(probe, purpose))
        except StopIteration as stop:
            result: Result = stop.value
            return result
