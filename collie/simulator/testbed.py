"""`ports.Testbed` over the model: the measurement of a workload on a simulated subsystem."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import mul
from typing import Final, NamedTuple, overload

from collie.campaign.hardships import Hardships
from collie.counters.catalog import Catalog
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
from collie.errors import TestbedError
from collie.inventory.fingerprint import Fingerprint
from collie.ports import ForeignUse, Measured, RunResult, SetupFailed, TestbedInfo, Unsupported
from collie.simulator.capabilities import capabilities, unsupported_reason
from collie.simulator.cures import cured
from collie.simulator.hardships import absent, show_rates, troubled
from collie.simulator.hardware import Subsystem
from collie.simulator.latency import Distribution, latencies_between
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import SteadyState, evaluate, evaluate_between
from collie.simulator.nic import ControlVerbs, Delays, FlowTable
from collie.simulator.noise import RunNoise, draw_noise
from collie.simulator.readings import COUNTERS, FLEET_COUNTERS, PORT_COUNTERS, counters, counters_between
from collie.simulator.specification import specification
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.tenants import kept_beside, victim_beside
from collie.workloads.plan import HOST_A, HOST_B, flows
from collie.workloads.pruning import Capabilities, Restriction
from collie.workloads.setup import SetUp
from collie.workloads.workload import Direction, Workload

HOSTS: Final = (HOST_A, HOST_B)
WINDOW_SAMPLES: Final = 5
SAMPLE_SECONDS: Final = 1.0
_RAMP: Final = (0.3, 0.8, 1.0) + (1.0,) * WINDOW_SAMPLES
_START_PAUSE: Final = (1.0, 0.2) + (0.0,) * (len(_RAMP) - 2)
"""Share of `RunNoise.start_pause` in each sample. It ends before the window."""

PHASE_SECONDS: Final = len(_RAMP) * SAMPLE_SECONDS
"""Virtual time of each phase after the first of its set-up: start-up and window."""

_CURED_HOSTS: Final = 256
"""Limit on remembered hosts of flaky mechanisms."""

_Pair = tuple[float | None, float | None]
_Counters = Mapping[str, float | None]


def elapsed_seconds(workload: Workload) -> float:
    """Return the virtual time of a run: 20 to 60 s, longer with more queue pairs and regions (paper, section 4)."""
    qps = min(1.0, math.log(workload.qps) / math.log(20_000))
    regions = min(1.0, math.log(workload.qps * workload.mrs_per_qp) / math.log(200_000))
    return 20.0 + 20.0 * qps + 20.0 * regions


class SimulatedTestbed:
    """Two hosts with one subsystem each, joined by a network without congestion.

    A run's noise depends only on the seed and the run's number. `noise` is a factor on every spread and on the share of
    failed and unstable runs, and 0 disables it. `hardships` depend on seed and run number, too, and change no other
    draw. With a `peer` (host B), both hosts also have `FLEET_COUNTERS`. With `victim` a plain flow runs beside every
    workload, at a load of `victim_bps` unless that is 0.
    """

    def __init__(
        self,
        subsystem: SubsystemFile,
        catalog: Catalog,
        *,
        seed: int = 0,
        noise: float = 1.0,
        hardships: Hardships | None = None,
        peer: SubsystemFile | None = None,
        victim: bool = False,
        victim_bps: int = 0,
    ) -> None:
        self._subsystem = subsystem.hardware
        self._peer = None if peer is None else self._subsystem if peer is subsystem else peer.hardware
        self._settings = {name: setting.value for name, setting in subsystem.settings.items()}
        self._names = COUNTERS if peer is None else COUNTERS + FLEET_COUNTERS
        observed = set(self._names)
        self._catalog = replace(catalog, counters=tuple(each for each in catalog.counters if each.name in observed))
        self._seed = seed
        self._noise = noise
        self._hardships = hardships or Hardships()
        self._show_rates = show_rates(self._hardships.flaky)
        self._hosts_without = lru_cache(maxsize=_CURED_HOSTS)(self._cured_hosts)
        self._victim_bps = victim_bps
        self._victim_alone_bps = kept_beside(self._subsystem, None, None, victim_bps).bps if victim else None
        self._closed = False

    @cached_property
    def info(self) -> TestbedInfo:
        """The identity of this testbed."""
        subsystem = self._subsystem
        description = {
            "subsystem": subsystem.name,
            "title": subsystem.title,
            "noise": self._noise,
            **self._hardships.description(),
            **self._settings,
        }
        # An earlier Collie knew none of these parts. Where they limit nothing, its fingerprints name the same hardware.
        later = {"flow_table": FlowTable(), "delays": Delays(), "control_verbs": ControlVerbs()}
        unknown = {name for name, part in later.items() if getattr(subsystem, name) == part}
        hardware = hashlib.sha256(subsystem.model_dump_json(exclude=unknown).encode()).hexdigest()[:16]
        fingerprint = Fingerprint({"subsystem": {**description, "hardware": hardware}})
        return TestbedInfo(
            "simulated",
            subsystem.name,
            self._catalog,
            description,
            virtual_time=True,
            fingerprints={subsystem.name: fingerprint},
        )

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the subsystem and of its model."""
        able = capabilities(self._subsystem)
        if self._peer is None:
            return able
        mtu = min(self._subsystem.wire.maximum_mtu, self._peer.wire.maximum_mtu)
        return Capabilities((*able.restrictions, Restriction("mtu", f"the active MTU of a port is {mtu}", at_most=mtu)))

    def specification(self, workload: Workload) -> Bound:
        """Return the data sheet's bound."""
        return specification(self._subsystem, workload)

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        """Evaluate the model and add this run's noise.

        Raises:
            TestbedError: the testbed is closed.
        """
        if self._closed:
            raise TestbedError("the simulated testbed is closed")
        further = on is not None and bool(on.before)
        elapsed = PHASE_SECONDS if further else elapsed_seconds(on.made_for if on else workload)
        if reason := unsupported_reason(self._subsystem, workload):
            return Unsupported(reason, 1.0)
        noise = self._random_part(run)
        if noise and further:
            noise = replace(noise, failure=None, start_pause=[0.0 for _ in HOSTS])  # nothing is set up
        if noise and noise.failure:
            cause, detail = noise.failure
            return SetupFailed(cause, detail, elapsed / 2)
        hosts = self._hosts_without(absent(self._show_rates, self._seed, run))
        measured = replayed(self._measurement(hosts, workload, on, noise), watch)
        unused = len(_RAMP) * SAMPLE_SECONDS - measured.window_seconds if measured.stopped else 0.0
        return Measured(measured, elapsed - unused, stands=on is not None and not measured.stopped)

    def _random_part(self, run: int) -> RunNoise | None:
        hard = self._hardships.outliers is not None or self._hardships.drift > 0
        if self._noise == 0 and not hard:
            return None
        noise = draw_noise(self._seed, run, self._noise, len(self._names), len(_RAMP))
        return troubled(noise, self._hardships, self._seed, run) if hard else noise

    def _cured_hosts(self, mechanisms: frozenset[Mechanism]) -> tuple[Subsystem, Subsystem]:
        a = cured(self._subsystem, mechanisms)
        return a, a if self._peer is None or self._peer is self._subsystem else cured(self._peer, mechanisms)

    def _measurement(
        self, pair: tuple[Subsystem, Subsystem], workload: Workload, on: SetUp | None, noise: RunNoise | None
    ) -> Measurement:
        if self._peer is None:
            state = evaluate(pair[0], workload, on)
            readings = counters(pair[0], state)
        else:
            state = evaluate_between(*pair, workload, on)
            readings = counters_between(*pair, state)
        observed, (a, b) = _host_values(state), readings
        if noise is not None:
            observed = _with_noise(observed, noise)
            a, b = _noisy_counters(a, observed.pause, noise, 0), _noisy_counters(b, observed.pause, noise, 1)
        hosts = _hosts(observed, (dict(zip(self._names, a, strict=True)), dict(zip(self._names, b, strict=True))))
        return Measurement(
            hosts=hosts,
            window_seconds=WINDOW_SAMPLES * SAMPLE_SECONDS,
            stable=noise is None or noise.stable,
            health=_health(workload, noise),
            series=_Series(hosts, noise),
            latency=_Latencies(pair, workload, on, noise),
            victim=self._victim(pair[0], workload, on, noise),
        )

    def _victim(
        self, subsystem: Subsystem, workload: Workload, on: SetUp | None, noise: RunNoise | None
    ) -> Victim | None:
        if self._victim_alone_bps is None:
            return None
        kept, found = victim_beside(subsystem, workload, on, self._victim_bps)
        carried = 0 < self._victim_bps <= kept.bps * (1.0 + 1e-9)
        factor = 1.0 if noise is None or carried else noise.victim
        tails = noise.victim_latency if noise is not None and self._victim_bps else (1.0, 1.0, 1.0)
        latency = _reading(found, [tail / factor for tail in tails])
        return Victim(self._victim_alone_bps, kept.bps * factor, self._victim_bps, latency)

    def foreign_uses(self) -> tuple[ForeignUse, ...]:
        """Return nothing: simulated ports have no other users."""
        return ()

    def close(self) -> Mapping[str, int | None]:
        """Refuse further runs."""
        self._closed = True
        return {}


