"""Carry-over: whether later phases of a set-up measure what set-ups of their own would."""

from __future__ import annotations

from collie.campaign.lanes import Lane
from collie.campaign.measure import Measurer
from collie.detect.reading import reading_of
from collie.ports import Measured, RunRecord

_REPEATED = 20
"""One of so many normal later phases is repeated."""
_ALIKE = 0.1
"""Share by which the throughput of such a phase may differ."""


class CarryOver:
    """Repeats some normal later phases, each on a set-up of its own.

    Attributes:
        changed: whether each repeated phase then was anomalous or had another throughput.
    """

    def __init__(self, measurer: Measurer) -> None:
        self.changed: list[bool] = []
        self._normal_phases = 0
        self._measurer = measurer

    async def check(self, lane: Lane, phase: RunRecord) -> None:
        """Count a normal later phase, and repeat it if its turn has come. Raises `BudgetSpent` and `LaneLost`."""
        self._normal_phases += 1
        if self._normal_phases % _REPEATED or not isinstance(phase.result, Measured):
            return
        fresh = await self._measurer.probing(lane, phase.workload, "repeat")
        if fresh is not None and not fresh.verdict.is_inconclusive:
            then = reading_of(fresh.verdict, phase.result.measurement).delivered_bps or 0.0
            differs = abs(then - (fresh.delivered_bps or 0.0)) > _ALIKE * max(then, fresh.delivered_bps or 0.0)
            self.changed.append(differs or fresh.verdict.is_anomalous)
