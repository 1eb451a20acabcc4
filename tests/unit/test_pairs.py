"""Several pairs of hosts in one campaign: one order of answers, one record, and the odd pair."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field, replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.engine import Summary
from collie.campaign.events import PairSetAside, RunFinished
from collie.campaign.lanes import Lane, Track, Turn, alone
from collie.campaign.pairs import unlike
from collie.campaign.run import Campaign
from collie.campaign.safety import Guard
from collie.content.spaces import load_space
from collie.detect.bounds import Calibration
from collie.detect.measurement import Watch
from collie.detect.symptom import Symptom
from collie.errors import StoreError, TestbedError
from collie.ports import CampaignHeader, Measured, RunRecord, RunResult, TestbedInfo
from collie.scheduler.local import LocalPairs
from collie.search.recipe import Extraction, Recipe, StrategyName
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload

SPACE = load_space("nsdi22")
LOOPBACK = Mfs((Condition("loopback", Op.EQUAL, True),))
MANY_SGES = Mfs((Condition("sge_count", Op.AT_LEAST, 8), Condition("loopback", Op.EQUAL, False)))
PLANTED = (Planted(LOOPBACK), Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5))
HEADER = CampaignHeader("test", {}, "nsdi22", "test", {}, 1, "2026-01-01T00:00:00Z")
RANDOM = Recipe("random", strategy=StrategyName.RANDOM)
LATE = Recipe("late", strategy=StrategyName.GUIDED, put_off=2, audits=2, extraction=Extraction(most_runs=12))
PLAIN = SPACE.base


def fakes(count: int, planted: tuple[Planted, ...] = PLANTED, noise: float = 0.01) -> list[FakeTestbed]:
    """Testbeds that are alike, but of unlike pace, so that their runs do not end in the order in which they began."""
    return [FakeTestbed(planted, noise=noise, run_seconds=30.0 + 3.7 * number) for number in range(count)]


def lanes(testbeds: list[FakeTestbed]) -> tuple[Lane, ...]:
    return tuple(Lane(f"pair {number}", alone(testbed).begin) for number, testbed in enumerate(testbeds, 1))


def search(
    testbeds: list[FakeTestbed],
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


def track(testbeds: list[FakeTestbed], store: MemoryStore | None = None) -> Track:
    return Track(lanes(testbeds), True, store or MemoryStore(HEADER), ListSink(), Guard())


async def turns(count: int, heard: list[int]) -> int:
    for _ in range(count):
        record = await Turn(PLAIN, "search")
        heard.append(record.run)
    return count


def test_runs_are_numbered_as_they_begin_and_heard_as_they_end() -> None:
    one = track([FakeTestbed(run_seconds=10.0), FakeTestbed(run_seconds=25.0)])
    heard: list[int] = []
    assert one.drive({lane: turns(3, heard) for lane in one.lanes}) == dict.fromkeys(one.lanes, 3)
    # The first lane ends at 10, 20, 30; the second at 25, 50, 75.
    assert heard == [1, 3, 2, 4, 5, 6]
    assert one.elapsed_seconds == 75.0
    assert [lane.runs for lane in one.lanes] == [3, 3]


def test_a_failure_ends_all_lanes_and_keeps_what_the_others_measured() -> None:
    broken, sound = FakeTestbed(run_seconds=10.0), FakeTestbed(run_seconds=25.0)
    store = MemoryStore(HEADER)
    one = track([broken, sound], store)
    broken.close()
    with pytest.raises(TestbedError, match="closed"):
        one.drive({lane: turns(3, []) for lane in one.lanes})
    assert [record.run for record in store.runs()] == [2]


def test_a_record_of_other_runs_is_refused() -> None:
    store = MemoryStore(HEADER)
    one = track(fakes(2), store)
    one.drive({lane: turns(2, []) for lane in one.lanes})
    again = track(fakes(2), store)

    async def other() -> None:
        await Turn(PLAIN.with_(qps=2), "search")

    with pytest.raises(StoreError, match="another workload"):
        again.drive({lane: other() for lane in again.lanes})


def test_pairs_share_what_they_find_and_how_they_explain_it() -> None:
    sink = ListSink()
    store = MemoryStore(HEADER)
    testbeds = fakes(4)
    summary = search(testbeds, store=store, sink=sink, runs=600)
    distinct = [anomaly for anomaly in summary.anomalies if anomaly.same_as is None]
    assert {anomaly.symptom for anomaly in distinct} == {Symptom.PAUSE, Symptom.LOW_THROUGHPUT}
    assert len(distinct) == 2
    assert summary.pairs == 4
    assert sum(testbed.runs for testbed in testbeds) == summary.runs == len(sink.of(RunFinished)) == 600
    assert min(testbed.runs for testbed in testbeds) > 100
    records = {record.run: record for record in store.runs()}
    for anomaly in summary.anomalies:
        assert records[anomaly.found_at_run].workload == anomaly.found_as


@pytest.mark.parametrize("recipe", [RANDOM, LATE], ids=lambda recipe: recipe.name)
def test_a_campaign_killed_at_any_moment_is_resumed_to_the_same_end(recipe: Recipe) -> None:
    kept = MemoryStore(HEADER)
    whole = search(fakes(3), store=kept, recipe=recipe, runs=100)
    by_end = sorted(kept.runs(), key=lambda record: (record.finished_at_seconds, record.run))
    for killed_after in (1, 17, 50, 99):
        store = MemoryStore(HEADER)
        for record in by_end[:killed_after]:  # what was under way when it was killed leaves gaps in the numbers
            store.add_run(record)
        testbeds = fakes(3)
        assert search(testbeds, store=store, recipe=recipe, runs=100) == whole, killed_after
        assert sum(testbed.runs for testbed in testbeds) == 100 - killed_after
        assert sorted(store.runs(), key=lambda record: record.run) == sorted(kept.runs(), key=lambda record: record.run)


def test_the_slower_of_eight_pairs_is_named_by_its_plain_traffic() -> None:
    testbeds = fakes(8, noise=0.02)
    testbeds[5].line_bps *= 0.85
    sink = ListSink()
    summary = search(testbeds, sink=sink)
    assert list(summary.set_aside) == ["pair 6"]
    assert testbeds[5].runs <= 10
    assert re.match(r"its plain traffic runs at 8[3-7]% of the other pairs'", summary.set_aside["pair 6"])
    assert [event.pair for event in sink.of(PairSetAside)] == ["pair 6"]
    assert {anomaly.symptom for anomaly in summary.anomalies} <= {Symptom.PAUSE, Symptom.LOW_THROUGHPUT}


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_pairs_that_are_alike_all_stay(noise: float) -> None:
    for seed in range(5):
        testbeds = [replace(testbed, seed=seed) for testbed in fakes(6, planted=(), noise=noise)]
        assert search(testbeds, runs=60).set_aside == {}


def test_of_two_pairs_that_differ_the_slower_is_set_aside() -> None:
    rates = {
        lane: {PLAIN: bps, PLAIN.with_(qps=2): bps} for lane, bps in zip(lanes(fakes(2)), (9e9, 10e9), strict=True)
    }
    ((lane, reason),) = unlike(rates).items()
    assert lane.name == "pair 1"
    assert "90%" in reason


def test_what_one_pair_alone_shows_is_no_anomaly_of_the_model() -> None:
    testbeds = fakes(3, planted=(), noise=0.0)
    testbeds[1].planted = (Planted(LOOPBACK),)
    store = MemoryStore(HEADER)
    summary = search(testbeds, store=store)
    assert summary.anomalies == ()
    assert list(summary.set_aside) == ["pair 2"]
    assert "another pair does not show it" in summary.set_aside["pair 2"]
    confirmed_at = max(record.run for record in store.runs() if record.purpose == "confirm")
    assert testbeds[1].runs < testbeds[0].runs / 2
    assert confirmed_at < 150


@dataclass
class _Real(FakeTestbed):
    """A testbed whose time is real, and whose runs end together or not at all."""

    meet: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))

    @property
    def info(self) -> TestbedInfo:
        return replace(super().info, virtual_time=False)

    def measure(self, workload: Workload, run: int, watch: Watch | None = None) -> RunResult:
        self.meet.wait(30)
        return super().measure(workload, run, watch)


def test_real_pairs_measure_at_the_same_time() -> None:
    barrier = threading.Barrier(3)
    pairs = LocalPairs([_Real(meet=barrier) for _ in range(3)])
    assert [lane.name for lane in pairs.lanes] == ["fake-1", "fake-2", "fake-3"]
    one = Track(pairs.lanes, pairs.info.virtual_time, MemoryStore(HEADER), ListSink(), Guard())
    assert set(one.drive({lane: turns(4, []) for lane in one.lanes}).values()) == {4}
    pairs.close()


def test_what_was_measured_on_real_pairs_is_heard_again_in_its_order() -> None:
    store = MemoryStore(HEADER)
    for run, end in ((1, 40.0), (2, 12.0), (3, 25.0), (4, 41.0)):
        result = FakeTestbed().measure(PLAIN, run)
        assert isinstance(result, Measured)
        store.add_run(RunRecord(run, "search", PLAIN, result, end))
    pairs = LocalPairs([_Real(), _Real()])
    heard: list[int] = []
    one = Track(pairs.lanes, False, store, ListSink(), Guard())
    one.drive({lane: turns(2, heard) for lane in one.lanes})
    assert heard == [2, 3, 1, 4]
    pairs.close()
