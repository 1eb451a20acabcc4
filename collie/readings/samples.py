"""Samples as agents send them, as typed values. Unknown keys are ignored: a newer agent may say more. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from collie.counters.catalog import Catalog
from collie.counters.series import Snapshot
from collie.plain import typed


@dataclass(frozen=True, slots=True)
class FlowTotals:
    """One end of a flow, since the engine was prepared; None where this end cannot know.

    Attributes:
        posted_messages: work requests handed to the device; None at a responder.
        delivered_bytes: payload that reached the flow's sink; exactly one end of each flow knows.
        slowest_qp_messages, fastest_qp_messages: of the queue pairs of this end.
        failed_qps: queue pairs that ended with an error.
        returned_bytes: payload that besides came back to the requester of a flow with payload both ways.
        mean_qp_messages: of the queue pairs of this end.
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
    """The traffic generator itself, since it was prepared.

    Attributes:
        iterations: rounds over all completion queues.
        idle_polls: rounds that found nothing.
        queue_empty: times that a send queue was found empty when it was its turn to be filled.
        errors: completions with an error by status, flushes not included.
        post_errors: posts that the device refused.
        cpu_seconds: CPU time that it took; None when unknown.
        wait_seconds: for which it was ready to run and had no CPU; None when unknown.
        data_path: what drives traffic, `native` or `pyverbs`; None where the agent does not say.
        queue_outstanding, queue_limit: rounds that were outstanding, and that fit, summed over all times that a send
            queue was filled again.
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
    """One sample of one host.

    Attributes:
        clock: the host's monotonic clock at the middle of the reading.
        arrived: the controller's clock when the sample came.
        flows: by `FLOW/ROLE`.
        engine: None without a run.
        counters: by source, then by name; None for a counter that could not be read.
        dropped: samples that the agent could not deliver so far.
        link: what the port's link is, by the protocol's names; None for what is unknown. Empty without a run.
        host_cpu_seconds: what all CPUs together spent, by kind, since boot; empty when unknown.
        agent_cpu_seconds: what the agent itself took, the generator not included; 0 from an agent that does not say.
        device_cpu_seconds: what kernel threads took in which a software device may work; 0 where that is unknown.
        softirq_thread_cpu_seconds: what the threads took that handle soft interrupts for a software device, whichever
            kind the host counts that as; 0 where that is unknown.
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
    """Return the counters of a sample that a catalog knows; None for those that the sample lacks."""
    values = {}
    for counter in catalog.counters:
        source, name = counter.key
        values[counter.name] = sample.counters.get(source, {}).get(name)
    return Snapshot(sample.clock, values)


def names_in(samples: Sequence[AgentSample]) -> dict[str, set[str]]:
    """Return what some samples of one host hold, by source, as the driver spells it."""
    names: dict[str, set[str]] = {}
    for sample in samples:
        for source, counters in sample.counters.items():
            names.setdefault(source, set()).update(counters)
    return names


_LATEST_CLOCK = 1e12
"""Seconds that no host has been up for; beyond, differences of clocks lose what matters, and overflow in the end."""


def parse_sample(raw: Mapping[str, Any], arrived: float) -> AgentSample:
    """Read a sample event.

    Raises:
        ValueError: the agent speaks another protocol, or its clock is none.
    """
    said: _Sample = typed(_Sample, raw)
    for name in ("clock", "clock_end"):
        if not 0 <= said[name] <= _LATEST_CLOCK:
            raise ValueError(f"{name} is {said[name]:g} s, which no monotonic clock shows")
    health, host = said.get("health"), said.get("host", {})
    return AgentSample(
        clock=said["clock"] / 2 + said["clock_end"] / 2,
        arrived=arrived,
        flows={key: _flow(flow) for key, flow in said.get("flows", {}).items()},
        engine=_engine(health) if health else None,
        counters=said.get("counters", {}),
        dropped=said.get("dropped_samples", 0),
        link=said.get("link", {}),
        host_cpu_seconds=host.get("cpu_seconds", {}),
        agent_cpu_seconds=host.get("agent_cpu_seconds", 0.0),
        device_cpu_seconds=host.get("device_cpu_seconds", 0.0),
        softirq_thread_cpu_seconds=host.get("softirq_thread_cpu_seconds", 0.0),
    )


class _QpMessages(TypedDict):
    min: float
    mean: float
    max: float


class _FlowSaid(TypedDict):
    posted_messages: int | None
    delivered_bytes: int | None
    qp_messages: _QpMessages
    failed_qps: int


class _Flow(_FlowSaid, total=False):
    returned_bytes: int | None


class _HealthSaid(TypedDict):
    iterations: int
    idle_polls: int
    queue_empty: int
    errors: Mapping[str, int]
    post_errors: int


class _Health(_HealthSaid, total=False):
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


class _SampleSaid(TypedDict):
    clock: float
    clock_end: float


class _Sample(_SampleSaid, total=False):
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
