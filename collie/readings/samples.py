"""The samples of agents as typed values. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from collie.counters.catalog import Catalog
from collie.counters.series import Snapshot, rates
from collie.plain import Codec, Shape, typed


@dataclass(frozen=True, slots=True)
class QpMessages:
    """Messages per queue pair of one end of a flow."""

    min: float
    mean: float
    max: float


@dataclass(frozen=True, slots=True)
class FlowTotals:
    """Totals of one end of a flow since preparation. None where this end cannot count.

    Attributes:
        delivered_bytes: payload that reached the flow's sink. Exactly one end counts it.
        returned_bytes: payload that came back to the requester of a flow with payload both ways.
        latencies, gaps: histograms (`readings.latency`) of the rounds that a requester timed, and of the times in which
            nothing completed although requests were outstanding.
        open_gap: such a time that has not ended, in nanoseconds.
        latency_clock: which clock ended the latencies, that of the device (`nic`) or of the host.
    """

    posted_messages: int | None
    delivered_bytes: int | None
    qp_messages: QpMessages
    failed_qps: int
    returned_bytes: int | None = None
    posted_bytes: int | None = None
    latencies: tuple[tuple[int, int], ...] | None = None
    gaps: tuple[tuple[int, int], ...] | None = None
    open_gap: int | None = None
    latency_clock: str | None = None


@dataclass(frozen=True, slots=True)
class EngineTotals:
    """Totals of the traffic generator since preparation.

    Attributes:
        iterations, idle_polls: polls of all completion queues, and those polls that found nothing.
        queue_empty: refills that found the send queue empty.
        errors: failed completions by status, without flushed ones.
        wait_seconds: time in which the generator was ready to run and had no CPU.
        queue_outstanding, queue_limit: rounds outstanding and rounds that fit, summed over all refills.
        new_mrs, new_qps, new_ahs: regions, queue pairs and address handles made and destroyed beside the traffic.
        qp_errors: errors of a queue pair beside the traffic, after each of which it was brought back to RTS.
        control_verb_errno: error of the control verb that failed and so was the last, 0 if none did.
    """

    iterations: int
    idle_polls: int
    queue_empty: int
    errors: Mapping[str, int]
    post_errors: int
    cpu_seconds: float | None = None
    wait_seconds: float | None = None
    data_path: str | None = None
    queue_outstanding: int = 0
    queue_limit: int = 0
    new_mrs: int = 0
    new_qps: int = 0
    new_ahs: int = 0
    qp_errors: int = 0
    control_verb_errno: int = 0


@dataclass(frozen=True, slots=True)
class HostCpu:
    """CPU seconds of a host since boot, 0 or empty when unknown.

    Attributes:
        device_cpu_seconds: CPU seconds of kernel threads in which a software device may work.
        softirq_thread_cpu_seconds: CPU seconds of the threads that handle the host's soft interrupts.
    """

    cpu_seconds: Mapping[str, float] = field(default_factory=dict)
    agent_cpu_seconds: float = 0.0
    device_cpu_seconds: float = 0.0
    softirq_thread_cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentSample:
    """One sample of one host.

    Attributes:
        clock: the host's monotonic clock at the middle of the reading.
        arrived: the controller's clock.
        flows: totals by `FLOW/ROLE`.
        counters: values by source, then by name. None for a counter that could not be read.
        dropped: samples that the agent could not send so far.
    """

    clock: float
    arrived: float = 0.0
    flows: Mapping[str, FlowTotals] = field(default_factory=dict)
    engine: EngineTotals | None = None
    counters: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    dropped: int = 0
    link: Mapping[str, str | int | None] = field(default_factory=dict)
    host: HostCpu = field(default_factory=HostCpu)


def snapshot(sample: AgentSample, catalog: Catalog) -> Snapshot:
    """Return a sample's values of a catalog's counters, if any."""
    values = {}
    for counter in catalog.counters:
        source, name = counter.key
        values[counter.name] = sample.counters.get(source, {}).get(name)
    return Snapshot(sample.clock, values)


def counter_rates(samples: Iterable[AgentSample], catalog: Catalog) -> dict[str, float | None]:
    """Return the rate of each counter over one host's samples."""
    return rates(catalog, [snapshot(sample, catalog) for sample in samples])


def names_in(samples: Iterable[AgentSample]) -> dict[str, set[str]]:
    """Return the names of counters in samples, by source."""
    names: dict[str, set[str]] = {}
    for sample in samples:
        for source, counters in sample.counters.items():
            names.setdefault(source, set()).update(counters)
    return names


def present(catalog: Catalog, names: Mapping[str, Collection[str]]) -> Catalog:
    """Return the counters of a catalog whose names a host has, even if their values are unknown."""
    found = tuple(counter for counter in catalog.counters if counter.key[1] in names.get(counter.key[0], ()))
    return replace(catalog, counters=found)


_MAX_CLOCK = 1e12
"""Seconds. Differences of larger clocks lose precision."""

_CODEC = Codec(
    {
        AgentSample: Shape(keys={"engine": "health", "dropped": "dropped_samples"}, is_open=True),
        **{kind: Shape(is_open=True) for kind in (FlowTotals, QpMessages, EngineTotals, HostCpu)},
    }
)


class _Reading(TypedDict):
    clock: float
    clock_end: float


def parse_sample(raw: Mapping[str, Any], arrived: float) -> AgentSample:
    """Read a sample event. Raises `ValueError` where it breaks the protocol."""
    reading: _Reading = typed(_Reading, raw)
    begin, end = reading["clock"], reading["clock_end"]
    for name, clock in (("clock", begin), ("clock_end", end)):
        if not 0 <= clock <= _MAX_CLOCK:
            raise ValueError(f"{name} is {clock:g} s, which no monotonic clock shows")
    sample: AgentSample = _CODEC.read(AgentSample, raw)
    return replace(sample, clock=begin / 2 + end / 2, arrived=arrived)
