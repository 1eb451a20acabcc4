"""Tests of explanations: workloads that a set covers run nevertheless.

A *proposal* of the search that an explanation covers is one. While the search finds nothing new, workloads *drawn*
inside the sets are others: the search proposes little of what it knows, and a second cause can lie there.
"""

from __future__ import annotations

from random import Random

from collie.campaign.explain import Explainer
from collie.campaign.lanes import Lane, LaneLost
from collie.campaign.measure import Measurer
from collie.campaign.observations import ConfirmedAnomaly, Suspicion
from collie.campaign.triage import Triage
from collie.detect.symptom import Verdict
from collie.ports import Measured, RunRecord
from collie.search.anomaly import KnownAnomalies, chance_of_next
from collie.search.draws import draw_inside
from collie.workloads.space import Space
from collie.workloads.workload import Workload, stable_text

PURPOSE = "audit"
"""Purpose of a run that tests an explanation."""

_DRAWS = 20
"""Draws of a workload that no other set covers."""
_UNLIKELY = 0.05
"""Chance of two healthy runs inside a set at its show rate, below which they contradict it."""


class Audits:
    """The audits of one campaign. `known` are the anomalies that were known before it."""

    def __init__(
        self, measurer: Measurer, triage: Triage, explainer: Explainer, space: Space, known: KnownAnomalies
    ) -> None:
        self._measurer = measurer
        self._triage = triage
        self._explainer = explainer
        self._space = space
        self._known = known

    async def measure(
        self, lane: Lane, confirmed: ConfirmedAnomaly, workload: Workload
    ) -> tuple[RunRecord, Verdict | None]:
        """Measure a workload that an explanation covers, and judge it. Raises `BudgetSpent` and `LaneLost`."""
        confirmed.audits += 1
        try:
            return await self._measurer.judging(lane, workload, PURPOSE)
        except LaneLost:
            confirmed.audits -= 1
            raise

    def draw(self, confirmed: ConfirmedAnomaly) -> Workload | None:
        """Return a workload drawn inside an explanation and outside what was known before, if there is one.

        It lies outside the other explanations, if any does: then what it shows tells of this one alone.
        """
        anomaly = confirmed.anomaly
        others = [each.anomaly.mfs for each in self._triage.with_set if each is not confirmed]
        rng = Random(f"{stable_text(anomaly.workload)} {confirmed.audits}")
        shared = None
        for _ in range(_DRAWS):
            drawn = draw_inside(self._space, anomaly.mfs, anomaly.workload, rng)
            if self._known.covers(drawn) or self._measurer.lost_to(drawn) is not None:
                continue
            if not any(other.covers(drawn) for other in others):
                return drawn
            shared = shared or drawn
        return shared

    async def holds(self, lane: Lane, confirmed: ConfirmedAnomaly, record: RunRecord, verdict: Verdict | None) -> bool:
        """Return whether an explanation stands after an audit.

        An anomaly far worse than the set predicts is a suspicion. So is one of a symptom that the cause does not have.

        Raises:
            BudgetSpent: no further run can begin.
            LaneLost: the lane was lost in a further run.
        """
        workload, result = record.workload, record.result
        if verdict is None or not self._triage.stands(confirmed):
            return True
        if verdict.is_anomalous and isinstance(result, Measured):
            suspicion = Suspicion(workload, verdict, result.measurement, record.run, lane, proposed=False)
            if not confirmed.anomaly.symptom.is_related(verdict.symptom):
                self._triage.observe(suspicion)
                return True
            confirmed.anomaly = confirmed.anomaly.with_reproduction()
            self._triage.keep(confirmed.anomaly)
            if await self._explainer.exceeds(lane, confirmed, suspicion):
                self._triage.suspicions.append(suspicion)
        return not (verdict.is_normal and await self._contradicts(lane, confirmed, workload))

    async def _contradicts(self, lane: Lane, confirmed: ConfirmedAnomaly, workload: Workload) -> bool:
        """Whether a healthy run of a covered workload is no chance: it is healthy again, and the claim is high."""
        anomaly = confirmed.anomaly
        healthy = 1.0 - chance_of_next(anomaly.fresh_shows, anomaly.fresh_runs)
        if anomaly.fresh_runs and healthy * healthy > _UNLIKELY:
            return False
        reading = await self._measurer.probing(lane, workload, PURPOSE)
        return reading is not None and reading.verdict.is_normal and self._triage.stands(confirmed)
