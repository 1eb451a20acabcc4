"""Lanes: one order of answers, whichever run ends first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from collie.campaign.lanes import Begin, Lane, LaneScheduler, LaneTask, RunRequest, at_once
from collie.campaign.safety import Guard
from collie.detect.measurement import Watch
from collie.errors import StoreError
from collie.ports import Measured, RunRecord, RunResult, TestbedInfo
from collie.scheduler.local import LocalPairs
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.pairs import PLAIN, fakes, track, turns
from tests.support.planted import HEADER


def test_runs_are_numbered_as_they_begin_and_answered_as_they_end() -> None:
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


@dataclass
class _Real(FakeTestbed):
    """A testbed whose time is real, and whose runs end together or not at all."""

    meet: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))

    @property
    def info(self) -> TestbedInfo:
        return replace(super().info, virtual_time=False)

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        self.meet.wait(30)
        return super().measure(workload, run, watch)


def test_real_pairs_measure_at_the_same_time() -> None:
    barrier = threading.Barrier(3)
    pairs = LocalPairs({f"pair {number}": _Real(meet=barrier) for number in (1, 2, 3)})
    assert [lane.name for lane in pairs.lanes] == ["pair 1", "pair 2", "pair 3"]
    one = LaneScheduler(pairs.lanes, pairs.info.virtual_time, MemoryStore(HEADER), ListSink(), Guard())
    assert set(one.drive({lane: turns(4, []) for lane in one.lanes}).values()) == {4}
    pairs.close()


def test_runs_of_real_pairs_that_seem_to_end_together_are_replayed_in_their_order() -> None:
    """The clock stands still while the strategy thinks, so an earlier run may seem to have ended before."""
    late: Future[RunResult] = Future()
    result = FakeTestbed().measure(PLAIN, 1)
    assert isinstance(result, Measured)
    begins: dict[str, Begin] = {
        "one": lambda *_asked: late,
        "two": partial(at_once, lambda *_asked: replace(result, elapsed_seconds=10.0)),
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


def test_measurements_on_real_pairs_are_replayed_in_their_order() -> None:
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


def test_the_purpose_of_the_next_run_is_known_while_it_is_on_record() -> None:
    """A resume with a larger budget takes its steps from the record."""
    store = MemoryStore(HEADER)
    one = track(fakes(1), store)
    assert one.next_purpose is None
    one.drive({lane: turns(2, []) for lane in one.lanes})
    again = track(fakes(1), store)
    seen = []

    async def looking() -> None:
        for _ in range(3):
            seen.append((again.replaying, again.next_purpose))
            await RunRequest(PLAIN, "search")

    again.drive({lane: looking() for lane in again.lanes})
    assert seen == [(True, "search"), (True, "search"), (False, None)]
