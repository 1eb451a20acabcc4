"""The progress of a campaign, folded from its events, and the sign of life of its process.

A simulated campaign makes thousands of runs a second, so an event only sets a few fields.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from collie.campaign.events import (
    AnomalyConfirmed,
    AnomalyExplained,
    AnomalyMerged,
    AnomalyReplaced,
    CampaignBegun,
    PairSetAside,
    RunBegun,
    RunFinished,
    SuspicionDropped,
)
from collie.campaign.summary import NotConfirmed
from collie.counters.catalog import CounterKind
from collie.detect.measurement import Latency, Measurement, Victim
from collie.ports import Clock, HostLost, Measured, PairLost, RunRecord, SetupFailed
from collie.search.anomaly import Anomaly

_PACE_SECONDS = 60.0
"""Explanations and search differ in pace, so only the last minute counts."""
_MARK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class HostStanding:
    """The state of a host under test. `lost` counts crashes and hangs."""

    lost: int = 0
    lost_in_run: int | None = None


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run without a measurement, because of a fault."""

    run: int
    message: str


def failure_of(record: RunRecord) -> FailedRun | None:
    """Return the fault of a run, or None."""
    match record.result:
        case SetupFailed(cause, detail):
            return FailedRun(record.run, f"set-up failed: {cause}: {detail}")
        case HostLost(host, detail):
            return FailedRun(record.run, f"host {host} was lost: {detail}")
        case PairLost(pair, detail):
            return FailedRun(record.run, f"{pair} was lost: {detail}")
    return None


@dataclass(frozen=True, slots=True)
class FoundAnomaly:
    """What is known of an anomaly so far. An earlier version has no `figure`, the severity in words."""

    symptom: str
    severity: float
    explained: bool
    figure: str = ""

    @classmethod
    def of(cls, anomaly: Anomaly) -> FoundAnomaly:
        """Return what is known of a confirmed anomaly."""
        return cls(anomaly.symptom.value, anomaly.severity, anomaly.complete, anomaly.figure)


@dataclass(frozen=True)
class CampaignProgress:
    """The progress of a campaign. Rates and times are None when unknown.

    Attributes:
        runs: number of runs of every purpose, with or without a measurement. A run counts when it is judged.
        further_phases: number of runs on a set-up that an earlier run made.
        replayed: number of runs taken from the record of an earlier process.
        failed_runs: number of runs that failed to set up, or that cost a host or a pair.
        wall_seconds: time since the start of this process.
        budget: the budget in words.
        budget_ratio: used share of the budget, 0..1.
        virtual_time: whether testbed time is computed instead of waited for.
        purpose: purpose of the current run, or of the last run.
        best: extreme reading of the driven counter over all proposals.
        anomalies: confirmed anomalies by id, without those merged into another.
        runs_per_minute: runs per minute of wall time, over the last minute.
        left_seconds: wall time until the budget is spent at this pace.
        latency, victim: those of the last measured run, the latency by flow.
        unconfirmed: number of suspicions that showed again, but too rarely.
    """

    runs: int = 0
    further_phases: int = 0
    replayed: int = 0
    failed_runs: int = 0
    elapsed_seconds: float = 0.0
    wall_seconds: float = 0.0
    budget: str = ""
    budget_ratio: float = 0.0
    virtual_time: bool = False
    purpose: str = ""
    driven: str | None = None
    best: float | None = None
    temperature: float | None = None
    anomalies: Mapping[str, FoundAnomaly] = field(default_factory=dict)
    runs_per_minute: float | None = None
    testbed_seconds_per_second: float | None = None
    left_seconds: float | None = None
    hosts: Mapping[str, HostStanding] = field(default_factory=dict)
    last_failure: FailedRun | None = None
    pairs_set_aside: Mapping[str, str] = field(default_factory=dict)
    latency: Mapping[str, Latency] = field(default_factory=dict)
    victim: Victim | None = None
    unconfirmed: int = 0

    @property
    def set_ups(self) -> int:
        """Number of set-ups of the runs."""
        return self.runs - self.further_phases

    @property
    def worst(self) -> str | None:
        """Id of the most severe anomaly so far."""
        return max(self.anomalies, key=lambda name: self.anomalies[name].severity, default=None)


