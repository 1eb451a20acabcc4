"""The result of a gate."""

from __future__ import annotations

from dataclasses import dataclass

from collie.campaign.budget import Budget
from collie.campaign.gate.cases import CaseOrigin, GateCase
from collie.campaign.observations import LostHost
from collie.campaign.summary import Summary
from collie.detect.compare import Change, Comparison, Side
from collie.detect.pair_rule import Chances
from collie.workloads.units import format_count

DETAILED = (Change.NEW, Change.WORSE, Change.INCONCLUSIVE, Change.FIXED)
QUIET = (Change.STILL, Change.HEALTHY, Change.UNSUPPORTED)
ORDER = (*DETAILED, *QUIET)
"""Order of the changes in the output. Those that need attention come first."""
_ANSWERS = {0: "passed", 1: "failed", 4: "inconclusive", 5: "nothing was run"}


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one case, with the false-alarm chance of its decision and the testbed time of both sides."""

    case: GateCase
    comparison: Comparison
    share: float
    elapsed_seconds: float

    @property
    def change(self) -> Change:
        """The decision."""
        return self.comparison.change

    @property
    def word(self) -> str:
        """The decision in a word."""
        return self.change.value if self.case.kind is CaseOrigin.NEIGHBOUR else self.change.of_anomaly


@dataclass(frozen=True, slots=True)
class GateSummary:
    """The result of a gate, with its cases in the order of their comparison.

    Attributes:
        untested: neighbours that the budget did not reach.
        runs: number of runs of the candidate, and of the baseline.
        elapsed_seconds: testbed time of both sides.
        search: the result of the search, or None if no budget was left for it. Its counts include the replay.
        search_runs: number of runs of the search alone.
        search_seconds: testbed time of the search alone.
        paired: whether the baseline was measured, not read from its record.
        needed: about the larger budget that decides every known anomaly and leaves a rest to search.
            None if this one did.
        lost: runs that cost a host of a side, in the replay or in the search. Their workloads have no answer.
    """

    results: tuple[CaseResult, ...]
    untested: tuple[GateCase, ...]
    false_alarm: float
    chances: Chances
    runs: tuple[int, int]
    elapsed_seconds: float
    search: Summary | None
    paired: bool
    needed: Budget | None = None
    search_runs: int = 0
    search_seconds: float = 0.0
    lost: tuple[tuple[Side, LostHost], ...] = ()

    def of(self, change: Change) -> tuple[CaseResult, ...]:
        """Return the cases with one decision."""
        return tuple(result for result in self.results if result.change is change)

    @property
    def alarms(self) -> tuple[CaseResult, ...]:
        """The new and worse cases."""
        return tuple(result for result in self.results if result.change.is_alarm)

    def anomalies(self, change: Change) -> tuple[CaseResult, ...]:
        """Return the cases with this change. Neighbours are included only if their result changed."""
        return tuple(r for r in self.of(change) if r.case.kind is not CaseOrigin.NEIGHBOUR or change not in QUIET)

    def answer(self, *, inconclusive_fails: bool = True) -> str:
        """Return the answer on one line: `failed: 1 new, 20 still there`."""
        counts = ", ".join(f"{len(found)} {change.of_anomaly}" for change in ORDER if (found := self.anomalies(change)))
        lost = f", {format_count(len(self.lost), 'run')} cost a host" if self.lost else ""
        answer = _ANSWERS[self.exit_code(inconclusive_fails=inconclusive_fails)]
        return f"{answer}: {counts or 'no anomaly was compared'}{lost}"

    def exit_code(self, *, inconclusive_fails: bool = True) -> int:
        """Return 0 passed, 1 new or worse, 4 inconclusive, 5 nothing was run."""
        if not any(self.runs):
            return 5
        if self.alarms:
            return 1
        compared = len(self.results) > len(self.of(Change.UNSUPPORTED))
        searched = self.search is not None and self.search.measured_runs > 0
        doubtful = self.of(Change.INCONCLUSIVE) or self.lost or not (compared or searched)
        return 4 if inconclusive_fails and doubtful else 0
