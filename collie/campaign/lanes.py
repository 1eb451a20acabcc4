"""Several pairs of hosts at once: a lane for each, and one order of results for all.

Terms. A *lane* is one pair of hosts with a coroutine that awaits one `RunRequest` after another. The *clock* of a
campaign is testbed time: the end of the last delivered run.

Rules.
1. One thread runs all coroutines, each until it awaits a run. Only measurements run in parallel, so shared state needs
   no lock.
2. Results are delivered in the order in which runs end. With virtual time, the scheduler waits for all runs under way
   and delivers the earliest, so equal seeds give equal campaigns. On real hosts, it delivers the first to end.
3. A run gets its number when it begins. It is recorded before it is delivered. Recorded runs are delivered first, in
   the order of their ends, so a resume repeats the past.
4. A lost lane ends with a recorded run (`ports.PairLost`). Its coroutine receives `LaneLost`. The loss of the last lane
   ends the campaign.
5. A loss is recorded with the first successful run that begins after it, which proves that the other lanes work.
   If all lanes are lost, as in a network outage, the losses are not recorded, so a resume tries the lanes again.
6. After any other failure, no lane begins a run. Runs under way are recorded before the error is raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from collie.campaign.events import RunBegun
from collie.campaign.safety import Guard, LimitUsage
from collie.detect.measurement import Watch
from collie.errors import StoreError, TestbedError
from collie.ports import CampaignStore, Measured, PairLost, ProgressSink, RunRecord, RunResult, Testbed, is_anew
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

Begin = Callable[[Workload, int, Watch | None, SetUp | None], "Future[RunResult]"]
"""Begins a run of a workload, with its number, its watch and the set-up that it is a phase of."""

T = TypeVar("T")


class LaneLost(Exception):
    """The lane of this task was lost in the run of `record`."""

    def __init__(self, record: RunRecord, pair: str, detail: str) -> None:
        self.record = record
        self.reason = f"lost in run {record.run}: {detail}"
        super().__init__(f"{pair} was {self.reason}")


@dataclass(frozen=True, slots=True)
class PhaseOf:
    """The set-up that a run is a phase of: the lane's, if it was made for this workload, unless a `first` run asks."""

    made_for: Workload
    first: bool = False


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The request of a coroutine for a run. Awaiting it gives the record.

    `on` names the set-up that the run is a phase of. Without it, the run has a set-up of its own.
    """

    workload: Workload
    purpose: str
    on: PhaseOf | None = None

    @property
    def made_for(self) -> Workload | None:
        """What the set-up was made for that the run is a phase of."""
        return self.on.made_for if self.on is not None else None

    def __await__(self) -> Generator[RunRequest, RunRecord, RunRecord]:
        record = yield self
        return record


LaneTask = Coroutine[RunRequest, RunRecord, T]


@dataclass(eq=False)
class Lane:
    """One pair of hosts of a campaign.

    Attributes:
        runs: number of runs delivered.
        failed: workloads in a row that failed to set up.
        set_up: the set-up that stands, with the run that made it.
        driven, temperature: values of the strategy at its last proposal for the lane.
    """

    name: str
    begin: Begin
    runs: int = 0
    failed: list[Workload] = field(default_factory=list)
    set_up: SetUp | None = None
    set_up_by: int | None = None
    driven: str | None = None
    temperature: float | None = None

    def prepare(self, run: int, request: RunRequest) -> None:
        """Keep the set-up if the request is a phase of it, else let go of it."""
        on = request.on
        if on is None:
            self.set_up = self.set_up_by = None
        elif on.first or self.set_up is None or self.set_up.made_for != on.made_for:
            self.set_up, self.set_up_by = SetUp(on.made_for), run

    def phase_for(self, workload: Workload) -> PhaseOf | None:
        """Return the set-up that stands, for a further phase, if a workload fits it."""
        if self.set_up is None or self.set_up.misfit(workload) is not None:
            return None
        return PhaseOf(self.set_up.made_for)

    def conclude(self, record: RunRecord) -> None:
        """Count a delivered run. Its set-up stands if the result says so."""
        self.runs += 1
        result, on = record.result, self.set_up
        if on is not None and is_anew(result):
            on, self.set_up_by = SetUp(on.made_for), record.run
        stands = isinstance(result, Measured) and result.stands
        self.set_up = on.after(record.workload) if on is not None and stands else None


class _Recorded(NamedTuple):
    """A run of an earlier process. It omits the series of samples, which can take a megabyte."""

    record: RunRecord
    usage: LimitUsage


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A run that began at `began` on the campaign's clock. Either it is on record, or its result is pending."""

    lane: Lane
    request: RunRequest
    run: int
    began: float
    recorded: _Recorded | None = None
    pending: Future[RunResult] | None = None
    watch: Watch | None = None

    def end(self, earliest: float) -> float:
        """Return the end of the run, waiting for it if necessary. The end of a new run is at least `earliest`."""
        if self.recorded is not None:
            return self.recorded.record.finished_at_seconds
        assert self.pending is not None
        return max(earliest, self.began + self.pending.result().elapsed_seconds)