class _HostValues(NamedTuple):
    """Values of hosts a and b without counters. Pause is None where PFC is off: the verdict then uses the loss."""

    bps: _Pair
    pps: _Pair
    pause: _Pair
    loss: _Pair


def noiseless_latency(subsystem: Subsystem, workload: Workload, on: SetUp | None) -> Mapping[str, Latency]:
    """Return the noiseless latency of each flow at one point."""
    return _Latencies((subsystem, subsystem), workload, on, None)


def noiseless_hosts(state: SteadyState) -> tuple[HostMeasurement, HostMeasurement]:
    """Return the noiseless measurement of both hosts at one point, without counters."""
    return _hosts(_host_values(state), ({}, {}))


def _host_values(state: SteadyState) -> _HostValues:
    pause_a, pause_b = state.pause_ratio()
    pauses_a, pauses_b = state.pauses()
    pause = (pause_a if pauses_a else None, pause_b if pauses_b else None)
    (a, b), (a_bps, b_bps), (a_pps, b_pps) = state.receives(), state.delivered_bps(), state.delivered_pps()
    bps, pps = (a_bps if a else None, b_bps if b else None), (a_pps if a else None, b_pps if b else None)
    return _HostValues(bps, pps, pause, state.loss_ratio())


def _hosts(observed: _HostValues, readings: tuple[_Counters, _Counters]) -> tuple[HostMeasurement, HostMeasurement]:
    (a_bps, b_bps), (a_pps, b_pps), (a_pause, b_pause), (a_loss, b_loss) = observed
    return (
        HostMeasurement(HOST_A, a_bps, a_pps, a_pause, b_pause, a_loss, readings[0]),
        HostMeasurement(HOST_B, b_bps, b_pps, b_pause, a_pause, b_loss, readings[1]),
    )


