"""Several pairs of hosts in one campaign: common findings, and pairs that differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest

from collie.campaign.budget import Budget
from collie.campaign.calibrate import calibrate, plain_load, plan
from collie.campaign.events import PairSetAside, RunFinished
from collie.campaign.lanes import PhaseOf, RunRequest
from collie.campaign.measure import Measurer
from collie.campaign.pairs import unlike
from collie.content.spaces import load_space
from collie.detect.bounds import Bounds, Calibration
from collie.detect.measurement import Watch
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.errors import TestbedError
from collie.ports import RunResult, SetupFailed
from collie.search.recipe import Recipe
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.setup import SetUp
from collie.workloads.workload import Opcode, Workload
from tests.support.pairs import LATE, PLAIN, PLANTED, RANDOM, fakes, lanes, loop_of, search
from tests.support.planted import HEADER, LOOPBACK, MANY_SGES, SPACE
from tests.support.scripted import Scripted


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


@pytest.mark.parametrize(
    ("bps", "slow"),
    [
        ((9.2e9, 10e9), ["pair 1"]),  # with the faster one, because the middle of two shows half of the difference
        ((9.6e9, 10e9), []),
        ((9.75e9, 10e9, 10.4e9, 10.4e9), []),  # with the middle of all four, which is slower than the faster half
        ((9.6e9, 10e9, 10.4e9, 10.4e9), ["pair 1"]),
    ],
)
def test_a_pair_is_compared_with_the_faster_of_two_and_with_the_middle_of_more(
    bps: Sequence[float], slow: list[str]
) -> None:
    rates = {lane: {PLAIN: each} for lane, each in zip(lanes(fakes(len(bps))), bps, strict=True)}
    assert [lane.name for lane in unlike(rates)] == slow


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


def test_inconclusive_runs_refute_nothing() -> None:
    """Pair 1 sees what pair 2 cannot even set up."""

    class Refusing(FakeTestbed):
        def measure(
            self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
        ) -> RunResult:
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

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
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


def test_healthy_pairs_whose_rates_vary_are_seldom_set_aside() -> None:
    """At 8 % in 1 of 40 to 140 campaigns."""
    rng, workloads = Random(1), [PLAIN.with_(qps=qps) for qps in (1, 2, 3, 4, 5)]
    for count in (2, 4, 8):
        pairs = lanes(fakes(count))
        campaigns = [
            {lane: {each: 1e10 * rng.gauss(1, 0.08) for each in workloads} for lane in pairs} for _ in range(600)
        ]
        assert sum(bool(unlike(rates)) for rates in campaigns) <= 600 / 25


def test_several_pairs_share_a_calibration_and_time_no_links() -> None:
    """Each pair has links of its own."""
    space = load_space("offered-load")
    workloads, load = list(plan(space, (4096,), (Opcode.WRITE,))), plain_load(space)
    for count, links in ((1, 1), (2, 0)):
        testbeds = fakes(count, planted=(), noise=0.0)
        bounds = Bounds(testbeds[0].specification, Calibration(), space)
        measurer = Measurer(
            testbeds[0], MemoryStore(HEADER), bounds, Thresholds(), Budget(), ListSink(), lanes=lanes(testbeds)
        )
        found = calibrate(measurer, workloads, 2, load)
        assert (len(found.points), len(found.links)) == (len(workloads), links)
        assert sum(testbed.runs for testbed in testbeds) == 2 * len(workloads) + 2 * links


def test_pairs_are_compared_from_the_first_transport_to_the_last() -> None:
    store = MemoryStore(HEADER)
    search(fakes(2), store=store, runs=20)
    qualified = list(dict.fromkeys(record.workload for record in store.runs() if record.purpose == "qualify"))
    planned = list(plan(SPACE, (1024, 65536)))
    assert len(qualified) == 5
    assert (qualified[0], qualified[-1]) == (planned[0], planned[-1])


@pytest.mark.parametrize("phases", [1, 8])
@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_an_explanation_reserves_the_time_that_one_pair_takes(pairs: int, phases: int) -> None:
    loop, measurer = loop_of(
        [FakeTestbed() for _ in range(pairs)], Scripted([]), recipe=replace(RANDOM, phases=phases), runs=1000
    )

    async def searching() -> None:
        for number in range(40):
            on = PhaseOf(PLAIN, first=number % phases == 0) if phases > 1 else None
            await RunRequest(PLAIN, "search", on)

    measurer.scheduler.drive({lane: searching() for lane in measurer.lanes})
    takes = 30.0 * (45 if phases == 1 else 32)
    for explanations in (1, pairs):  # each pair takes one of them
        measurer.budget = Budget(measurer.elapsed_seconds + 1.1 * takes)
        assert not loop._rest_is_needed(explanations)
        measurer.budget = Budget(measurer.elapsed_seconds + 0.9 * takes)
        assert loop._rest_is_needed(explanations)
