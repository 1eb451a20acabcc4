"""The samples of agents as typed values. Unknown keys are ignored: a newer agent may send more. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from collie.counters.catalog import Catalog
from collie.counters.series import Snapshot
from collie.plain import typed


@dataclass(frozen=True, slots=True)
class FlowTotals:
    """Totals of one end of a flow since preparation. None where this end cannot count.

    Attributes:
        posted_messages: None at a responder.
        delivered_bytes: payload that reached the flow's sink. Exactly one end counts it.
        failed_qps: queue pairs that ended with an error.
        returned_bytes: payload that came back to the requester of a flow with payload both ways.
    """

    posted_messages: int | None
    delivered_bytes: int | None
    slowest_qp_messages: int
    fastest_qp_messages: int
    failed_qps: int
    returned_bytes: int | None = None
    mean_qp_messages: float | None = None


@dataclass(frozen=True, slots=True)
class EngineTotals:
    """Totals of the traffic generator since preparation.

    Attributes:
        iterations: rounds over all completion queues.
        idle_polls: rounds that found nothing.
        queue_empty: refills that found the send queue empty.
        errors: failed completions by status, without flushes.
        post_errors: posts that the device refused.
        wait_seconds: time ready to run without a CPU.
        data_path: `native` or `pyverbs`.
        queue_outstanding, queue_limit: rounds outstanding and rounds that fit, summed over all refills.
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


@dataclass(frozen=True, slots=True)
class AgentSample:
    """One sample of one host. CPU times are in seconds, 0 or empty when unknown.

    Attributes:
        clock: the host's monotonic clock at the middle of the reading.
        arrived: the controller's clock on arrival.
        flows: by `FLOW/ROLE`.
        engine: None without a run.
        counters: by source, then by name. None where one could not be read.
        dropped: samples that the agent could not send so far.
        link: state of the port's link by the protocol's names. Empty without a run.
        host_cpu_seconds: of all CPUs by kind, since boot.
        agent_cpu_seconds: of the agent without the generator.
        device_cpu_seconds: of kernel threads in which a software device may work.
        softirq_thread_cpu_seconds: of threads that handle a software device's soft interrupts.
    """

    clock: float
    arrived: float
    flows: Mapping[str, FlowTotals]
    engine: EngineTotals | None
    counters: Mapping[str, Mapping[str, int | None]]
    dropped: int
    link: Mapping[str, str | int | None] = field(default_factory=dict)
    host_cpu_seconds: Mapping[str, float] = field(default_factory=dict)
    agent_cpu_seconds: float = 0.0
    device_cpu_seconds: float = 0.0
    softirq_thread_cpu_seconds: float = 0.0


def snapshot(sample: AgentSample, catalog: Catalog) -> Snapshot:
    """Return a sample's values of the catalog's counters. None for those that it lacks."""
    values = {}
    for counter in catalog.counters:
        source, name = counter.key
        values[counter.name] = sample.counters.get(source, {}).get(name)
    return Snapshot(sample.clock, values)


def names_in(samples: Sequence[AgentSample]) -> dict[str, set[str]]:
    """Return the counter names in one host's samples, by source."""
    names: dict[str, set[str]] = {}
    for sample in samples:
        for source, counters in sample.counters.items():
            names.setdefault(source, set()).update(counters)
    return names


_LATEST_CLOCK = 1e12
"""Longer than any host is up. Beyond, differences of clocks lose precision."""


def parse_sample(raw: Mapping[str, Any], arrived: float) -> AgentSample:
    """Read a sample event.

    Raises:
        ValueError: it breaks the protocol, or its clock is impossible.
    """
    fields: _Sample = typed(_Sample, raw)
    for name in ("clock", "clock_end"):
        if not 0 <= fields[name] <= _LATEST_CLOCK:
            raise ValueError(f"{name} is {fields[name]:g} s, which no monotonic clock shows")
    health, host = fields.get("health"), fields.get("host", {})
    return AgentSample(
        clock=fields["clock"] / 2 + fields["clock_end"] / 2,
        arrived=arrived,
        flows={key: _flow(flow) for key, flow in fields.get("flows", {}).items()},
        engine=_engine(health) if health else None,
        counters=fields.get("counters", {}),
        dropped=fields.get("dropped_samples", 0),
        link=fields.get("link", {}),
        host_cpu_seconds=host.get("cpu_seconds", {}),
        agent_cpu_seconds=host.get("agent_cpu_seconds", 0.0),
        device_cpu_seconds=host.get("device_cpu_seconds", 0.0),
        softirq_thread_cpu_seconds=host.get("softirq_thread_cpu_seconds", 0.0),
    )


class _QpMessages(TypedDict):
    min: float
    mean: float
    max: float


class _FlowRequired(TypedDict):
    posted_messages: int | None
    delivered_bytes: int | None
    qp_messages: _QpMessages
    failed_qps: int


class _Flow(_FlowRequired, total=False):
    returned_bytes: int | None


class _HealthRequired(TypedDict):
    iterations: int
    idle_polls: int
    queue_empty: int
    errors: Mapping[str, int]
    post_errors: int


class _Health(_HealthRequired, total=False):
    cpu_seconds: float | None
    wait_seconds: float | None
    data_path: str | None
    queue_outstanding: int
    queue_limit: int


class _Host(TypedDict, total=False):
    cpu_seconds: Mapping[str, float]
    agent_cpu_seconds: float
    device_cpu_seconds: float
    softirq_thread_cpu_seconds: float


class _SampleRequired(TypedDict):
    clock: float
    clock_end: float


class _Sample(_SampleRequired, total=False):
    flows: Mapping[str, _Flow]
    health: _Health | None
    counters: Mapping[str, Mapping[str, int | None]]
    dropped_samples: int
    link: Mapping[str, str | int | None]
    host: _Host


def _flow(raw: _Flow) -> FlowTotals:
    return FlowTotals(
        posted_messages=raw["posted_messages"],
        delivered_bytes=raw["delivered_bytes"],
        returned_bytes=raw.get("returned_bytes"),
        slowest_qp_messages=int(raw["qp_messages"]["min"]),
        fastest_qp_messages=int(raw["qp_messages"]["max"]),
        failed_qps=raw["failed_qps"],
        mean_qp_messages=raw["qp_messages"]["mean"],
    )


def _engine(raw: _Health) -> EngineTotals:
    return EngineTotals(**raw)
