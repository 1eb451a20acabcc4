"""What the search runs next: proposals that no known set covers, and workloads whose pair was lost."""

from __future__ import annotations

from dataclasses import dataclass

from collie.campaign.measure import Measurer
from collie.campaign.observations import ConfirmedAnomaly
from collie.campaign.triage import Triage
from collie.ports import RunRecord
from collie.search.anomaly import KnownAnomalies
from collie.search.recipe import Recipe
from collie.search.strategy import Answer, ProposalOutcome, Strategy
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_MAX_OUTAGES = 3
"""Number of runs that end in a dead data path after which their proposal is refused."""

_PHASE_TRIES = 20
"""Number of consecutive covered or refused proposals after which a set-up has no further phase."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposal to run, with the strategy's values at that time. An audit tests the explanation of `doubted`."""

    workload: Workload
    driven: str | None
    temperature: float | None
    doubted: ConfirmedAnomaly | None = None


class Proposals:
    """The proposals of one campaign.

    Attributes:
        skipped: number of proposals that a known set covers.
        again: workloads to run again, before the strategy is asked.
    """

    def __init__(
        self,
        strategy: Strategy,
        space: Space,
        recipe: Recipe,
        known: KnownAnomalies,
        triage: Triage,
        measurer: Measurer,
    ) -> None:
        self.skipped = 0
        self.again: list[Workload] = []
        self._kept: list[Proposal] = []
        self._refused: set[Workload] = set()
        self._outages: dict[Workload, list[RunRecord]] = {}
        self._strategy = strategy
        self._space = space
        self._recipe = recipe
        self._known = known
        self._triage = triage
        self._measurer = measurer

    def first(self) -> Proposal | None:
        """Return a proposal for a new set-up, or None if it is covered or refused."""
        if self._kept:
            return self._kept.pop(0)
        return self._vetted(self.again.pop(0) if self.again else self._strategy.ask())

    def phase(self, set_up: SetUp) -> Proposal | None:
        """Return a proposal that fits a set-up, or None. The last one that does not is kept for a set-up of its own."""
        other = None
        for _ in range(_PHASE_TRIES):
            workload = self._again_on(set_up) or self._strategy.ask_on(set_up)
            if workload is None:
                break
            proposal = self._vetted(workload)
            fits = proposal is not None and self._space.misfit(proposal.workload, set_up.made_for) is None
            other = proposal or other
            if fits and other is not None and other.doubted is None:
                return other
            if fits:
                break  # an audit has a set-up of its own
        if other is not None:
            self._kept.append(other)
        return None

    def _again_on(self, set_up: SetUp) -> Workload | None:
        """Take the first workload to run again that fits a set-up. The others have set-ups of their own."""
        fitting = next((each for each in self.again if self._space.misfit(each, set_up.made_for) is None), None)
        if fitting is not None:
            self.again.remove(fitting)
        return fitting

    def refuse(self, workload: Workload) -> None:
        """Run a workload no more."""
        self._refused.add(workload)

    def lost_path(self, record: RunRecord) -> bool:
        """Queue a proposal again after a dead data path, and return True. After `_MAX_OUTAGES` refuse it."""
        outages = self._outages.setdefault(record.workload, [])
        outages.append(record)
        if len(outages) < _MAX_OUTAGES:
            self.again.append(record.workload)
            return True
        self.refuse(record.workload)
        return False

    def measured(self, workload: Workload) -> None:
        """Forget the dead data paths of a workload that has run since."""
        self._outages.pop(workload, None)

    @property
    def path_killers(self) -> tuple[RunRecord, ...]:
        """The last run of each proposal that was refused because the data path died under it."""
        return tuple(outages[-1] for outages in self._outages.values() if len(outages) == _MAX_OUTAGES)

    def _vetted(self, workload: Workload) -> Proposal | None:
        """Return a proposal that is to be run, or None if it is covered or refused."""
        driven, temperature = self._strategy.driven, self._strategy.temperature
        if self._measurer.lost_to(workload) is not None:  # before an audit, which would run it
            self._strategy.tell(workload, Answer(ProposalOutcome.UNSUPPORTED))
            return None
        if self._recipe.skip_known and self._known.covers(workload):
            if (doubted := self._triage.to_audit(workload, self._recipe.audits)) is not None:
                return Proposal(workload, driven, temperature, doubted)
            self.skipped += 1
            self._triage.sight(workload)
            self._strategy.tell(workload, Answer(ProposalOutcome.SKIPPED))
            return None
        if workload in self._refused:
            self._strategy.tell(workload, Answer(ProposalOutcome.UNSUPPORTED))
            return None
        return Proposal(workload, driven, temperature)
