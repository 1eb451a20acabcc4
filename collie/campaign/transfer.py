"""Anomalies that are known of another testbed, looked for on this one before the search begins.

The set of each is a hypothesis. If a workload inside it shows an anomaly here, its explanation begins with that set as
the likely one (`search.limits`), so that it asks little where the set holds, and moves the limits where they differ. Of
a set without such a workload nothing is claimed, and nothing is skipped because of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from random import Random

from collie.campaign.lanes import Lane, LaneLost, PhaseOf
from collie.campaign.measure import Measurer
from collie.campaign.observations import Suspicion
from collie.campaign.phases import standing_or_new
from collie.campaign.summary import NotConfirmed
from collie.campaign.triage import Triage
from collie.ports import Measured
from collie.search.anomaly import KnownAnomalies
from collie.search.draws import draw_inside
from collie.search.foreseen import ForeseenAnomaly
from collie.search.phases import answers
from collie.workloads.space import Space
from collie.workloads.workload import Workload, stable_text

PURPOSE = "known"
"""Purpose of a run that looks for a known anomaly."""

_DRAWS = 3
"""Workloads drawn inside a set whose own workloads are healthy: a larger device needs more to show it."""


class Transfer:
    """The known anomalies of one campaign.

    Attributes:
        waiting: those that have not been looked for.
    """

    def __init__(
        self,
        measurer: Measurer,
        triage: Triage,
        space: Space,
        known: KnownAnomalies,
        foreseen: Iterable[ForeseenAnomaly],
        *,
        phases: bool,
    ) -> None:
        self.waiting = deque(foreseen)
        self._not_shown: dict[str, NotConfirmed] = {}
        self._suspicions: dict[str, Suspicion] = {}
        self._measurer = measurer
        self._triage = triage
        self._space = space
        self._known = known
        self._phases = phases

    async def look_for(self, lane: Lane) -> None:
        """Look for the next known anomaly. The first workload that shows one is a suspicion."""
        foreseen = self.waiting.popleft()
        outcome = NotConfirmed.UNTRIED
        try:
            for workload in self._trials(lane, foreseen):
                if self._known.covers(workload):
                    return  # an explanation on this testbed holds it
                if self._measurer.lost_to(workload) is not None:
                    continue
                record, verdict = await self._measurer.judging(lane, workload, PURPOSE, self._on(lane, workload))
                if verdict is not None and verdict.is_anomalous and isinstance(record.result, Measured):
                    measurement = record.result.measurement
                    suspicion = Suspicion(
                        workload, verdict, measurement, record.run, lane, proposed=False, foreseen=foreseen
                    )
                    self._suspicions[foreseen.name] = suspicion
                    self._triage.suspicions.append(suspicion)
                    return
                if verdict is not None and verdict.is_normal:
                    outcome = NotConfirmed.ABSENT
        except LaneLost:
            self.waiting.appendleft(foreseen)
            raise
        self._not_shown[foreseen.name] = outcome

    @property
    def not_confirmed(self) -> dict[str, NotConfirmed]:
        """Those that were looked for and not confirmed."""
        dropped = (name for name, suspicion in self._suspicions.items() if suspicion.dropped)
        return self._not_shown | dict.fromkeys(dropped, NotConfirmed.SEEN_ONCE)

    def _trials(self, lane: Lane, foreseen: ForeseenAnomaly) -> Iterator[Workload]:
        """Yield workloads that may show it, plainest first. Those drawn fit the set-up that stands, if any can."""
        held = [each for each in dict.fromkeys(foreseen.workloads) if not self._space.complaints(each)]
        yield from held
        inside = next((workload for workload in held if foreseen.mfs.covers(workload)), None)
        if inside is None:
            return
        rng = Random(stable_text(inside))
        tried = set(held)
        for _ in range(_DRAWS):
            fits = answers(self._space, inside, lane.set_up)
            set_up = lane.set_up if fits else None
            # What the set leaves free is plain, because elsewhere another cause may show.
            drawn = draw_inside(self._space, foreseen.mfs, inside, rng, rest_plain=True, on=set_up)
            if drawn not in tried:
                tried.add(drawn)
                yield drawn

    def _on(self, lane: Lane, workload: Workload) -> PhaseOf | None:
        return standing_or_new(lane, self._space, workload) if self._phases else None
