"""What each flow of a workload asks of the resources of its two hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collie.simulator.caches import miss_ratio
from collie.simulator.costs import (
    CONTEXT,
    LOOPBACK,
    ORDERED_READS,
    ORDERED_WRITES,
    STEADY,
    TAGS,
    TRANSLATION,
    Costs,
    MessageCosts,
)
from collie.simulator.pattern import Pattern
from collie.simulator.subsystem import Cache, Subsystem
from collie.workloads.plan import HOST_A, Flow
from collie.workloads.workload import Memory, QpType, Workload

KINDS: Final = len(STEADY)
"""Resource k of host h has index h x KINDS + k."""


@dataclass(frozen=True, slots=True)
class WorkingSets:
    """What each host (a, b) keeps in use, and how often that misses.

    Attributes:
        context_misses, translation_misses: share of lookups.
        receive_wqes, send_wqes: posted.
    """

    context_misses: tuple[float, float]
    translation_misses: tuple[float, float]
    receive_wqes: tuple[int, int]
    send_wqes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class FlowDemand:
    """One flow, costed.

    Attributes:
        source, sink, requester, responder: hosts, 0 for a and 1 for b.
        is_loopback: stays inside one NIC.
        yields: takes only what other traffic leaves.
        limit: messages/s that its window, its queue pairs and each resource alone allow.
        steady: costs by host x KINDS + resource.
        receive: costs by resource of the sink.
        upstream_out, upstream_in: bytes of PCIe upstream per message at the source and at the sink.
        visit_wqes: WQEs served per context load.
    """

    source: int
    sink: int
    requester: int
    responder: int
    is_loopback: bool
    yields: bool
    limit: float
    steady: Costs
    receive: Costs
    upstream_out: float
    upstream_in: float
    visit_wqes: float


def working_sets(subsystem: Subsystem, workload: Workload, plan: Sequence[Flow]) -> WorkingSets:
    """Add up what the flows keep in use on each host."""
    ends, receivers, senders = [0, 0], [0, 0], [0, 0]
    for flow in plan:
        requester, responder = _index(flow.requester), _index(flow.responder)
        ends[requester] += 1
        ends[responder] += 1
        senders[requester] += 1
        receivers[responder] += 1
    qps = workload.qps
    pages = -(-max(workload.messages) // subsystem.translation_cache.page_bytes)
    contexts = [end * qps for end in ends]
    translations = [end * qps * workload.mrs_per_qp * pages for end in ends]
    receives = qps * workload.recv_wq_depth if workload.opcode.consumes_receive else 0
    sends = qps * workload.send_wq_depth
    return WorkingSets(
        context_misses=_misses(subsystem.context_cache, contexts),
        translation_misses=_misses(subsystem.translation_cache, translations),
        receive_wqes=(receivers[0] * receives, receivers[1] * receives),
        send_wqes=(senders[0] * sends, senders[1] * sends),
    )


def _misses(cache: Cache, used: Sequence[int]) -> tuple[float, float]:
    first = miss_ratio(used[0], cache.entries, cache.sharpness, cache.conflict_ratio)
    if used[1] == used[0]:
        return first, first
    return first, miss_ratio(used[1], cache.entries, cache.sharpness, cache.conflict_ratio)


def flow_demand(
    subsystem: Subsystem, workload: Workload, pattern: Pattern, costs: MessageCosts, sets: WorkingSets, flow: Flow
) -> FlowDemand:
    """Put the costs of a message on the hosts of one flow.

    Args:
        subsystem: the hardware of both hosts.
        workload: what runs.
        pattern: of its messages.
        costs: of one of them.
        sets: what all flows keep in use.
        flow: the flow.
    """
    source, sink = _index(flow.source), _index(flow.sink)
    responder = _index(flow.responder)
    is_loopback = source == sink
    first, last = source * KINDS, sink * KINDS
    steady = [(first + kind, cost) for kind, cost in costs.source]
    steady += [(last + kind, cost) for kind, cost in costs.sink]
    far = subsystem.pcie.read_latency_seconds + _extra_latency(subsystem, workload, source)
    steady.append((first + TAGS, far * costs.read_tag_share))
    if costs.context_load:
        where = responder * KINDS
        steady.append((where + CONTEXT, sets.context_misses[responder] * costs.context_load))
        steady.append((where + TRANSLATION, sets.translation_misses[responder] * costs.translation_load))
    receive = costs.receive
    if is_loopback:
        steady.append((first + LOOPBACK, costs.loopback))
    else:
        steady += [(first + kind, cost) for kind, cost in costs.network_source]
        steady += [(last + kind, cost) for kind, cost in costs.network_sink]
        if costs.ordered_read and workload.directions == 2:  # reads and writes share the ordered queue of a host
            steady.append((first + ORDERED_READS, costs.ordered_read))
            receive = (*receive, (ORDERED_WRITES, costs.ordered_write))
    alone = 1.0 / max(cost for _, cost in steady)
    window = costs.window / _trip_seconds(subsystem, workload, pattern, source, sink)
    return FlowDemand(
        source=source,
        sink=sink,
        requester=_index(flow.requester),
        responder=responder,
        is_loopback=is_loopback,
        yields=is_loopback and (subsystem.loopback.rate_limited or not pattern.streamed),
        limit=min(alone, window, costs.fetch_limit),
        steady=tuple(steady),
        receive=receive,
        upstream_out=costs.upstream_out,
        upstream_in=costs.upstream_in,
        visit_wqes=costs.visit_wqes,
    )


def _index(host: str) -> int:
    return 0 if host == HOST_A else 1


def _extra_latency(subsystem: Subsystem, workload: Workload, host: int) -> float:
    """What reaching the buffers of a host takes beyond memory next to the NIC."""
    node = workload.peer_numa_node if host else workload.numa_node
    kind = workload.peer_memory if host else workload.memory
    far = subsystem.memory.far_latency_seconds if node else 0.0
    return far + (subsystem.memory.gpu_latency_seconds if kind is Memory.GPU else 0.0)


def _trip_seconds(subsystem: Subsystem, workload: Workload, pattern: Pattern, source: int, sink: int) -> float:
    """How long a message is in flight at low load: until it is acknowledged, or for UC and UD until it has left."""
    acknowledged = workload.qp_type is QpType.RC
    trip = 0.0 if source == sink else subsystem.wire.round_trip_seconds * (1.0 if acknowledged else 0.5)
    trip += 2 * subsystem.pcie.read_latency_seconds + _extra_latency(subsystem, workload, source)
    if acknowledged:
        trip += _extra_latency(subsystem, workload, sink)
    return trip + pattern.payload_bytes * 8 / subsystem.wire.line_rate_bps
