"""What a campaign tells whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass

from collie.detect.symptom import Verdict
from collie.ports import RunRecord
from collie.search.anomaly import Anomaly
from collie.workloads.pruning import Drop


@dataclass(frozen=True, slots=True)
class RunFinished:
    """One run is on record and judged.

    Attributes:
        record: what ran and what came of it.
        verdict: None when there was nothing to judge.
        budget_share: how much of the budget is used up, 0..1.
        replayed: the run was taken from the record of an earlier process.
        driven: the counter that the strategy drives, if any.
    """

    record: RunRecord
    verdict: Verdict | None
    budget_share: float
    replayed: bool
    driven: str | None


@dataclass(frozen=True, slots=True)
class AnomalyConfirmed:
    """A suspicion showed again often enough; its extraction begins."""

    anomaly: Anomaly


@dataclass(frozen=True, slots=True)
class AnomalyExplained:
    """The extraction has ended."""

    anomaly: Anomaly


@dataclass(frozen=True, slots=True)
class SuspicionDropped:
    """A suspicion did not show again often enough."""

    run: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class SpacePruned:
    """Before the first run: what the search leaves out because the testbed cannot do it."""

    drops: tuple[Drop, ...]


Event = RunFinished | AnomalyConfirmed | AnomalyExplained | SuspicionDropped | SpacePruned
