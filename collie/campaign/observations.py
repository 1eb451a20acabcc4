"""What a campaign has seen: anomalous runs, suspicions, confirmed anomalies and lost hosts.

A *suspicion* is an anomalous run that awaits confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from collie.campaign.lanes import Lane
from collie.detect.measurement import Measurement
from collie.detect.symptom import Verdict
from collie.search.anomaly import Anomaly
from collie.search.foreseen import ForeseenAnomaly
from collie.search.second_cause import NO_FLOOR, Floor
from collie.workloads.feature import Mfs
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload


@dataclass(eq=False)
class Observation:
    """An anomalous run.

    Attributes:
        floor: from where on it shows, where a milder anomaly has the set `inside` around it.
        foreseen: the anomaly of another testbed that was looked for, if it was found so.
    """

    workload: Workload
    verdict: Verdict
    measurement: Measurement
    floor: Floor = field(default=NO_FLOOR, kw_only=True)
    inside: Mfs | None = field(default=None, kw_only=True)
    foreseen: ForeseenAnomaly | None = field(default=None, kw_only=True)


@dataclass(eq=False)
class Suspicion(Observation):
    """An anomalous run that awaits confirmation, with later observations that repeat it.

    Attributes:
        refuted: another lane did not reproduce it. The lane that observed it then tests whether it is itself the cause.
        taken: whether a lane is confirming it.
        proposed: whether the strategy proposed it. It did not propose sick plain traffic.
        on: the set-up that it was a phase of, with the phases before it.
        dropped: whether fresh runs did not confirm it.
    """

    run: int
    lane: Lane
    proposed: bool = True
    on: SetUp | None = None
    refuted: bool = False
    taken: bool = False
    dropped: bool = False
    repetitions: list[Suspicion] = field(default_factory=list)

    @property
    def observations(self) -> tuple[Suspicion, ...]:
        """This observation and its repetitions."""
        return (self, *self.repetitions)

    @property
    def proposals(self) -> tuple[Suspicion, ...]:
        """The observations that the strategy waits for."""
        return tuple(each for each in self.observations if each.proposed)


@dataclass(eq=False)
class ConfirmedAnomaly(Observation):
    """A confirmed anomaly with the run that raised the suspicion.

    Attributes:
        seen: its sightings while it awaits explanation.
        audits: number of runs that test its explanation.
        covered: number of proposals that its explanation covers.
        severity_alone: severity of the simplest workload, where hardly another cause adds to it.
        is_next: whether its explanation comes first: of plain traffic, or again after a lost pair or a wrong set.
    """

    anomaly: Anomaly
    seen: list[Observation] = field(default_factory=list)
    audits: int = 0
    covered: int = 0
    severity_alone: float = 0.0
    is_next: bool = False


@dataclass(frozen=True, slots=True)
class LostHost:
    """A run that cost a host. Its workload is not run again."""

    run: int
    host: str
    workload: Workload
    detail: str
