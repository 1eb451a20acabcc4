"""The result of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from collie.campaign.observations import LostHost
from collie.detect.confirm import Reliability
from collie.detect.symptom import Verdict
from collie.ports import RunRecord
from collie.search.anomaly import Anomaly
from collie.search.discovery import DiscoveryEstimate
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """A suspicion that showed again too rarely to be confirmed.

    Attributes:
        run: number of the run that raised the suspicion.
        shows: number of its confirming runs that reproduced the symptom, of `runs`.
    """

    run: int
    workload: Workload
    verdict: Verdict
    shows: int
    runs: int


class NotConfirmed(StrEnum):
    """Why a known anomaly of another testbed was not confirmed on this one.

    ABSENT: its workloads are healthy here. UNTRIED: none of them can run or be judged here. SEEN_ONCE: one showed it,
    and fresh runs of that one did not.
    """

    ABSENT = "absent"
    UNTRIED = "untried"
    SEEN_ONCE = "seen once"


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a campaign.

    Attributes:
        runs: number of runs of every purpose, with or without a measurement.
        failed_runs: number of failed set-ups, by cause.
        skipped: number of proposals that known anomalies cover.
        ended_by: `budget`, `pause budget`, or `coverage` when known anomalies leave nothing to propose.
        trust, discovery_estimate: None with too little data.
        further_phases: number of runs on a set-up that an earlier run made.
        repeated_phases: number of normal later phases that ran again on a set-up of their own.
        changed_phases: those of `repeated_phases` that then were anomalous or had another throughput.
        unconfirmed: suspicions that showed again, but too rarely.
        set_aside: pairs that differ from the others or were lost, with the reason.
        path_killers: the last run of each proposal that always ended in a dead data path.
        not_confirmed: known anomalies of another testbed that were not confirmed on this one, and why.
    """

    runs: int
    failed_runs: Mapping[str, int]
    unsupported_runs: int
    skipped: int
    elapsed_seconds: float
    anomalies: tuple[Anomaly, ...]
    ended_by: str
    trust: Reliability | None = None
    discovery_estimate: DiscoveryEstimate | None = None
    unconfirmed: tuple[Unconfirmed, ...] = ()
    lost: tuple[LostHost, ...] = ()
    pairs: int = 1
    set_aside: Mapping[str, str] = field(default_factory=dict)
    path_killers: tuple[RunRecord, ...] = ()
    further_phases: int = 0
    repeated_phases: int = 0
    changed_phases: int = 0
    not_confirmed: Mapping[str, NotConfirmed] = field(default_factory=dict)

    @property
    def set_ups(self) -> int:
        """Number of set-ups of the runs."""
        return self.runs - self.further_phases

    @property
    def measured_runs(self) -> int:
        """Number of runs with a measurement."""
        return self.runs - sum(self.failed_runs.values()) - self.unsupported_runs - len(self.lost)


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a search. An anomaly is *joined* if it is reported as a sighting of another one (`same_as`).

    Attributes:
        mechanisms: the mechanism of each anomaly, by the anomaly's id.
        planted: mechanisms that have a witness and show in the searched space. Each is `found` or `missed`.
        found: mechanisms of the anomalies that are reported on their own.
        explained: those of `found` with an anomaly that is explained to the end.
        false: number of anomalies of healthy workloads.
        absent: mechanisms that have a witness but do not show in the searched space.
        joined: number of joined anomalies.
        hidden: those of `missed` that a joined anomaly shows.
        merged_wrong: the mechanism of each wrongly joined anomaly, and the different one that it was joined to, by id.
    """

    mechanisms: Mapping[str, str | None]
    planted: tuple[str, ...]
    found: tuple[str, ...]
    explained: tuple[str, ...]
    missed: tuple[str, ...]
    false: int
    absent: tuple[str, ...] = ()
    joined: int = 0
    hidden: tuple[str, ...] = ()
    merged_wrong: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
