"""A search loop with one anomaly that is already explained, for tests of what happens to it next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from collie.campaign.budget import Budget
from collie.campaign.lanes import Lane, LaneTask
from collie.campaign.loop import SearchLoop
from collie.campaign.measure import Measurer
from collie.campaign.observations import ConfirmedAnomaly
from collie.campaign.run import strategy_generator
from collie.detect.bounds import Bounds, Calibration
from collie.detect.signature import Levels
from collie.detect.thresholds import Thresholds
from collie.ports import Measured
from collie.search.anomaly import KnownAnomalies
from collie.search.recipe import Recipe
from collie.search.strategies import build
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink
from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload
from tests.support.gates import found
from tests.support.planted import HEADER, LOOPBACK, SPACE
from tests.support.searches import RANDOM

INSIDE = SPACE.base.with_(loopback=True)
T = TypeVar("T")


@dataclass(frozen=True)
class ExplainedSearch:
    """A search loop, the measurer of its only lane, and the anomaly that it has explained."""

    loop: SearchLoop
    measurer: Measurer
    confirmed: ConfirmedAnomaly
    store: MemoryStore
    sink: ListSink

    @property
    def lane(self) -> Lane:
        """The only lane."""
        (lane,) = self.measurer.lanes
        return lane

    @property
    def purposes(self) -> list[str]:
        """The purpose of each run after the first, which measured the anomaly."""
        return [run.purpose for run in self.store.runs()][1:]

    def drive(self, task: LaneTask[T]) -> T:
        """Run a task of the loop."""
        return self.measurer.scheduler.drive({self.lane: task})[self.lane]


def confirmed_anomaly(measurer: Measurer, identifier: str, workload: Workload, mfs: Mfs) -> ConfirmedAnomaly:
    """Measure a workload and return it as an anomaly with this set, which is unknown if it is empty."""
    result, verdict = measurer.judged(workload, "search")
    assert isinstance(result, Measured)
    assert verdict is not None
    anomaly = replace(found(identifier), workload=workload, found_as=workload, mfs=mfs, complete=bool(mfs.conditions))
    return ConfirmedAnomaly(workload, verdict, result.measurement, anomaly, severity_alone=verdict.severity)


def explained_search(
    testbed: FakeTestbed,
    mfs: Mfs = LOOPBACK,
    workload: Workload = INSIDE,
    *,
    shows: int = 20,
    runs: int = 20,
    recipe: Recipe = RANDOM,
) -> ExplainedSearch:
    """Return a search that has explained the anomaly of a workload by this set, which so many fresh runs showed."""
    store, sink = MemoryStore(HEADER), ListSink()
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    levels = Levels({"pressure": 100.0}, ())
    measurer = Measurer(testbed, store, bounds, Thresholds(), Budget(runs=100), sink, levels=levels)
    strategy = build(recipe, SPACE, testbed.info.catalog, strategy_generator(1))
    loop = SearchLoop(measurer, store, strategy, SPACE, recipe, sink, KnownAnomalies(()))
    confirmed = confirmed_anomaly(measurer, "a1", workload, mfs)
    confirmed.anomaly = replace(confirmed.anomaly, fresh_shows=shows, fresh_runs=runs)
    loop._triage.explained(confirmed)
    return ExplainedSearch(loop, measurer, confirmed, store, sink)
