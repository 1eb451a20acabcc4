"""A whole campaign."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from collie.campaign.budget import Budget, BudgetSpent
from collie.campaign.calibrate import calibrate, plan
from collie.campaign.events import CampaignBegun, SpacePruned
from collie.campaign.lanes import Lane
from collie.campaign.loop import SearchLoop
from collie.campaign.measure import Measurer
from collie.campaign.pairs import odd_pairs
from collie.campaign.safety import Guard
from collie.campaign.summary import Summary
from collie.detect.bounds import Bounds, Calibration
from collie.detect.thresholds import Loss
from collie.ports import CampaignStore, ProgressSink, Testbed
from collie.search.anomaly import KnownAnomalies
from collie.search.foreseen import ForeseenAnomaly
from collie.search.recipe import Recipe
from collie.search.strategies import build
from collie.workloads.feature import Mfs
from collie.workloads.pruning import Drop
from collie.workloads.space import Space

_CALIBRATION_REPEATS = 1
"""One repeat suffices, because the calibration only selects suspicions. Plain siblings decide the verdict."""


class CampaignInterrupted(KeyboardInterrupt):
    """The operator interrupted a search. `summary` has what it had found."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        super().__init__()


def strategy_generator(seed: int) -> Random:
    """Return the generator of a campaign's strategy."""
    return Random(f"{seed}/strategy")


@dataclass(frozen=True)
class Campaign:
    """The parts of a search. `testbed` can join several pairs. Each of them has one of the `lanes`.

    Attributes:
        known: minimal feature sets to skip.
        foreseen: known anomalies of another testbed, to be looked for on this one.
        calibration: with None, the campaign measures the ceilings first, unless it judges a victim alone.
        dropped: values that the testbed cannot run, removed from the space.
    """

    testbed: Testbed
    store: CampaignStore
    space: Space
    recipe: Recipe
    budget: Budget
    seed: int
    known: tuple[Mfs, ...] = ()
    calibration: Calibration | None = None
    guard: Guard = field(default_factory=Guard)
    dropped: tuple[Drop, ...] = ()
    lanes: tuple[Lane, ...] = ()
    foreseen: tuple[ForeseenAnomaly, ...] = ()

    def run(self, sink: ProgressSink) -> Summary:
        """Search until the budget is spent. After a TestbedError the campaign can be resumed.

        Raises:
            CampaignInterrupted: instead of KeyboardInterrupt.
        """
        sink.on_event(CampaignBegun(self.testbed.info, self.budget))
        if self.dropped:
            sink.on_event(SpacePruned(self.dropped))
        bounds = Bounds(self.testbed.specification, self.calibration or Calibration(), self.space)
        measurer = Measurer(
            self.testbed,
            self.store,
            bounds,
            self.recipe.thresholds,
            self.budget,
            sink,
            self.guard,
            lanes=self.lanes,
            phases=self.recipe.phases,
        )
        strategy = build(self.recipe, self.space, self.testbed.info.catalog, strategy_generator(self.seed))
        engine = SearchLoop(
            measurer,
            self.store,
            strategy,
            self.space,
            self.recipe,
            sink,
            KnownAnomalies(self.known),
            self.foreseen,
        )
        try:
            if len(self.lanes) > 1:
                for lane, reason in odd_pairs(measurer, self.space, self.recipe.thresholds).items():
                    measurer.retire(lane, reason)
            if self.calibration is None and self.recipe.thresholds.loss_of is Loss.OF_WORKLOAD:
                bounds.calibration = calibrate(measurer, plan(self.space), _CALIBRATION_REPEATS)
            self.store.set_calibration(bounds.calibration)
            return engine.run()
        except BudgetSpent as spent:
            return engine.summary(spent.what)
        except KeyboardInterrupt:
            raise CampaignInterrupted(engine.summary("interruption")) from None
