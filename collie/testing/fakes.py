"""Fakes: a testbed with planted anomalies, a manual clock, a sink that records events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.detect.bounds import Bound
from collie.detect.measurement import (
    GeneratorHealth,
    HostMeasurement,
    Latency,
    Measurement,
    Sample,
    Victim,
    Watch,
    replayed,
)
from collie.detect.symptom import Symptom
from collie.errors import TestbedError
from collie.inventory.fingerprint import Fingerprint
from collie.ports import ForeignUse, Measured, RunResult, SetupFailed, TestbedInfo, Unsupported
from collie.workloads.feature import Mfs
from collie.workloads.plan import flows, hosts, packets_per_byte, shares, sinks
from collie.workloads.pruning import Capabilities
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

FAKE_CATALOG = Catalog(
    "fake",
    (
        Counter("rx_packets", "model", Unit.PACKETS, CounterKind.PERFORMANCE, "wire", role=Role.RX_PACKETS),
        Counter("tx_pause", "model", Unit.MICROSECONDS, CounterKind.PAUSE, "wire", role=Role.TX_PAUSE),
        Counter("pressure", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "cache"),
        Counter("level", "model", Unit.PERCENT, CounterKind.INFO, "cache", gauge=True),
    ),
)


WINDOW_SECONDS = 4.0
USUAL_SECONDS = (1e-4, 2e-4, 3e-4)
"""Latency of a healthy offered load that half, 99 % and 99.9 % of the messages do not exceed."""


@dataclass(frozen=True, slots=True)
class Planted:
    """An anomaly of a fake testbed.

    Attributes:
        shows: share of the covered runs that show it.
        after: conditions of an earlier phase of the same set-up, without which it does not show.
    """

    mfs: Mfs
    symptom: Symptom = Symptom.PAUSE
    severity: float = 0.2
    shows: float = 1.0
    after: Mfs | None = None

    def covers(self, workload: Workload, before: Sequence[Workload]) -> bool:
        """Whether a workload is covered, after these phases on its set-up."""
        return self.mfs.covers(workload) and (self.after is None or any(map(self.after.covers, before)))


@dataclass
class FakeTestbed:
    """A `ports.Testbed` with planted anomalies, otherwise healthy and exactly at its bound.

    A run depends only on (seed, run number, workload, set-up). The diagnostic counter `pressure` rises with every
    satisfied condition of a planted set, so that a guided search can climb.

    Attributes:
        planted: its anomalies. A workload shows the first one that covers it.
        line_bps: payload bits/s of each receiving host.
        unsupported: returns why a workload cannot run, or None.
        noise: relative spread of all readings.
        pause_counters: False for a NIC without pause counters.
        others: foreign uses of the ports.
        victim: whether a plain flow runs beside every workload.
        victim_bps: payload bits/s that the plain flow offers. 0: it takes the line.
    """

    planted: Sequence[Planted] = ()
    line_bps: float = 100e9
    seed: int = 0
    setup_failure_ratio: float = 0.0
    unsupported: Callable[[Workload], str | None] = lambda _workload: None
    noise: float = 0.0
    run_seconds: float = 30.0
    phase_seconds: float = 5.0
    pause_counters: bool = True
    others: Sequence[ForeignUse] = ()
    victim: bool = False
    victim_bps: int = 0
    measured: list[Workload] = field(default_factory=list)
    closed: int = 0
    capabilities: Capabilities = field(default_factory=Capabilities)

    @property
    def runs(self) -> int:
        """Number of requested workloads."""
        return len(self.measured)

    @property
    def info(self) -> TestbedInfo:
        """The identity of this testbed."""
        fingerprints = {"fake": Fingerprint({"subsystem": {"line_bps": self.line_bps}})}
        return TestbedInfo("fake", "fake", FAKE_CATALOG, {"line_bps": self.line_bps}, True, fingerprints)

    def specification(self, workload: Workload) -> Bound:
        """Return the line rate, or the offered load of a port where that is lower."""
        bps = min(self.line_bps, float(workload.offered_bps * workload.partners) or self.line_bps)
        return Bound(bps, bps / 8 * packets_per_byte(workload), "specification")

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        """Return the planted result of the workload."""
        if self.closed:
            raise TestbedError("the fake testbed is closed")
        self.measured.append(workload)
        if reason := self.unsupported(workload):
            return Unsupported(reason, 1.0)
        rng = Random(f"{self.seed}/{run}")
        if rng.random() < self.setup_failure_ratio:
            return SetupFailed("qp timeout", f"run {run}: the queue pairs did not connect", self.run_seconds / 3)
        observed = next((plant for plant in self.planted if plant.covers(workload, on.before if on else ())), None)
        if observed is not None and rng.random() >= observed.shows:
            observed = None
        seconds = self.phase_seconds if on is not None and on.before else self.run_seconds
        measured = replayed(self._measurement(workload, observed, rng), watch)
        fits = on is not None and on.misfit(workload) is None
        return Measured(measured, seconds, stands=fits and not measured.stopped)

    def foreign_uses(self) -> tuple[ForeignUse, ...]:
        """Return `others`."""
        return tuple(self.others)

    def close(self) -> Mapping[str, int | None]:
        """Count the call. A later run is an error."""
        self.closed += 1
        return {}

    def _measurement(self, workload: Workload, observed: Planted | None, rng: Random) -> Measurement:
        measured_hosts = tuple(self._host(name, workload, observed, rng) for name in hosts(workload))
        symptom = observed.symptom if observed else None
        unfairness = observed.severity if observed and symptom is Symptom.UNFAIRNESS else 0.0
        health = GeneratorHealth(
            idle_poll_ratio=0.5,
            empty_queue_ratio=0.0,
            completion_errors={"remote operation error": 7} if symptom is Symptom.COMPLETION_ERRORS else {},
            qp_rate_ratio=1.0 if workload.qps > 1 else None,
            slowest_qp_share=1.0 - unfairness if workload.qps > 1 else None,
        )
        series = tuple(
            Sample(
                float(second),
                host.host,
                {"delivered_bps": host.delivered_bps, "tx_pause_ratio": host.tx_pause_ratio, **host.counters},
            )
            for second in range(1, 6)
            for host in measured_hosts
        )
        wrong_bytes = 4096 if symptom is Symptom.WRONG_PAYLOAD else 0
        return Measurement(
            measured_hosts,
            window_seconds=WINDOW_SECONDS,
            health=health,
            series=series,
            wrong_bytes=wrong_bytes,
            latency=self._latency(workload, observed, rng),
            victim=self._victim(observed, rng) if self.victim else None,
        )

    def _latency(self, workload: Workload, observed: Planted | None, rng: Random) -> Mapping[str, Latency]:
        """Return the latency of each flow at an offered load, and in a stall."""
        symptom, severity = (observed.symptom, observed.severity) if observed else (None, 0.0)
        if not workload.offered_bps and symptom is not Symptom.STALL:
            return {}
        slower = self._jitter(rng) / (1.0 - severity if symptom is Symptom.LATENCY else 1.0)
        stall = WINDOW_SECONDS * severity if symptom is Symptom.STALL else 0.001
        median, p99, p999 = (slower * usual for usual in USUAL_SECONDS)
        return {flow.name: Latency(median, p99, p999, stall_seconds=stall) for flow in flows(workload)}

    def _victim(self, observed: Planted | None, rng: Random) -> Victim:
        lost = observed.severity if observed and observed.symptom is Symptom.VICTIM_LOSS else 0.0
        alone = float(self.victim_bps) or self.line_bps
        late = observed.severity if observed and observed.symptom is Symptom.VICTIM_LATENCY else 0.0
        jitter = self._jitter(rng)
        median, p99, p999 = (jitter * usual / (1.0 - late) for usual in USUAL_SECONDS)
        return Victim(alone, alone * (1.0 - lost) * jitter, self.victim_bps, Latency(median, p99, p999))

    def _host(self, name: str, workload: Workload, observed: Planted | None, rng: Random) -> HostMeasurement:
        receives = name in sinks(workload)
        symptom = observed.symptom if observed and receives else None
        severity = observed.severity if observed and receives else 0.0
        bound = self.specification(workload).share(shares(workload)[name] if receives else 0.0)
        achieved = (1.0 - severity if symptom is Symptom.LOW_THROUGHPUT else 1.0) * self._jitter(rng)
        pause = severity if symptom is Symptom.PAUSE else 0.0
        packets = bound.pps * achieved if receives else 0.0
        return HostMeasurement(
            host=name,
            delivered_bps=bound.bps * achieved if receives else None,
            delivered_pps=packets if receives else None,
            tx_pause_ratio=pause if self.pause_counters else None,
            rx_pause_ratio=0.0 if self.pause_counters else None,
            loss_ratio=severity if symptom is Symptom.LOSS else 0.0,
            rnr_ratio=severity if symptom is Symptom.RNR_STORM else 0.0,
            repeat_ratio=severity if symptom is Symptom.RETRANSMISSION else 0.0,
            counters={
                "rx_packets": packets,
                "tx_pause": pause * 1e6 if self.pause_counters else None,
                "pressure": self._pressure(workload) * self._jitter(rng),
                "level": 50.0 * self._jitter(rng),
            },
        )

    def _pressure(self, workload: Workload) -> float:
        return 100.0 + sum(
            1000.0 * sum(condition.holds(workload) for condition in plant.mfs.conditions) / len(plant.mfs.conditions)
            for plant in self.planted
            if plant.mfs.conditions
        )

    def _jitter(self, rng: Random) -> float:
        return max(0.0, rng.gauss(1.0, self.noise)) if self.noise else 1.0


@dataclass
class FakeClock:
    """A `ports.Clock` that moves only on request or by `sleep`."""

    seconds: float = 0.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        """Seconds since the creation of the clock."""
        return self.seconds

    def sleep(self, seconds: float, until: threading.Event | None = None) -> None:
        """Advance the clock, unless the event is set."""
        if until is not None and until.is_set():
            return
        self.slept.append(seconds)
        self.seconds += seconds


@dataclass
class ListSink:
    """A `ports.ProgressSink` that records every event."""

    events: list[Any] = field(default_factory=list)

    def on_event(self, event: Any) -> None:
        """Record one event."""
        self.events.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the events of one class."""
        return [event for event in self.events if isinstance(event, kind)]