def _with_noise(observed: _HostValues, noise: RunNoise) -> _HostValues:
    (a_pause, b_pause), (a_spurious, b_spurious) = _scaled(observed.pause, noise.pause), noise.spurious_pause
    return _HostValues(
        _scaled(observed.bps, noise.throughput),
        _scaled(observed.pps, noise.throughput),
        (
            None if a_pause is None else min(1.0, a_pause + a_spurious),
            None if b_pause is None else min(1.0, b_pause + b_spurious),
        ),
        observed.loss,
    )


def _scaled(pair: _Pair, factors: Sequence[float]) -> _Pair:
    a, b = pair
    return None if a is None else a * factors[0], None if b is None else b * factors[1]


def _noisy_counters(values: Sequence[float], pause: _Pair, noise: RunNoise, host: int) -> list[float]:
    # A receiver's throughput is its peer's transmission, and one host's sent pause is the other's received pause.
    received, sent = noise.throughput[host], noise.throughput[1 - host]
    port = [
        *map(mul, values, (sent, received, sent, received)),
        _microseconds(pause[host]),
        _microseconds(pause[1 - host]),
    ]
    return port + list(map(mul, values[PORT_COUNTERS:], noise.counters[host]))


def _microseconds(ratio: float | None) -> float:
    return 1e6 * (ratio or 0.0)


