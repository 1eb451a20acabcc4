"""The events of a campaign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from collie.campaign.budget import Budget
from collie.detect.symptom import Verdict
from collie.ports import ProgressSink, RunRecord, TestbedInfo
from collie.search.anomaly import Anomaly
from collie.workloads.pruning import Drop


@dataclass(frozen=True, slots=True)
class CampaignBegun:
    """The campaign begins."""

    info: TestbedInfo
    budget: Budget


@dataclass(frozen=True, slots=True)
class RunBegun:
    """A run begins. Runs from the record are not announced."""

    run: int
    purpose: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run is on record and judged.

    Attributes:
        verdict: None without a measurement.
        budget_share: used share of the budget, 0..1.
        replayed: whether the run is from the record of an earlier process.
    """

    record: RunRecord
    verdict: Verdict | None
    budget_share: float
    replayed: bool
    driven: str | None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class AnomalyConfirmed:
    """A suspicion was confirmed. It awaits its explanation."""

    anomaly: Anomaly


@dataclass(frozen=True, slots=True)
class AnomalyExplained:
    """The extraction has ended."""

    anomaly: Anomaly


@dataclass(frozen=True, slots=True)
class AnomalyMerged:
    """Another anomaly's explanation covers this waiting anomaly (`anomaly.same_as`)."""

    anomaly: Anomaly


@dataclass(frozen=True, slots=True)
class AnomalyReplaced:
    """Controls of a waiting anomaly showed a second cause, which takes its place."""

    anomaly: Anomaly


@dataclass(frozen=True, slots=True)
class SuspicionDropped:
    """A suspicion was not confirmed. `shows` of its `runs` confirming runs reproduced the symptom."""

    run: int
    verdict: Verdict
    shows: int = 0
    runs: int = 0


@dataclass(frozen=True, slots=True)
class PairSetAside:
    """A pair of hosts was lost or differs from the others. It makes no further runs."""

    pair: str
    reason: str


@dataclass(frozen=True, slots=True)
class SpacePruned:
    """The testbed cannot run some values. This event precedes the first run."""

    drops: tuple[Drop, ...]


class Silence:
    """A `ProgressSink` without output."""

    def on_event(self, event: Any) -> None:
        """Ignore an event."""


@dataclass(frozen=True, slots=True)
class Both:
    """A `ProgressSink` that forwards to two others."""

    first: ProgressSink
    second: ProgressSink

    def on_event(self, event: Any) -> None:
        """Forward an event to both."""
        self.first.on_event(event)
        self.second.on_event(event)
