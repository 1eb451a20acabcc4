"""Campaigns on several pairs with planted anomalies."""

from __future__ import annotations

from collections.abc import Sequence

from collie.campaign.budget import Budget
from collie.campaign.lanes import Lane, LaneScheduler, RunRequest
from collie.campaign.loop import SearchLoop
from collie.campaign.measure import Measurer
from collie.campaign.run import Campaign
from collie.campaign.safety import Guard
from collie.campaign.summary import Summary
from collie.detect.bounds import Bounds, Calibration
from collie.detect.symptom import Symptom
from collie.scheduler.local import LocalPairs
from collie.search.anomaly import KnownAnomalies
from collie.search.recipe import Extraction, Recipe, StrategyName
from collie.search.strategy import Strategy
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Mfs
from tests.support.planted import HEADER, LOOPBACK, MANY_SGES, SPACE

PLANTED = (Planted(LOOPBACK), Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5))
RANDOM = Recipe("random", strategy=StrategyName.RANDOM)
LATE = Recipe(
    "late", strategy=StrategyName.GUIDED, explain_after_sightings=2, audits=2, extraction=Extraction(most_runs=40)
)
PLAIN = SPACE.base


def fakes(count: int, planted: tuple[Planted, ...] = PLANTED, noise: float = 0.01) -> list[FakeTestbed]:
    """Testbeds that are alike, but of unlike pace, so that their runs do not end in the order in which they began."""
    return [FakeTestbed(planted, noise=noise, run_seconds=30.0 + 3.7 * number) for number in range(count)]


def lanes(testbeds: Sequence[FakeTestbed]) -> tuple[Lane, ...]:
    return LocalPairs({f"pair {number}": testbed for number, testbed in enumerate(testbeds, 1)}).lanes


def search(
    testbeds: Sequence[FakeTestbed],
    *,
    store: MemoryStore | None = None,
    sink: ListSink | None = None,
    recipe: Recipe = RANDOM,
    runs: int = 200,
) -> Summary:
    campaign = Campaign(
        testbeds[0],
        store or MemoryStore(HEADER),
        SPACE,
        recipe,
        Budget(runs=runs),
        1,
        calibration=Calibration(),
        lanes=lanes(testbeds),
    )
    return campaign.run(sink or ListSink())


def loop_of(
    testbeds: Sequence[FakeTestbed],
    strategy: Strategy,
    *,
    store: MemoryStore | None = None,
    sink: ListSink | None = None,
    recipe: Recipe = RANDOM,
    runs: int = 40,
    known: Sequence[Mfs] = (),
) -> tuple[SearchLoop, Measurer]:
    """A search loop on several pairs, and its measurer."""
    store, sink = store or MemoryStore(HEADER), sink or ListSink()
    measurer = Measurer(
        testbeds[0],
        store,
        Bounds(testbeds[0].specification, Calibration(), SPACE),
        recipe.thresholds,
        Budget(runs=runs),
        sink,
        lanes=lanes(testbeds),
        phases=recipe.phases,
    )
    return SearchLoop(measurer, store, strategy, SPACE, recipe, sink, KnownAnomalies(known)), measurer


def track(testbeds: Sequence[FakeTestbed], store: MemoryStore | None = None) -> LaneScheduler:
    return LaneScheduler(lanes(testbeds), True, store or MemoryStore(HEADER), ListSink(), Guard())


async def turns(count: int, heard: list[int]) -> int:
    for _ in range(count):
        record = await RunRequest(PLAIN, "search")
        heard.append(record.run)
    return count
