"""The search loop: ask, measure, judge, confirm, extract, tell (DESIGN 4).

Rules.
1. Nothing is told to the strategy before it is on record.
2. A workload that a known MFS covers is not measured; the strategy hears `skipped`.
3. A suspicion is confirmed on fresh queue pairs before it is called an anomaly; only then its MFS is extracted.
4. Every run counts towards the budget, whatever its purpose. The budget ends the loop at any depth; an anomaly whose
   extraction it cut short is kept and says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from collie.campaign.budget import BudgetSpent
from collie.campaign.events import AnomalyConfirmed, AnomalyExplained, SuspicionDropped
from collie.campaign.measure import Measurer
from collie.detect.confirm import Confirmed, confirm
from collie.detect.symptom import Symptom, Verdict
from collie.ports import CampaignStore, Measured, ProgressSink, SetupFailed
from collie.search.anomaly import Anomaly, KnownAnomalies
from collie.search.extract import extract
from collie.search.recipe import Recipe
from collie.search.resolution import as_wide_as_it_may_be
from collie.search.strategy import Answer, Fate, Strategy
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_MOST_SKIPPED = 2000
"""Proposals in a row that known anomalies cover: then they cover, for practical purposes, the space."""

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
        ended_by: `budget`, or `coverage` when known anomalies leave nothing to propose.
    """

    runs: int
    failed_runs: Mapping[str, int]
    unsupported_runs: int
    skipped: int
    elapsed_seconds: float
    anomalies: tuple[Anomaly, ...]
    ended_by: str


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

    def run(self) -> Summary:
        """Search until the budget is spent.

        Raises:
            TestbedError: the testbed is gone; everything up to here is on record.
        """
        ended_by = "budget"
        try:
            skipped_in_a_row = 0
            while skipped_in_a_row < _MOST_SKIPPED:
                skipped_in_a_row = 0 if self._step() else skipped_in_a_row + 1
            ended_by = "coverage"
        except BudgetSpent:
            pass
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
        )

    def _step(self) -> bool:
        """Take one proposal to its end; return whether it was measured."""
        workload = self._strategy.ask()
        if self._recipe.skip_known and self._known.covers(workload):
            self._skipped += 1
            self._strategy.tell(workload, Answer(Fate.SKIPPED))
            return False
        if workload in self._refused:
            self._strategy.tell(workload, Answer(Fate.UNSUPPORTED))
            return False
        self._measurer.driven = self._strategy.driven
        result, verdict = self._measurer.judged(workload, "search")
        if not isinstance(result, Measured):
            fate = Fate.FAILED if isinstance(result, SetupFailed) else Fate.UNSUPPORTED
            if fate is Fate.UNSUPPORTED:
                self._refused.add(workload)
            self._strategy.tell(workload, Answer(fate))
            return True
        found = verdict is not None and verdict.is_anomalous and self._investigate(workload, verdict)
        self._strategy.tell(workload, Answer(Fate.MEASURED, result.measurement, found))
        return True

    def _investigate(self, workload: Workload, suspicion: Verdict) -> bool:
        """Confirm a suspicion and explain it; return whether it was confirmed."""
        symptom = suspicion.symptom
        assert symptom is not None
        run = self._measurer.runs
        if any(a.complete and not a.mfs.conditions and a.symptom is symptom for a in self._found):
            return True  # everything shows this symptom, whatever runs: there is nothing left to explain
        self._freshen_bound(workload, symptom)
        confirmed = self._drive(confirm(workload, symptom, self._recipe.confirmation), "confirm", reuse=False)
        if not confirmed.confirmed:
            self._sink.on_event(SuspicionDropped(run, suspicion))
            return False
        anomaly = self._anomaly(workload, symptom, run, confirmed)
        self._keep(anomaly)
        self._sink.on_event(AnomalyConfirmed(anomaly))
        self._explain(anomaly)
        return True

    def _freshen_bound(self, workload: Workload, symptom: Symptom) -> None:
        if not self._measurer.knows_bound(workload):
            self._measurer.measure_sibling(workload)
        if symptom is Symptom.LOW_THROUGHPUT:
            for _ in range(self._recipe.confirmation.fresh_siblings):
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

    def _explain(self, anomaly: Anomaly) -> None:
        first = self._measurer.runs
        extracted = self._drive(
            extract(anomaly.found_as, anomaly.symptom, self._space, self._recipe.extraction, self._known.covers),
            "extract",
            reuse=True,
        )
        anomaly = dataclasses.replace(
            anomaly,
            workload=extracted.workload,
            mfs=extracted.mfs,
            extraction_runs=self._measurer.runs - first,
            complete=extracted.complete,
        )
        if extracted.complete:  # a set that lacks conditions would hide what it does not explain
            self._known.add(as_wide_as_it_may_be(extracted.mfs, self._space))
        self._keep(anomaly)
        self._sink.on_event(AnomalyExplained(anomaly))

    def _keep(self, anomaly: Anomaly) -> None:
        if self._found and self._found[-1].id == anomaly.id:
            self._found[-1] = anomaly
        else:
            self._found.append(anomaly)
        # What is being replayed is on record already, possibly in a later and better state.
        if not (self._measurer.replaying and anomaly.id in self._on_record):
            self._store.add_anomaly(anomaly)

    def _drive(self, probes: Generator[Workload, Verdict | None, Result], purpose: str, *, reuse: bool) -> Result:
        """Answer a generator's probes by measuring, or from what was measured before."""
        used: dict[Workload, int] = {}
        try:
            probe = next(probes)
            while True:
                verdict = self._remembered(probe, used) if reuse else None
                if verdict is None:
                    verdict = self._measurer.probe(probe, purpose)
                used[probe] = used.get(probe, 0) + 1
                probe = probes.send(verdict)
        except StopIteration as stop:
            result: Result = stop.value
            return result

    def _remembered(self, probe: Workload, used: Mapping[Workload, int]) -> Verdict | None:
        """Return a verdict on this workload that this generator has not been told yet."""
        evidence = self._measurer.evidence(probe)
        index = used.get(probe, 0)
        return evidence[index] if index < len(evidence) else None
