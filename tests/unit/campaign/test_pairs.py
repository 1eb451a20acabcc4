"""Several pairs of hosts in one campaign: one order of answers, one record, and the odd pair."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from collie.campaign.budget import Budget
from collie.campaign.events import PairSetAside, RunFinished
from collie.campaign.lanes import Begin, Lane, LaneLost, LaneScheduler, LaneTask, RunRequest, at_once
from collie.campaign.pairs import unlike
from collie.campaign.run import Campaign
from collie.campaign.safety import Guard
from collie.campaign.summary import Summary
from collie.content.spaces import load_space
from collie.detect.bounds import Calibration
from collie.detect.measurement import Watch
from collie.detect.symptom import Symptom
from collie.errors import HostUnreachable, StoreError, TestbedError
from collie.ports import CampaignHeader, Measured, PairLost, RunRecord, RunResult, SetupFailed, TestbedInfo
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
LATE = Recipe(
    "late", strategy=StrategyName.GUIDED, explain_after_sightings=2, audits=2, extraction=Extraction(most_runs=12)
)
PLAIN = SPACE.base


def fakes(count: int, planted: tuple[Planted, ...] = PLANTED, noise: float = 0.01) -> list[FakeTestbed]:
    """Testbeds that are alike, but of unlike pace, so that their runs do not end in the order in which they began."""
    return [FakeTestbed(planted, noise=noise, run_seconds=30.0 + 3.7 * number) for number in range(count)]


def lanes(testbeds: list[FakeTestbed]) -> tuple[Lane, ...]:
    return LocalPairs({f"pair {number}": testbed for number, testbed in enumerate(testbeds, 1)}).lanes


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


def track(testbeds: list[FakeTestbed], store: MemoryStore | None = None) -> LaneScheduler:
    return LaneScheduler(lanes(testbeds), True, store or MemoryStore(HEADER), ListSink(), Guard())


async def turns(count: int, heard: list[int]) -> int:
    for _ in range(count):
        record = await RunRequest(PLAIN, "search")
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
    store = MemoryStore(HEADER)
    one = track([FakeTestbed(run_seconds=10.0), FakeTestbed(run_seconds=25.0)], store)

    async def failing() -> int:
        await RunRequest(PLAIN, "search")
        raise StoreError("disk full")

    first, second = one.lanes
    with pytest.raises(StoreError, match="disk full"):
        one.drive({first: failing(), second: turns(3, [])})
    assert [record.run for record in store.runs()] == [1, 2]


def test_a_record_of_other_runs_is_refused() -> None:
    store = MemoryStore(HEADER)
    one = track(fakes(2), store)
    one.drive({lane: turns(2, []) for lane in one.lanes})
    again = track(fakes(2), store)

    async def other() -> None:
        await RunRequest(PLAIN.with_(qps=2), "search")

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


def test_of_two_halves_that_differ_the_slower_is_set_aside() -> None:
    bps = (10e9, 8.8e9, 10.1e9, 8.7e9)
    rates = {lane: {PLAIN: each} for lane, each in zip(lanes(fakes(4)), bps, strict=True)}
    assert [lane.name for lane in unlike(rates)] == ["pair 2", "pair 4"]


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


def test_runs_that_say_nothing_refute_nothing() -> None:
    """Pair 1 sees what pair 2 cannot even set up."""

    class Refusing(FakeTestbed):
        def measure(self, workload: Workload, run: int, watch: Watch | None = None) -> RunResult:
            if LOOPBACK.covers(workload):
                return SetupFailed("qp timeout", "no connection", 3.0)
            return super().measure(workload, run, watch)

    testbeds = [FakeTestbed((Planted(LOOPBACK),), run_seconds=30.0), Refusing(run_seconds=33.7)]
    assert search(testbeds).set_aside == {}


@dataclass
class _Wedged(FakeTestbed):
    """A testbed whose device takes no queue pair any more after so many runs, until it is mended."""

    after: int = 15
    mended: bool = False

    def measure(self, workload: Workload, run: int, watch: Watch | None = None) -> RunResult:
        result = super().measure(workload, run, watch)
        if self.runs > self.after and not self.mended:
            return SetupFailed("create_qp EIO", "host b: agent step create_qp: EIO", 0.5)
        return result


def test_a_pair_that_sets_up_nothing_any_more_is_set_aside() -> None:
    wedged = _Wedged(PLANTED, noise=0.01, run_seconds=33.7)
    summary = search([*fakes(1), wedged])
    assert re.fullmatch(r"lost in run \d+: [5-7] set-ups in a row failed, .* EIO", summary.set_aside["pair 2"])
    assert 8 <= summary.failed_runs["create_qp EIO"] <= 10
    assert {anomaly.symptom for anomaly in summary.anomalies} == {Symptom.PAUSE, Symptom.LOW_THROUGHPUT}


def test_a_campaign_whose_last_pair_sets_up_nothing_ends_and_goes_on_once_that_is_mended() -> None:
    store, wedged = MemoryStore(HEADER), _Wedged(PLANTED, noise=0.01)
    for _ in range(2):
        with pytest.raises(TestbedError, match=r"sets up nothing any more: [5-7] set-ups .* before: .* EIO"):
            search([wedged], store=store)
    assert 15 + 2 * 8 <= len(list(store.runs())) <= 15 + 2 * 10
    wedged.mended = True
    assert search([wedged], store=store).ended_by == "budget"


def test_the_last_pair_is_not_set_aside() -> None:
    """Each of two pairs shows what the other does not."""
    testbeds = [
        FakeTestbed((Planted(LOOPBACK),), run_seconds=30.0),
        FakeTestbed((Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5),), run_seconds=33.7),
    ]
    summary = search(testbeds)
    assert len(summary.set_aside) <= 1
    assert summary.ended_by == "budget"


@dataclass
class _Mortal(FakeTestbed):
    """A testbed that is gone from the run with a certain number on."""

    dies_in: int | None = None
    dead: bool = False

    def measure(self, workload: Workload, run: int, watch: Watch | None = None) -> RunResult:
        self.dead |= run == self.dies_in
        if self.dead:
            raise HostUnreachable("host-b", "192.0.2.7", "timed out")
        return super().measure(workload, run, watch)


@dataclass
class _Silent(FakeTestbed):
    """A testbed that does not answer."""

    @property
    def info(self) -> TestbedInfo:
        raise HostUnreachable("host-b", "192.0.2.7", "timed out")


def mortals(count: int, dies_in: int | None) -> list[FakeTestbed]:
    return [_Mortal(PLANTED, noise=0.01, run_seconds=30.0 + 3.7 * number, dies_in=dies_in) for number in range(count)]


def test_a_lost_pair_ends_its_own_lane_alone() -> None:
    store = MemoryStore(HEADER)
    one = track(mortals(2, dies_in=3), store)
    heard: list[int] = []
    first, second = one.lanes
    assert one.drive({lane: turns(3, heard) for lane in one.lanes}) == {second: 3}
    assert one.lanes == (second,)
    assert heard == [1, 2, 4, 5]
    lost = {record.run: record for record in store.runs()}[3]
    assert lost.result == PairLost(first.name, "host host-b (192.0.2.7) cannot be reached: timed out", 0.0)
    assert lost.finished_at_seconds == 30.0


def test_who_drives_a_lost_pair_hears_of_it() -> None:
    one = track(mortals(2, dies_in=1))
    said: list[str] = []

    async def listening() -> int:
        try:
            await RunRequest(PLAIN, "search")
        except LaneLost as lost:
            said.append(lost.reason)
            raise
        return 1

    first, second = one.lanes
    one.drive({first: listening(), second: turns(2, [])})
    assert said == ["lost in run 1: host host-b (192.0.2.7) cannot be reached: timed out"]


def test_with_the_last_pair_the_campaign_ends_and_all_are_tried_again() -> None:
    store = MemoryStore(HEADER)
    one = track([_Mortal(dies_in=3), _Mortal(dies_in=4)], store)
    with pytest.raises(TestbedError, match="no pair is left; the last was pair 2: host host-b"):
        one.drive({lane: turns(3, []) for lane in one.lanes})
    assert [record.run for record in store.runs()] == [1, 2]
    again = track([_Mortal(), _Mortal()], store)
    assert set(again.drive({lane: turns(3, []) for lane in again.lanes}).values()) == {3}


@pytest.fixture(scope="module")
def undisturbed() -> list[RunRecord]:
    """The runs of a campaign of three pairs of which none is lost."""
    kept = MemoryStore(HEADER)
    search(fakes(3), store=kept, recipe=LATE, runs=150)
    return list(kept.runs())


@pytest.mark.parametrize("purpose", ["qualify", "search", "sibling", "confirm", "extract", "audit"])
def test_what_a_lost_pair_was_doing_is_done_elsewhere(purpose: str, undisturbed: list[RunRecord]) -> None:
    dies_in = next(record.run for record in undisturbed if record.purpose == purpose)
    store, sink = MemoryStore(HEADER), ListSink()
    summary = search(mortals(3, dies_in), store=store, sink=sink, recipe=LATE, runs=150)
    records = {record.run: record for record in store.runs()}
    lost = records[dies_in]
    assert isinstance(lost.result, PairLost)
    assert lost.purpose == purpose
    reason = f"lost in run {dies_in}: host host-b (192.0.2.7) cannot be reached: timed out"
    assert summary.set_aside == {lost.result.pair: reason}
    assert sink.of(PairSetAside) == [PairSetAside(lost.result.pair, reason)]
    assert summary.runs == 150
    assert {anomaly.symptom for anomaly in summary.anomalies} == {Symptom.PAUSE, Symptom.LOW_THROUGHPUT}
    assert all(anomaly.complete for anomaly in summary.anomalies if anomaly.same_as is None)
    if purpose not in ("qualify", "extract"):  # which an explanation begun again may do without
        assert any(record.workload == lost.workload for record in store.runs() if record.run > dies_in)

    by_end = sorted(records.values(), key=lambda record: (record.finished_at_seconds, record.run))
    for killed_after in {by_end.index(lost) + 1, 140}:
        part = MemoryStore(HEADER)
        for record in by_end[:killed_after]:
            part.add_run(record)
        assert search(mortals(3, dies_in), store=part, recipe=LATE, runs=150) == summary, killed_after
        assert {record.run: record for record in part.runs()} == records


def test_pairs_that_do_not_answer_are_lost_where_that_is_allowed() -> None:
    with pytest.raises(HostUnreachable):
        LocalPairs({"one": _Silent(), "two": FakeTestbed()})
    with pytest.raises(HostUnreachable):
        LocalPairs({"one": _Silent(), "two": _Silent()}, absent_ok=True)
    pairs = LocalPairs({"one": _Silent(), "two": FakeTestbed()}, absent_ok=True)
    assert list(pairs.absent) == ["one"]
    assert pairs.info.description["pairs"] == ["one", "two"]
    assert pairs.specification(PLAIN) == FakeTestbed().specification(PLAIN)
    assert pairs.foreign_uses() == ()
    store = MemoryStore(HEADER)
    one = LaneScheduler(pairs.lanes, True, store, ListSink(), Guard())
    one.drive({lane: turns(3, []) for lane in one.lanes})
    assert [type(record.result) for record in store.runs()] == [PairLost, Measured, Measured, Measured]
    pairs.close()


def test_where_one_pair_has_to_answer_and_does_not_all_are_closed() -> None:
    silent, answering = _Silent(), FakeTestbed()
    with pytest.raises(HostUnreachable):
        LocalPairs({"one": silent, "two": answering})
    assert (silent.closed, answering.closed) == (1, 1)


@dataclass
class _Closing(FakeTestbed):
    """A testbed that is closed together with others or not at all, and may fail to be."""

    meet: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))
    failure: str = ""

    def close(self) -> Mapping[str, int | None]:
        self.meet.wait(30)
        super().close()
        if self.failure:
            raise TestbedError(self.failure)
        return {f"host {id(self)}": 0}


def test_pairs_are_closed_side_by_side_and_the_first_that_cannot_be_is_told() -> None:
    meet = threading.Barrier(3)
    testbeds = [_Closing(meet=meet) for _ in range(3)]
    pairs = LocalPairs({f"pair {number}": testbed for number, testbed in enumerate(testbeds)})
    assert list(pairs.close()) == [f"host {id(testbed)}" for testbed in testbeds]
    testbeds[0].failure, testbeds[2].failure = "first", "second"
    with pytest.raises(TestbedError, match="first"):
        pairs.close()
    assert [testbed.closed for testbed in testbeds] == [2, 2, 2]


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
    pairs = LocalPairs({f"pair {number}": _Real(meet=barrier) for number in (1, 2, 3)})
    assert [lane.name for lane in pairs.lanes] == ["pair 1", "pair 2", "pair 3"]
    one = LaneScheduler(pairs.lanes, pairs.info.virtual_time, MemoryStore(HEADER), ListSink(), Guard())
    assert set(one.drive({lane: turns(4, []) for lane in one.lanes}).values()) == {4}
    pairs.close()


def test_runs_of_real_pairs_that_seem_to_end_together_are_heard_again_in_their_order() -> None:
    """The clock stands still while the strategy thinks, so an earlier run may seem to have ended before."""
    late: Future[RunResult] = Future()
    result = FakeTestbed().measure(PLAIN, 1)
    assert isinstance(result, Measured)
    begins: dict[str, Begin] = {
        "one": lambda _workload, _run, _watch: late,
        "two": partial(at_once, lambda _workload, _run, _watch: replace(result, elapsed_seconds=10.0)),
    }

    async def first(heard: list[int]) -> None:
        heard.append((await RunRequest(PLAIN, "search")).run)

    async def second(heard: list[int]) -> None:
        heard.append((await RunRequest(PLAIN, "search")).run)
        late.set_result(replace(result, elapsed_seconds=9.9))

    def heard_on(store: MemoryStore, *courses: Callable[[list[int]], LaneTask[None]]) -> list[int]:
        heard: list[int] = []
        one = LaneScheduler([Lane(name, begin) for name, begin in begins.items()], False, store, ListSink(), Guard())
        one.drive({lane: course(heard) for lane, course in zip(one.lanes, courses, strict=True)})
        return heard

    store = MemoryStore(HEADER)
    assert heard_on(store, first, second) == [2, 1]
    assert heard_on(store, first, first) == [2, 1]


def test_what_was_measured_on_real_pairs_is_heard_again_in_its_order() -> None:
    store = MemoryStore(HEADER)
    for run, end in ((1, 40.0), (2, 12.0), (3, 25.0), (4, 41.0)):
        result = FakeTestbed().measure(PLAIN, run)
        assert isinstance(result, Measured)
        store.add_run(RunRecord(run, "search", PLAIN, result, end))
    pairs = LocalPairs({"one": _Real(), "two": _Real()})
    heard: list[int] = []
    one = LaneScheduler(pairs.lanes, False, store, ListSink(), Guard())
    one.drive({lane: turns(2, heard) for lane in one.lanes})
    assert heard == [2, 3, 1, 4]
    pairs.close()