class LaneScheduler:
    """Numbers, makes and records the runs of all lanes.

    Attributes:
        runs: number of runs begun.
        further_phases: number of runs delivered that had the set-up of an earlier one.
        elapsed_seconds: the clock.
    """

    def __init__(
        self, lanes: Sequence[Lane], virtual_time: bool, store: CampaignStore, sink: ProgressSink, guard: Guard
    ) -> None:
        self.lanes = tuple(lanes)
        self.runs = self.further_phases = 0
        self.elapsed_seconds = 0.0
        self._virtual_time = virtual_time
        self._store = store
        self._sink = sink
        self._guard = guard
        self._recorded = {
            record.run: _Recorded(record.without_series, guard.usage(record.result)) for record in store.runs()
        }
        self._runs_recorded = frozenset(self._recorded)
        self._last_recorded = max(self._recorded, default=0)
        self._losses: list[tuple[int, RunRecord]] = []

    @property
    def replaying(self) -> bool:
        """Whether recorded runs remain to be replayed."""
        return self.runs < self._last_recorded

    @property
    def next_purpose(self) -> str | None:
        """Purpose of the next run if it is on record, else None."""
        recorded = self._recorded.get(self.runs + 1)
        return recorded.record.purpose if recorded else None

    def was_recorded(self, run: int) -> bool:
        """Whether an earlier process recorded a run."""
        return run in self._runs_recorded

    def drive(self, tasks: Mapping[Lane, LaneTask[T]]) -> dict[Lane, T]:
        """Run the tasks of all lanes to their ends, side by side. A lost lane has no result.

        Raises:
            TestbedError: the testbed is gone, or the last of several pairs is lost.
            StoreError: the record belongs to another campaign.
        """
        under_way: dict[Lane, _UnderWay] = {}
        results: dict[Lane, T] = {}

        def advance(lane: Lane, record: RunRecord | None) -> None:
            task = tasks[lane]
            try:
                if record is not None and isinstance(record.result, PairLost):
                    request = task.throw(self._lose(lane, record, record.result))
                else:
                    request = task.send(record)  # type: ignore[arg-type]  # None starts it
            except StopIteration as stop:
                results[lane] = stop.value
            except LaneLost:
                return
            else:
                under_way[lane] = self._begin(lane, request)

        try:
            for lane in tasks:
                advance(lane, None)
            while under_way:
                lane = self._next_to_end(list(under_way.values())).lane
                advance(lane, self._finish(under_way.pop(lane)))
        except Exception:
            self._keep(list(under_way.values()))
            raise
        finally:
            for task in tasks.values():
                task.close()
        return results

    def _lose(self, lane: Lane, record: RunRecord, lost: PairLost) -> LaneLost:
        self.lanes = tuple(each for each in self.lanes if each is not lane)
        if not self.lanes:
            raise TestbedError(f"no pair is left; the last was {lost.pair}: {lost.detail}")
        return LaneLost(record, lost.pair, lost.detail)

    def _next_to_end(self, under_way: Sequence[_UnderWay]) -> _UnderWay:
        if self._virtual_time:
            return self._in_order(under_way)[0]
        known = [each for each in under_way if each.recorded]
        if not known:
            ended, _ = wait([each.pending for each in under_way if each.pending], return_when=FIRST_COMPLETED)
            known = [each for each in under_way if each.pending in ended]
        return self._in_order(known)[0]

    def _in_order(self, under_way: Iterable[_UnderWay]) -> list[_UnderWay]:
        return sorted(under_way, key=lambda each: (each.end(self._earliest_end), each.run))

    @property
    def _earliest_end(self) -> float:
        """The earliest end of the next delivered run.

        In real time it is later than the previous end, because a resume derives the order of delivery from the ends.
        """
        return self.elapsed_seconds if self._virtual_time else math.nextafter(self.elapsed_seconds, math.inf)

    def _begin(self, lane: Lane, request: RunRequest) -> _UnderWay:
        self.runs += 1
        run, recorded = self.runs, self._recorded.pop(self.runs, None)  # each recorded run is used once
        lane.prepare(run, request)
        if recorded is None:
            self._sink.on_event(RunBegun(run, request.purpose))
            watch = self._guard.watch(virtual_time=self._virtual_time)
            pending = lane.begin(request.workload, run, watch, lane.set_up)
            return _UnderWay(lane, request, run, self.elapsed_seconds, pending=pending, watch=watch)
        then = recorded.record
        if (then.workload, then.purpose, then.made_for) != (request.workload, request.purpose, request.made_for):
            raise StoreError(
                f"run {run} on record is a {then.purpose} run of another workload than this program would do "
                "next; the campaign comes from another version of Collie or its files were changed: start a new one"
            )
        return _UnderWay(lane, request, run, self.elapsed_seconds, recorded)

    def _finish(self, under_way: _UnderWay) -> RunRecord:
        end = under_way.end(self._earliest_end)
        record, usage = under_way.recorded or self._put_on_record(under_way, end)
        self._guard.account(usage, under_way.watch)
        under_way.lane.conclude(record)
        self.further_phases += not record.made_set_up
        self.elapsed_seconds = end
        return record

    def _put_on_record(self, under_way: _UnderWay, end: float) -> _Recorded:
        assert under_way.pending is not None
        request, result = under_way.request, under_way.pending.result()
        record = RunRecord(
            under_way.run,
            request.purpose,
            request.workload,
            result,
            end,
            set_up=under_way.run if is_anew(result) else under_way.lane.set_up_by,
            made_for=request.made_for,
        )
        if isinstance(record.result, PairLost):
            self._losses.append((self.runs, record))
        else:
            self._record_losses(before=record.run)
            self._store.add_run(record)
        return _Recorded(record.without_series, self._guard.usage(record.result))

    def settle(self) -> None:
        """Record the remaining losses after all tasks have ended."""
        self._record_losses(before=self.runs + 1)

    def _record_losses(self, before: int) -> None:
        """Record the losses delivered before the run with the number `before` began."""
        while self._losses and self._losses[0][0] < before:
            self._store.add_run(self._losses.pop(0)[1])

    def _keep(self, under_way: Sequence[_UnderWay]) -> None:
        sound = [each for each in under_way if each.pending is None or each.pending.exception() is None]
        for each in self._in_order(sound):
            self._finish(each)


def alone(testbed: Testbed) -> Lane:
    """Return the lane of a single testbed, whose runs end before `begin` returns."""
    return Lane(testbed.info.name, partial(at_once, testbed.measure))


def at_once(
    measure: Callable[[Workload, int, Watch | None, SetUp | None], RunResult],
    workload: Workload,
    run: int,
    watch: Watch | None,
    on: SetUp | None = None,
) -> Future[RunResult]:
    """Run to the end and return the completed future."""
    done: Future[RunResult] = Future()
    try:
        done.set_result(measure(workload, run, watch, on))
    except Exception as error:
        done.set_exception(error)
    return done