@dataclass(frozen=True, slots=True)
class _Mark:
    at: float
    runs: int
    elapsed_seconds: float
    budget_ratio: float


class Follower:
    """A `ProgressSink` that folds events into the progress.

    Another thread can call `standing`, because fields are replaced, never changed in place.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._known = CampaignProgress()
        self._last: RunFinished | None = None
        self._measured: Measurement | None = None
        self._purpose = ""
        self._falling: frozenset[str] = frozenset()
        self._best: dict[str, float] = {}
        self._marks: tuple[_Mark, ...] = ()
        self._lost: tuple[RunFinished, ...] = ()

    def on_event(self, event: Any) -> None:
        """Add an event."""
        match event:
            case RunFinished():
                self._run(event)
            case RunBegun():
                self._purpose = event.purpose
            case PairSetAside(pair, reason):
                self._know(pairs_set_aside={**self._known.pairs_set_aside, pair: reason})
            case SuspicionDropped(shows=shows) if shows:
                self._know(unconfirmed=self._known.unconfirmed + 1)
            case (
                AnomalyConfirmed(anomaly)
                | AnomalyExplained(anomaly)
                | AnomalyMerged(anomaly)
                | AnomalyReplaced(anomaly)
            ):
                self._found(anomaly)
            case CampaignBegun(info, budget):
                self._falling = frozenset(counter.name for counter in info.catalog.of_kind(CounterKind.PERFORMANCE))
                hosts = {} if info.virtual_time else dict.fromkeys(info.fingerprints, HostStanding())
                self._know(hosts=hosts, virtual_time=info.virtual_time, budget=str(budget))

    def standing(self) -> CampaignProgress:
        """Return the current progress."""
        now = self._clock.monotonic()
        last = self._last
        known = dataclasses.replace(self._known, wall_seconds=now - self._began, purpose=self._purpose)
        if last is None:
            return known
        return dataclasses.replace(
            known,
            driven=last.driven,
            best=self._best.get(last.driven) if last.driven else None,
            temperature=last.temperature,
            latency={} if self._measured is None else dict(self._measured.latency),
            victim=None if self._measured is None else self._measured.victim,
            **self._pace(self._here(now)),
        )

    def _run(self, event: RunFinished) -> None:
        record = event.record
        self._purpose = record.purpose
        # Runs are told of in an order other than that of their ends, as when one waits for its siblings.
        self._know(
            elapsed_seconds=max(self._known.elapsed_seconds, record.finished_at_seconds),
            budget_ratio=max(self._known.budget_ratio, event.budget_share),
        )
        if isinstance(record.result, PairLost):
            self._lost = (*self._lost, event)
        else:
            self._last = event
            # A loss is on record if a run that began after it is (lanes.py, rule 5).
            for lost in self._lost:
                if lost.record.run < record.run:
                    self._count(lost)
            self._lost = tuple(lost for lost in self._lost if lost.record.run > record.run)
            self._count(event)
        if isinstance(record.result, Measured):
            self._measured = record.result.measurement
        if isinstance(record.result, HostLost):
            host = record.result.host
            lost_times = self._known.hosts.get(host, HostStanding()).lost + 1
            self._know(hosts={**self._known.hosts, host: HostStanding(lost_times, record.run)})
        if event.driven and record.purpose == "search" and isinstance(record.result, Measured):
            self._read(event.driven, record.result.measurement)
        if event.replayed:
            self._marks = ()
        self._mark()

    def _count(self, recorded: RunFinished) -> None:
        failure = failure_of(recorded.record)
        self._know(
            runs=self._known.runs + 1,
            further_phases=self._known.further_phases + (not recorded.record.made_set_up),
            failed_runs=self._known.failed_runs + (failure is not None),
            last_failure=failure or self._known.last_failure,
            replayed=self._known.replayed + recorded.replayed,
        )

    def _read(self, counter: str, measurement: Measurement) -> None:
        value = measurement.counter(counter)
        if value is not None:
            better = min if counter in self._falling else max
            self._best[counter] = better(value, self._best.get(counter, value))

    def _mark(self) -> None:
        now = self._clock.monotonic()
        if self._marks and now - self._marks[-1].at < _MARK_SECONDS:
            return
        recent = tuple(earlier for earlier in self._marks if now - earlier.at <= _PACE_SECONDS)
        self._marks = (*(recent or self._marks[-1:]), self._here(now))

    def _here(self, now: float) -> _Mark:
        return _Mark(now, self._known.runs, self._known.elapsed_seconds, self._known.budget_ratio)

    def _pace(self, here: _Mark) -> dict[str, Any]:
        since = (self._marks or (here,))[0]
        seconds = here.at - since.at
        if seconds <= 0 or here.runs <= since.runs:
            return {}
        used = here.budget_ratio - since.budget_ratio
        return {
            "runs_per_minute": 60 * (here.runs - since.runs) / seconds,
            "testbed_seconds_per_second": (here.elapsed_seconds - since.elapsed_seconds) / seconds,
            "left_seconds": (1 - here.budget_ratio) * seconds / used if used > 0 and math.isfinite(used) else None,
        }

    def _found(self, anomaly: Anomaly) -> None:
        others = {name: found for name, found in self._known.anomalies.items() if name != anomaly.id}
        if anomaly.same_as is None:
            others[anomaly.id] = FoundAnomaly.of(anomaly)
        self._know(anomalies=others)

    def _know(self, **changes: Any) -> None:
        self._known = dataclasses.replace(self._known, **changes)


FAILED_OUTCOMES = ("setup_failed", "host_lost", "pair_lost")


@dataclass(frozen=True, slots=True)
class Tally:
    """The numbers of runs on record.

    Attributes:
        outcomes: number of runs by outcome: `measured`, `setup_failed`, `unsupported`, `host_lost`, `pair_lost`.
        last_run: number of the last run. Earlier numbers can be missing while other pairs run them.
        last_failure: the last run that failed to set up, or cost a host or a pair.
        further_phases: number of runs on a set-up that an earlier run made.
    """

    outcomes: Mapping[str, int]
    elapsed_seconds: float
    last_run: int
    last_failure: RunRecord | None
    further_phases: int

    @property
    def runs(self) -> int:
        """Number of runs of every outcome."""
        return sum(self.outcomes.values())

    @property
    def failed_runs(self) -> int:
        """Number of runs without a measurement because of a fault."""
        return sum(self.outcomes.get(outcome, 0) for outcome in FAILED_OUTCOMES)


HEARTBEAT_SECONDS = 3.0


class ProcessState(StrEnum):
    """State of a campaign in its process. An interrupted or failed one can be resumed."""

    RUNNING = "running"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True)
class Answer:
    """The answer of a gate: `failed: 1 new, 20 still there`, and the exit code that it stands for."""

    words: str
    exit_code: int


@dataclass(frozen=True)
class Heartbeat:
    """A sign of life of a process. `began` is the process's start, `updated` this sign's time (RFC 3339, UTC).

    `ended_by` is `budget` or another reason of the end, `error` the message of a failure. `answer` is that of a gate.
    `not_confirmed` is that of the summary, once there is one.
    """

    state: ProcessState
    machine: str
    pid: int
    began: str
    updated: str
    standing: CampaignProgress = field(default_factory=CampaignProgress)
    ended_by: str | None = None
    error: str | None = None
    answer: Answer | None = None
    not_confirmed: Mapping[str, NotConfirmed] = field(default_factory=dict)

    @property
    def updated_at(self) -> datetime:
        """Time of this sign.

        Raises:
            ValueError: `updated` is not a time with an offset from UTC.
        """
        moment = datetime.fromisoformat(self.updated)
        if moment.tzinfo is None:
            raise ValueError(f"{self.updated!s:.40} says nothing of its time zone")
        return moment
