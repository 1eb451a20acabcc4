"""The result of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collie.campaign.measure import LostHost
from collie.detect.confirm import Reliability
from collie.ports import RunRecord
from collie.search.anomaly import Anomaly
from collie.search.discovery import DiscoveryEstimate


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a campaign.

    Attributes:
        runs: measurements of every purpose.
        failed_runs: failed set-ups, by cause.
        unsupported_runs: workloads that the device cannot run.
        skipped: proposals that known anomalies cover.
        anomalies: in the order found.
        lost: runs that cost a host.
        path_killers: the last run of each proposal that always ended in a dead data path.
        ended_by: `budget`, `pause budget`, or `coverage` when known anomalies leave nothing to propose.
        trust: reliability of the findings, or None with too few judged runs.
        discovery_estimate: the chance of another find in the next hour, or None with too little data.
        pairs: number of pairs that measured.
        set_aside: pairs that differ from the others or were lost, with the reason.
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
    lost: tuple[LostHost, ...] = ()
    pairs: int = 1
    set_aside: Mapping[str, str] = field(default_factory=dict)
    path_killers: tuple[RunRecord, ...] = ()

    @property
    def measured_runs(self) -> int:
        """Number of runs with a measurement."""
        return self.runs - sum(self.failed_runs.values()) - self.unsupported_runs - len(self.lost)
