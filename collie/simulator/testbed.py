"""`ports.Testbed` over the model: what a run of a workload on a simulated subsystem looks like from outside."""

from __future__ import annotations

import math
from operator import mul
from typing import Final

from collie.counters.catalog import Catalog
from collie.detect.bounds import Bound
from collie.detect.measurement import GeneratorHealth, HostMeasurement, Measurement, Sample
from collie.errors import TestbedError
from collie.ports import Measured, RunResult, SetupFailed, TestbedInfo, Unsupported
from collie.simulator.model import State, evaluate
from collie.simulator.noise import Chance, chance
from collie.simulator.readings import COUNTERS, counters
from collie.simulator.specification import specification
from collie.simulator.subsystem import Subsystem
from collie.workloads.plan import HOST_A, HOST_B
from collie.workloads.workload import Memory, Workload

HOSTS: Final = (HOST_A, HOST_B)
WINDOW_SAMPLES: Final = 5
SAMPLE_SECONDS: Final = 1.0
_RAMP: Final = (0.3, 0.8, 1.0) + (1.0,) * WINDOW_SAMPLES
"""Share of the steady rate in each sample."""
_START_PAUSE: Final = (1.0, 0.2) + (0.0,) * (len(_RAMP) - 2)
"""Share of `Chance.start_pause` in each sample; gone before the window."""
_PORT_COUNTERS: Final = 6
"""So many leading counters follow throughput and pause instead of having noise of their own."""


def elapsed_seconds(workload: Workload) -> float:
    """Virtual time of a run: 20 to 60 s, by queue pairs and memory regions to set up (paper, section 4)."""
    qps = min(1.0, math.log(workload.qps) / math.log(20_000))
    regions = min(1.0, math.log(workload.qps * workload.mrs_per_qp) / math.log(200_000))
    return 20.0 + 20.0 * qps + 20.0 * regions


class SimulatedTestbed:
    """Two hosts with one subsystem each, joined by a network that is never congested.

    Args:
        subsystem: the hardware.
        catalog: describes the counters (`counters/simulated/catalog.yaml`).
        seed: of the noise; a run's noise depends on it and on the run's number alone.
        noise: factor on every spread and on the share of failed and unstable runs; 0 switches all of it off.
    """

    def __init__(self, subsystem: Subsystem, catalog: Catalog, *, seed: int = 0, noise: float = 1.0) -> None:
        self._subsystem = subsystem
        self._catalog = catalog
        self._seed = seed
        self._noise = noise
        self._closed = False

    @property
    def info(self) -> TestbedInfo:
        """What this testbed is."""
        subsystem = self._subsystem
        description = {
            "subsystem": subsystem.name,
            "title": subsystem.title,
            "noise": self._noise,
            **subsystem.settings.model_dump(mode="json"),
        }
        return TestbedInfo("simulated", subsystem.name, self._catalog, description, virtual_time=True)

    def specification(self, workload: Workload) -> Bound:
        """Return what the data sheet promises."""
        return specification(self._subsystem, workload)

    def measure(self, workload: Workload, run: int) -> RunResult:
        """Evaluate the model and add what chance does to this run.

        Raises:
            TestbedError: the testbed is closed.
        """
        if self._closed:
            raise TestbedError("the simulated testbed is closed")
        elapsed = elapsed_seconds(workload)
        if reason := self._unsupported(workload):
            return Unsupported(reason, 1.0)
        luck = chance(self._seed, run, self._noise, len(COUNTERS), len(_RAMP)) if self._noise > 0 else None
        if luck and luck.failure:
            cause, detail = luck.failure
            return SetupFailed(cause, f"run {run}: {detail}", elapsed / 2)
        return Measured(_measurement(self._subsystem, workload, luck), elapsed)

    def close(self) -> None:
        """Refuse further runs."""
        self._closed = True

    def _unsupported(self, workload: Workload) -> str | None:
        host = self._subsystem.host
        if not host.gpu and Memory.GPU in (workload.memory, workload.peer_memory):
            return f"subsystem {self._subsystem.name} has no GPU"
        node = max(workload.numa_node, workload.peer_numa_node)
        if node >= host.sockets:
            return f"subsystem {self._subsystem.name} has no NUMA node {node}; it has {host.sockets}"
        return None


