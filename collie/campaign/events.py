"""What a campaign tells whoever watches it."""

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
    """Before anything else: where a campaign runs, and for how long."""

    info: TestbedInfo
    budget: Budget


@dataclass(frozen=True, slots=True)
class RunBegun:
    """A run is about to be made; one taken from the record is not announced."""

    run: int
    purpose: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """One run is on record and judged.

    Attributes:
        record: what ran and what came of it.
        verdict: None when there was nothing to judge.
        budget_share: how much of the budget is used up, 0..1.
        replayed: the run was taken from the record of an earlier process.
        driven: the counter that the strategy drives, if any.
        temperature: of the strategy, if it has one.
    """

    record: RunRecord
    verdict: Verdict | None
    budget_share: float
    replayed: bool
    driven: str | None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class AnomalyConfirmed:
    """A suspicion showed again often enough; its extraction begins."""

    anomaly: Anomaly


@dataclass(frozen=True, slots=True)
class AnomalyExplained:
    """The extraction has ended."""

    anomaly: Anomaly


@dataclass(frozen=True, slots=True)
class AnomalyMerged:
    """What was waiting for its explanation turned out to be covered by another one's: `anomaly.same_as`."""

    anomaly: Anomaly


@dataclass(frozen=True, slots=True)
class SuspicionDropped:
    """A suspicion did not show again often enough."""

    run: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class PairSetAside:
    """A pair of hosts is unlike the others: it measures no further, and nothing is found by it."""

    pair: str
    reason: str


@dataclass(frozen=True, slots=True)
class SpacePruned:
    """Before the first run: what the search leaves out because the testbed cannot do it."""

    drops: tuple[Drop, ...]


@dataclass(frozen=True, slots=True)
class Both:
    """A `ProgressSink` that lets two watch."""

    first: ProgressSink
    second: ProgressSink

    def on_event(self, event: Any) -> None:
        """Show an event to both."""
        self.first.on_event(event)
        self.second.on_event(event)


Event = (
    CampaignBegun
    | RunBegun
    | RunFinished
    | AnomalyConfirmed
    | AnomalyExplained
    | AnomalyMerged
    | SuspicionDropped
    | SpacePruned
    | PairSetAside
)
