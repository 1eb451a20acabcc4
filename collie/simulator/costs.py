"""What one message costs each side of a flow, whoever the sides are.

A cost is the time for which one message occupies a resource; messages/s times cost is the resource's utilisation.
`STEADY` resources hold the sender back when they are busy. `RECEIVE` resources meet what has already arrived: when they
are slower than the arrivals, the receive buffer fills.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collie.simulator.caches import overrun
from collie.simulator.pattern import Pattern
from collie.simulator.pcie import COMPLETION_HEADER_BYTES, READ_HEADER_BYTES, WRITE_HEADER_BYTES
from collie.simulator.subsystem import Subsystem
from collie.simulator.wire import ACK_BYTES, READ_REQUEST_BYTES
from collie.workloads.workload import Opcode, QpType, Workload

STEADY: Final = (
    "doorbells",
    "transmit engine",
    "PCIe downstream",
    "PCIe read tags",
    "wire",
    "context cache",
    "translation cache",
    "ordered reads",
    "memory",
    "loopback path",
)
"""Resources of one host that hold senders back; the names below are their indices."""
DOORBELLS, TRANSMIT, DOWNSTREAM, TAGS, EGRESS = range(5)
CONTEXT, TRANSLATION, ORDERED_READS, MEMORY, LOOPBACK = range(5, len(STEADY))

RECEIVE: Final = ("receive engine", "receive WQE fetch", "ordered writes")
"""Resources of one host that arrivals meet, besides PCIe upstream."""
ENGINE, WQE_FETCH, ORDERED_WRITES = range(len(RECEIVE))

CQE_BYTES: Final = 64 + WRITE_HEADER_BYTES
_ANSWERED_IN_ORDER: Final = frozenset({Opcode.WRITE, Opcode.WRITE_WITH_IMM})

Costs = tuple[tuple[int, float], ...]
"""(index of the resource, cost)."""


@dataclass(frozen=True, slots=True)
class MessageCosts:
    """Costs of one message, on average over the request vector.

    Attributes:
        source, sink: on STEADY resources of the host that the payload leaves and of the one that it reaches.
        network_source, network_sink: in addition, on a flow over the network.
        loopback: on the loopback path, on a flow that stays in one host.
        read_tag_share: tags that one second of read latency at the source occupies.
        context_load: of a context that is missed by the responder, where that blocks; else 0.
        translation_load: the same of a translation.
        receive: on RECEIVE resources of the sink.
        ordered_read, ordered_write: through strictly ordered PCIe at the source and at the sink; 0 when nothing waits.
        upstream_out, upstream_in: bytes of PCIe upstream at the source and at the sink.
        window: messages that all queue pairs may have in flight.
        fetch_limit: messages/s for which the queue pairs can fetch WQEs.
        visit_wqes: WQEs served per context load.
    """

    source: Costs
    sink: Costs
    network_source: Costs
    network_sink: Costs
    loopback: float
    read_tag_share: float
    context_load: float
    translation_load: float
    receive: Costs
    ordered_read: float
    ordered_write: float
    upstream_out: float
    upstream_in: float
    window: float
    fetch_limit: float
    visit_wqes: float


def message_costs(subsystem: Subsystem, workload: Workload, pattern: Pattern) -> MessageCosts:
    """Cost one message of a workload."""
    fetches = _wqe_fetches(subsystem, workload, pattern.send_wqe_bytes)
    received = workload.opcode.consumes_receive
    receive_fetches = _wqe_fetches(subsystem, workload, pattern.receive_wqe_bytes) if received else 0.0
    visit_wqes = max(workload.wqe_batch, workload.send_wq_depth / subsystem.engine.visits_per_send_queue, 1.0)
    source, sink = _steady(subsystem, workload, pattern, fetches, receive_fetches)
    network_source, network_sink = _network(subsystem, workload, pattern)
    context_load, translation_load = _blocking(subsystem, workload, visit_wqes)
    ordered_read, ordered_write = _ordered(subsystem, pattern)
    upstream_out, upstream_in = _upstream(subsystem, workload, pattern, fetches, receive_fetches)
    at_once = workload.qps * subsystem.engine.wqe_fetches_per_qp
    return MessageCosts(
        source=source,
        sink=sink,
        network_source=network_source,
        network_sink=network_sink,
        loopback=pattern.payload_bytes * 8 / subsystem.loopback.rate_bps,
        read_tag_share=pattern.gather_requests / subsystem.pcie.read_tags,
        context_load=context_load,
        translation_load=translation_load,
        receive=_receive(subsystem, workload, pattern),
        ordered_read=ordered_read,
        ordered_write=ordered_write,
        upstream_out=upstream_out,
        upstream_in=upstream_in,
        window=workload.qps * _in_flight(workload),
        fetch_limit=at_once / (fetches * subsystem.pcie.read_latency_seconds),
        visit_wqes=visit_wqes,
    )


def _wqe_fetches(subsystem: Subsystem, workload: Workload, wqe_bytes: int) -> float:
    """PCIe reads for WQEs per message: one read brings several WQEs of one post."""
    return 1.0 / min(workload.wqe_batch, max(1, subsystem.engine.wqe_fetch_bytes // wqe_bytes))


def _in_flight(workload: Workload) -> int:
    if workload.opcode is not Opcode.READ:
        return workload.send_wq_depth
    return min(workload.send_wq_depth, workload.max_rd_atomic, workload.max_dest_rd_atomic)


def _steady(
    subsystem: Subsystem, workload: Workload, pattern: Pattern, fetches: float, receive_fetches: float
) -> tuple[Costs, Costs]:
    engine, pcie = subsystem.engine, subsystem.pcie
    made = engine.read_responder_slow_packets_per_second if pattern.slow else engine.packets_per_second
    memory = (MEMORY, pattern.payload_bytes * 8 / subsystem.memory.bandwidth_bps)
    doorbells = (DOORBELLS, 1.0 / (workload.wqe_batch * engine.doorbells_per_second))
    transmit = (TRANSMIT, pattern.packets / made)
    asked = pattern.send_wqe_bytes + COMPLETION_HEADER_BYTES * fetches
    waits = fetches * pcie.read_latency_seconds / pcie.read_tags
    if workload.opcode is Opcode.READ:
        answered: Costs = (transmit, memory, (DOWNSTREAM, pattern.gather_bytes / pcie.bytes_per_second))
        return answered, (doorbells, memory, (DOWNSTREAM, asked / pcie.bytes_per_second), (TAGS, waits))
    downstream = (DOWNSTREAM, (pattern.gather_bytes + asked) / pcie.bytes_per_second)
    source: Costs = (transmit, memory, downstream, doorbells, (TAGS, waits))
    if not receive_fetches:
        return source, (memory,)
    read = pattern.receive_wqe_bytes + COMPLETION_HEADER_BYTES * receive_fetches
    return source, (memory, (DOWNSTREAM, read / pcie.bytes_per_second))


def _network(subsystem: Subsystem, workload: Workload, pattern: Pattern) -> tuple[Costs, Costs]:
    """Time on the wire out of the source, and of the answers out of the sink."""
    bit = 8 / subsystem.wire.line_rate_bps
    source = ((EGRESS, pattern.wire_bytes * bit),)
    if workload.opcode is Opcode.READ:
        return source, ((EGRESS, READ_REQUEST_BYTES * bit),)
    if workload.qp_type is QpType.RC:
        return source, ((EGRESS, ACK_BYTES / subsystem.engine.messages_per_ack * bit),)
    return source, ()


def _blocking(subsystem: Subsystem, workload: Workload, visit_wqes: float) -> tuple[float, float]:
    """Costs of a missed context and of a missed translation, where the responder has to wait for them.

    The responder of an RC WRITE must have checked key, address and packet number before it takes the next packet; it
    withholds the acknowledgement meanwhile. The lookups of a SEND come early, with its receive WQE; a READ request
    waits in a queue that is read ahead; UC owes nobody an answer, so its lookups overlap. A context stays loaded for
    all WQEs of a visit; the translations of one post are looked up ahead.
    """
    if workload.qp_type is not QpType.RC or workload.opcode not in _ANSWERED_IN_ORDER:
        return 0.0, 0.0
    context, translation = subsystem.context_cache, subsystem.translation_cache
    overlap = min(workload.wqe_batch, translation.look_ahead_messages) * translation.outstanding_misses
    return (
        context.miss_seconds / (context.outstanding_misses * visit_wqes),
        translation.miss_seconds / overlap,
    )


def _ordered(subsystem: Subsystem, pattern: Pattern) -> tuple[float, float]:
    if not pattern.ordering_waits:
        return 0.0, 0.0
    moving = pattern.wire_bytes * 8 / subsystem.wire.line_rate_bps
    pcie, waits = subsystem.pcie, pattern.ordering_waits
    return moving + waits * pcie.ordered_read_wait_seconds, moving + waits * pcie.ordered_write_wait_seconds


def wqe_demand_share(subsystem: Subsystem, workload: Workload) -> float:
    """Return the share of receives that are fetched only when their packet has arrived.

    A connection expects its next message, so its NIC fetches the next receive while the last one is placed. A UD queue
    expects nobody: it has what its doorbells made the NIC fetch ahead, as long as that stays on chip.
    """
    if workload.qp_type is not QpType.UD:
        return 0.0
    cache = subsystem.receive_wqe_cache
    batch = overrun(workload.wqe_batch, cache.prefetch_wqes)
    return batch * overrun(workload.recv_wq_depth, cache.resident_wqes_per_queue) if batch else 0.0


def _receive(subsystem: Subsystem, workload: Workload, pattern: Pattern) -> Costs:
    engine, cache = subsystem.engine, subsystem.receive_wqe_cache
    placed = engine.read_requester_slow_packets_per_second if pattern.slow else engine.packets_per_second
    share = wqe_demand_share(subsystem, workload)
    if not share:
        return ((ENGINE, pattern.packets / placed),)
    # A packet that waits keeps the placement unit, which otherwise keeps up with the line.
    moving = pattern.wire_bytes * 8 / subsystem.wire.line_rate_bps
    waiting = pattern.packets * share * cache.fetch_seconds / cache.outstanding_fetches
    return (ENGINE, pattern.packets / placed), (WQE_FETCH, moving + waiting)


def _upstream(
    subsystem: Subsystem, workload: Workload, pattern: Pattern, fetches: float, receive_fetches: float
) -> tuple[float, float]:
    cqe = CQE_BYTES / subsystem.engine.completions_per_cqe_write
    asking = fetches * READ_HEADER_BYTES + (cqe if workload.sq_sig_all else cqe / workload.wqe_batch)
    source = pattern.gather_requests * READ_HEADER_BYTES
    if workload.opcode is Opcode.READ:
        return source, pattern.place_bytes + asking
    if receive_fetches:
        return source + asking, pattern.place_bytes + receive_fetches * READ_HEADER_BYTES + cqe
    return source + asking, pattern.place_bytes