def _measurement(subsystem: Subsystem, workload: Workload, luck: Chance | None) -> Measurement:
    state = evaluate(subsystem, workload)
    pauses = [_pause(state, luck, host) for host in (0, 1)]
    hosts, series = [], []
    for host in (0, 1):
        measured = _host(subsystem, workload, state, luck, host, pauses)
        hosts.append(measured)
        series.append(_series(measured, luck, host))
    return Measurement(
        hosts=tuple(hosts),
        window_seconds=WINDOW_SAMPLES * SAMPLE_SECONDS,
        stable=luck is None or luck.stable,
        health=_health(workload, luck),
        series=tuple(sample for pair in zip(*series, strict=True) for sample in pair),
    )


def _pause(state: State, luck: Chance | None, host: int) -> float:
    ratio = state.pause_ratio(host)
    if luck is None:
        return ratio
    return min(1.0, ratio * luck.pause[host] + (luck.stray[host] if state.lossless else 0.0))


def _host(
    subsystem: Subsystem,
    workload: Workload,
    state: State,
    luck: Chance | None,
    host: int,
    pauses: list[float],
) -> HostMeasurement:
    values = counters(subsystem, workload, state, host)
    factor = 1.0
    if luck is not None:
        factor = luck.throughput[host]
        # A receiver's throughput is its peer's transmission.
        ways = (luck.throughput[1 - host], factor, luck.throughput[1 - host], factor)
        spread = (*ways, 1.0, 1.0, *luck.counters[host][_PORT_COUNTERS:])
        values = tuple(map(mul, values, spread))
    readings: dict[str, float | None] = dict(zip(COUNTERS, values, strict=True))
    readings["tx_pause_duration"] = 1e6 * pauses[host]
    readings["rx_pause_duration"] = 1e6 * pauses[1 - host]
    return HostMeasurement(
        host=HOSTS[host],
        delivered_bps=state.delivered_bps(host) * factor if state.receives(host) else None,
        delivered_pps=state.delivered_pps(host) * factor if state.receives(host) else None,
        tx_pause_ratio=pauses[host],
        rx_pause_ratio=pauses[1 - host],
        loss_ratio=state.loss_ratio(host),
        counters=readings,
    )


def _series(measured: HostMeasurement, luck: Chance | None, host: int) -> list[Sample]:
    """Return one sample per second: ramping up at first, then around the steady values."""
    pause, delivered = measured.tx_pause_ratio or 0.0, measured.delivered_bps
    values = [value or 0.0 for value in measured.counters.values()]
    samples = []
    for index, ramp in enumerate(_RAMP):
        factor = ramp if luck is None else ramp * luck.samples[host][index]
        starting = 0.0 if luck is None else luck.start_pause[host] * _START_PAUSE[index]
        ratio = min(1.0, pause * factor + starting)
        readings: dict[str, float | None] = dict(zip(COUNTERS, [value * factor for value in values], strict=True))
        readings["delivered_bps"] = None if delivered is None else delivered * factor
        readings["tx_pause_ratio"] = ratio
        readings["tx_pause_duration"] = 1e6 * ratio
        samples.append(Sample((index + 1) * SAMPLE_SECONDS, measured.host, readings))
    return samples


def _health(workload: Workload, luck: Chance | None) -> GeneratorHealth:
    even = 1.0 if luck is None else min(1.0, 0.98 * luck.samples[0][0])
    return GeneratorHealth(idle_poll_ratio=0.5, empty_queue_ratio=0.0, qp_rate_ratio=even if workload.qps > 1 else None)