class _Latencies(Mapping[str, Latency]):
    """Latency by flow, with the noise of its receiver's throughput.

    Computed on access, because a map of ten thousand points needs no latency.
    """

    def __init__(
        self, hosts: tuple[Subsystem, Subsystem], workload: Workload, on: SetUp | None, noise: RunNoise | None
    ) -> None:
        self._hosts = hosts
        self._workload = workload
        self._on = on
        self._noise = noise

    @cached_property
    def _by_flow(self) -> Mapping[str, Latency]:
        a, b = self._hosts
        found = latencies_between(a, b, evaluate_between(a, b, self._workload, self._on))
        both_ways, loops = self._workload.direction is Direction.BIDIRECTIONAL, self._workload.loopback
        present = (found.forth, *([found.back] if both_ways else []), *([found.loop] if loops else []))
        by_flow = {}
        for flow, latency in zip(flows(self._workload), present, strict=True):
            if latency is None:
                by_flow[flow.name] = Latency()
                continue
            factors = (1.0, 1.0, 1.0)
            if self._noise is not None:
                slower = 1.0 / self._noise.throughput[HOSTS.index(flow.sink)]
                tails = self._noise.latency if self._workload.offered_bps else factors
                factors = (slower * tails[0], slower * tails[1], slower * tails[2])
            by_flow[flow.name] = _reading(latency.completion, factors)
        return by_flow

    def __getitem__(self, flow: str) -> Latency:
        return self._by_flow[flow]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_flow)

    def __len__(self) -> int:
        return len(self._by_flow)


def _reading(quantiles: Distribution, factors: Sequence[float]) -> Latency:
    """Return quantiles with noise, still in order. What waits for longer than the window has no reading."""
    noisy = accumulate((each * factor for each, factor in zip(quantiles, factors, strict=True)), max)
    return Latency(*(each if each <= WINDOW_SAMPLES * SAMPLE_SECONDS else None for each in noisy))


class _Series(Sequence[Sample]):
    """One sample per second and host: a ramp, then samples around the steady values.

    Built on access, because a campaign needs the samples but a map of ten thousand points does not.
    """

    def __init__(self, hosts: tuple[HostMeasurement, ...], noise: RunNoise | None) -> None:
        self._hosts = hosts
        self._noise = noise

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        series = [_host_series(host, self._noise, index) for index, host in enumerate(self._hosts)]
        return tuple(sample for pair in zip(*series, strict=True) for sample in pair)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        return self._samples[index]

    def __len__(self) -> int:
        return len(HOSTS) * len(_RAMP)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._samples == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # like a list, it compares by value and has no hash


def _host_series(measured: HostMeasurement, noise: RunNoise | None, host: int) -> list[Sample]:
    pause, delivered = measured.tx_pause_ratio, measured.delivered_bps
    values = [value or 0.0 for value in measured.counters.values()]
    around = None if noise is None else noise.samples[host]
    samples = []
    for index, ramp in enumerate(_RAMP):
        factor = ramp if around is None else ramp * around[index]
        readings: dict[str, float | None] = dict(
            zip(measured.counters, [value * factor for value in values], strict=True)
        )
        readings["delivered_bps"] = None if delivered is None else delivered * factor
        readings["tx_pause_ratio"] = None
        if pause is not None:
            starting = 0.0 if noise is None else noise.start_pause[host] * _START_PAUSE[index]
            ratio = min(1.0, pause * factor + starting)
            readings["tx_pause_ratio"] = ratio
            readings["tx_pause_duration"] = 1e6 * ratio
        samples.append(Sample((index + 1) * SAMPLE_SECONDS, measured.host, readings))
    return samples


def _health(workload: Workload, noise: RunNoise | None) -> GeneratorHealth:
    even = 1.0 if noise is None else min(1.0, 0.98 * noise.throughput[0])
    return GeneratorHealth(idle_poll_ratio=0.5, empty_queue_ratio=0.0, qp_rate_ratio=even if workload.qps > 1 else None)
