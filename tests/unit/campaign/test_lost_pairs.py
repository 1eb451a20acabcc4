"""Pairs that are lost or do not answer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from collie.campaign.events import PairSetAside, RunFinished, SuspicionDropped
from collie.campaign.history import HISTORY
from collie.campaign.lanes import LaneLost, LaneScheduler, RunRequest
from collie.campaign.safety import Guard
from collie.campaign.summary import Summary
from collie.detect.measurement import Watch
from collie.detect.symptom import Symptom
from collie.errors import HostUnreachable, TestbedError
from collie.ports import Measured, PairLost, RunRecord, RunResult, TestbedInfo
from collie.scheduler.local import LocalPairs
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.pairs import LATE, PLAIN, PLANTED, RANDOM, fakes, loop_of, search, track, turns
from tests.support.planted import HEADER, LOOPBACK, MANY_SGES
from tests.support.scripted import Scripted


@dataclass
class _Mortal(FakeTestbed):
    """A testbed that is gone from the run with a certain number on."""

    dies_in: int | None = None
    dead: bool = False
    began: list[int] = field(default_factory=list)

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        self.began.append(run)
        self.dead |= run == self.dies_in
        if self.dead:
            raise HostUnreachable("host-b", "192.0.2.7", "timed out")
        return super().measure(workload, run, watch, on)


@dataclass
class _Silent(FakeTestbed):
    """A testbed that does not answer."""

    @property
    def info(self) -> TestbedInfo:
        raise HostUnreachable("host-b", "192.0.2.7", "timed out")


def mortals(count: int, dies_in: int | None) -> list[_Mortal]:
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


def test_the_lane_of_a_lost_pair_is_informed() -> None:
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
    search(fakes(3), store=kept, recipe=LATE, runs=400)
    return list(kept.runs())


@pytest.mark.parametrize("purpose", ["qualify", "search", "sibling", "confirm", "extract", "audit"])
def test_what_a_lost_pair_was_doing_is_done_elsewhere(purpose: str, undisturbed: list[RunRecord]) -> None:
    dies_in = next(record.run for record in undisturbed if record.purpose == purpose)
    store, sink = MemoryStore(HEADER), ListSink()
    summary = search(mortals(3, dies_in), store=store, sink=sink, recipe=LATE, runs=400)
    records = {record.run: record for record in store.runs()}
    lost = records[dies_in]
    assert isinstance(lost.result, PairLost)
    assert lost.purpose == purpose
    reason = f"lost in run {dies_in}: host host-b (192.0.2.7) cannot be reached: timed out"
    assert summary.set_aside == {lost.result.pair: reason}
    assert sink.of(PairSetAside) == [PairSetAside(lost.result.pair, reason)]
    assert summary.runs == 400
    assert {anomaly.symptom for anomaly in summary.anomalies} == {Symptom.PAUSE, Symptom.LOW_THROUGHPUT}
    assert all(anomaly.complete for anomaly in summary.anomalies if anomaly.same_as is None)
    if purpose not in ("qualify", "extract"):  # which an explanation begun again may do without
        assert any(record.workload == lost.workload for record in store.runs() if record.run > dies_in)

    by_end = sorted(records.values(), key=lambda record: (record.finished_at_seconds, record.run))
    for killed_after in {by_end.index(lost) + 1, 390}:
        part = MemoryStore(HEADER)
        for record in by_end[:killed_after]:
            part.add_run(record)
        assert search(mortals(3, dies_in), store=part, recipe=LATE, runs=400) == summary, killed_after
        assert {record.run: record for record in part.runs()} == records


def test_what_another_pair_refuted_is_dropped_with_the_only_pair_that_showed_it() -> None:
    """Its pair is lost while it tests whether it is itself the cause."""

    def searched(dies_in: int | None) -> tuple[_Mortal, dict[int, RunRecord], ListSink]:
        store, sink, (odd, sound) = MemoryStore(HEADER), ListSink(), mortals(2, dies_in)
        odd.planted, sound.planted = (Planted(LOOPBACK),), ()
        search([odd, sound], store=store, sink=sink, runs=100)
        return odd, {record.run: record for record in store.runs()}, sink

    odd, records, _ = searched(None)
    dies_in = next(run for run in odd.began if records[run].purpose == "confirm")
    refuted = records[dies_in].workload
    _, records, sink = searched(dies_in)
    assert isinstance(records[dies_in].result, PairLost)
    dropped = [each for each in sink.of(SuspicionDropped) if records[each.run].workload == refuted]
    assert [each.runs for each in dropped] == [0]
    assert not any(
        each.purpose == "confirm" and each.workload == refuted for run, each in records.items() if run > dies_in
    )


def test_phases_before_the_one_in_which_their_pair_is_lost_are_judged_and_announced() -> None:
    """The phases of a set-up are judged when the last has run. Here it does not end."""

    def searched(dies_in: int | None) -> tuple[_Mortal, dict[int, RunRecord], ListSink]:
        store, sink = MemoryStore(HEADER), ListSink()
        testbeds = [replace(each, planted=()) for each in mortals(2, dies_in)]
        search(testbeds, store=store, sink=sink, recipe=replace(RANDOM, phases=4), runs=40)
        return testbeds[0], {record.run: record for record in store.runs()}, sink

    first, records, _ = searched(None)
    dies_in = [run for run in first.began if records[run].purpose == "search"][2]
    assert records[dies_in].set_up != dies_in
    _, records, sink = searched(dies_in)
    assert isinstance(records[dies_in].result, PairLost)
    announced = {event.record.run: event.verdict for event in sink.of(RunFinished)}
    assert announced.keys() == records.keys()
    measured = [record for run, record in records.items() if record.purpose == "search" and run != dies_in]
    assert all(record.verdict is not None and announced[record.run] == record.verdict for record in measured)


def test_what_was_anomalous_before_its_pair_was_lost_is_measured_by_another() -> None:
    def searched(dies_in: int | None) -> dict[int, RunRecord]:
        store, (odd, sound) = MemoryStore(HEADER), mortals(2, dies_in)
        odd.planted, sound.planted = (Planted(LOOPBACK),), ()  # no explanation takes the rest of the budget
        search([odd, sound], store=store, recipe=replace(RANDOM, phases=4), runs=60)
        return {record.run: record for record in store.runs()}

    def is_anomalous(record: RunRecord) -> bool:
        return record.verdict is not None and record.verdict.is_anomalous

    records = searched(None)
    phases = [record for record in records.values() if record.purpose == "search"]
    found = next(each for each in phases if is_anomalous(each) and each.run == each.set_up)
    dies_in = next(each.run for each in phases if each.set_up == found.set_up and each is not found)
    after = [record for run, record in searched(dies_in).items() if run > dies_in and record.purpose == "search"]
    assert any(record.workload == found.workload for record in after)


def test_what_a_pair_leaves_when_the_others_have_covered_the_space_is_done_by_these() -> None:
    store, testbeds = MemoryStore(HEADER), [_Mortal(dies_in=1), _Mortal()]
    last = PLAIN.with_(loopback=True)
    rest = [Mfs((Condition("loopback", Op.EQUAL, False),))]
    loop, _ = loop_of(testbeds, Scripted([last]), store=store, runs=20, known=rest)
    summary = loop.run()
    assert summary.ended_by == "coverage"
    assert [type(record.result) for record in store.runs()] == [PairLost, Measured]
    assert testbeds[1].measured == [last]


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


def test_pairs_are_closed_side_by_side_and_the_first_failure_is_reported() -> None:
    meet = threading.Barrier(3)
    testbeds = [_Closing(meet=meet) for _ in range(3)]
    pairs = LocalPairs({f"pair {number}": testbed for number, testbed in enumerate(testbeds)})
    assert list(pairs.close()) == [f"host {id(testbed)}" for testbed in testbeds]
    testbeds[0].failure, testbeds[2].failure = "first", "second"
    with pytest.raises(TestbedError, match="first"):
        pairs.close()
    assert [testbed.closed for testbed in testbeds] == [2, 2, 2]


@pytest.mark.parametrize("dies_in", [3, 4, 5, 6])
def test_what_waited_for_its_plain_sibling_is_measured_by_another(dies_in: int) -> None:
    """Each phase needs its own plain sibling. The pair is lost in a phase, or in one of the siblings."""
    slow = (Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5),)
    proposals = [PLAIN.with_(sge_count=16, qps=qps) for qps in (16, 8, 4)]
    elsewhere = PLAIN.with_(mtu=1024)  # the other pair takes the second proposal
    store, sink, strategy = MemoryStore(HEADER), ListSink(), Scripted([proposals[0], elsewhere, *proposals[1:]])
    testbeds = [_Mortal(slow, dies_in=dies_in), _Mortal(slow, run_seconds=200.0)]
    loop, _ = loop_of(
        testbeds, strategy, store=store, sink=sink, recipe=replace(RANDOM, phases=4, explain=False), runs=60
    )
    summary = loop.run()
    records = {record.run: record for record in store.runs()}
    assert isinstance(records[dies_in].result, PairLost)
    left = set(testbeds[0].measured) & set(proposals)
    judged = {event.record.workload for event in sink.of(RunFinished) if event.record.run > dies_in}
    assert left
    assert left <= judged
    assert summary.anomalies
    runs = [event.record.run for event in sink.of(RunFinished)]
    assert len(runs) == len(set(runs)), "each run is announced once"


def test_what_a_lost_pair_found_healthy_is_told_to_the_strategy() -> None:
    healthy = [PLAIN.with_(qps=qps) for qps in (4, 2, 1)]
    elsewhere = PLAIN.with_(mtu=1024)  # the other pair takes the second proposal
    strategy = Scripted([PLAIN, elsewhere, *healthy])
    testbeds = [_Mortal(dies_in=6), _Mortal(run_seconds=500.0)]
    loop, _ = loop_of(testbeds, strategy, recipe=replace(RANDOM, phases=8), runs=12)
    strategy.proposals += [PLAIN.with_(qps=3)]
    loop.run()
    assert set(healthy) <= set(strategy.told)
    assert [workload for testbed in testbeds for workload in testbed.measured if workload in healthy] == healthy


def test_a_suspicion_whose_pair_is_lost_while_its_phases_are_sought_stays_one() -> None:
    """It does not show alone. The pair is lost while it is looked for after the phases before it."""
    large = PLAIN.with_(sge_count=16, qps=64)
    after = (Planted(MANY_SGES, after=Mfs((Condition("qps", Op.AT_LEAST, 64),))),)

    def searched(dies_in: int | None) -> tuple[list[_Mortal], dict[int, RunRecord], Summary, ListSink]:
        store, sink = MemoryStore(HEADER), ListSink()
        testbeds = [_Mortal(after, dies_in=dies_in), _Mortal(after, run_seconds=37.0)]
        strategy = Scripted([large, PLAIN.with_(mtu=1024), PLAIN.with_(sge_count=16)])
        loop, _ = loop_of(testbeds, strategy, store=store, sink=sink, recipe=replace(RANDOM, phases=4), runs=80)
        summary = loop.run()
        return testbeds, {record.run: record for record in store.runs()}, summary, sink

    testbeds, records, summary, _ = searched(None)
    (alone,) = summary.anomalies
    sought = [run for run in testbeds[0].began if records[run].purpose == HISTORY]
    assert sought
    _, records, summary, sink = searched(sought[0])
    assert isinstance(records[sought[0]].result, PairLost)
    (anomaly,) = summary.anomalies
    assert (anomaly.workload, anomaly.history) == (alone.workload, alone.history)
    assert sink.of(SuspicionDropped) == []


def test_what_only_the_last_pair_shows_is_listed_with_its_runs_and_is_no_anomaly() -> None:
    """The pair that refuted it is lost, so nobody knows which of the two is odd."""

    def searched(dies_in: int | None) -> tuple[_Mortal, dict[int, RunRecord], Summary, ListSink]:
        store, sink = MemoryStore(HEADER), ListSink()
        sound, odd = _Mortal(dies_in=dies_in), _Mortal((Planted(LOOPBACK),), run_seconds=300.0)
        strategy = Scripted([PLAIN, PLAIN.with_(loopback=True)])
        loop, _ = loop_of([sound, odd], strategy, store=store, sink=sink, runs=60)
        summary = loop.run()
        return sound, {record.run: record for record in store.runs()}, summary, sink

    sound, records, summary, _ = searched(None)
    assert list(summary.set_aside) == ["pair 2"]
    assert not summary.unconfirmed
    refuted = max(run for run in sound.began if records[run].purpose == "confirm")
    _, records, summary, sink = searched(next(run for run in sound.began if run > refuted))
    assert list(summary.set_aside) == ["pair 1"]
    assert not summary.anomalies
    (listed,) = summary.unconfirmed
    assert listed.shows == listed.runs >= 2
    assert listed.verdict.reason.endswith("; another pair, which is gone, did not show it")
    assert [(each.run, each.shows) for each in sink.of(SuspicionDropped)] == [(listed.run, listed.shows)]
    assert summary.trust is not None
    assert summary.trust.dropped == 0
