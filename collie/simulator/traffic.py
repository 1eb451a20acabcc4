"""A workload as numbers: all that the rest of the model sees of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import inf
from operator import mul
from typing import Final, NamedTuple

import numpy as np

from collie.simulator.hardware import Subsystem
from collie.simulator.numbers import Quantity
from collie.simulator.ordering import bulk_then_small, distinct_segments
from collie.simulator.pcie import read_bytes, write_bytes
from collie.simulator.wire import message_overhead_bytes, packet_overhead_bytes
from collie.workloads.setup import SetUp
from collie.workloads.workload import GRH_BYTES, Memory, Opcode, QpType, Workload

WQE_BLOCK_BYTES: Final = 64
_SEGMENT_BYTES: Final = 16
_RUN: Final = 4
"""Bytes of a run of long messages per byte in the receive buffer: about a quarter of what arrives meanwhile is too much
(#13: 296 Gbit/s into 217)."""
_UD_SEGMENTS: Final = 3
"""The address vector of a UD send is 48 bytes."""


class _Operation(NamedTuple):
    """Properties of an opcode. A table holds them, because hashing an enumeration is slow.

    Attributes:
        send_segments: 16 bytes each: control, and a remote address for opcodes that have one (mlx5).
    """

    send_segments: int
    receives: bool
    writes: bool
    overhead_bytes: int


_OPERATIONS: Final = {
    opcode: _Operation(
        1 if opcode in {Opcode.SEND, Opcode.SEND_WITH_IMM} else 2,
        opcode.consumes_receive,
        opcode in {Opcode.WRITE, Opcode.WRITE_WITH_IMM},
        message_overhead_bytes(opcode),
    )
    for opcode in Opcode
}


class TrafficArrays(NamedTuple):
    """One point, or many (`stack`). Flags are 0.0 or 1.0. Amounts are means over the request vector, per message.

    Source and sink send and receive the payload of the first flow. For a READ, host B is the source.

    Attributes:
        is_rc_write: the responder checks key and address of every message.
        two_way, loop: the sink also sends, to the source or to itself.
        entries: scatter/gather entries.
        long_list: more scatter/gather entries than the WQE's first block holds.
        signals: completions.
        outstanding: messages of one queue pair in flight.
        idle: further queue pairs that an earlier phase on the same set-up used.
        started: READ requests of one queue pair that one visit of the scheduler starts.
        far_source, far_sink: the buffers are on another socket.
        near_gpu_source, near_gpu_sink: the GPU is behind the NIC's bridge.
        payload, wire: bytes without and with all headers.
        gather, place: PCIe bytes downstream to read the payload, upstream to write it.
        translations: entries of the translation table per region.
        touched: bytes that one queue pair end writes in turn.
        slow: packets of READ responses that take the engine's slow path.
        streamed: share of the bytes that the send side moves on without a chance to yield, beyond the `_RUN` that the
            receive buffer of the busier host takes.
        small_beside_bulk: share of small messages, times the share of bytes that belong to bulk ones.
        one_turn: degree to which messages fit one turn of the arbiter.
        ordering_waits: short segments behind bulk ones, in lists that are walked entry by entry.
        new_regions, new_queue_pairs, new_address_handles, queue_pair_errors: control verbs beside the traffic on each
            host, and errors, per second.
        offered: messages/s that each flow is offered, infinite with full send queues.
        spread: mean of the squared payload over the square of the mean: 1 if all messages are equal.
        middle, longest: payload of the median message and of the longest one.
    """

    is_read: Quantity
    is_rc: Quantity
    is_ud: Quantity
    receives: Quantity
    is_rc_write: Quantity
    two_way: Quantity
    loop: Quantity
    qps: Quantity
    idle: Quantity
    wqe_batch: Quantity
    send_depth: Quantity
    recv_depth: Quantity
    regions: Quantity
    entries: Quantity
    long_list: Quantity
    signals: Quantity
    outstanding: Quantity
    started: Quantity
    far_source: Quantity
    far_sink: Quantity
    gpu_source: Quantity
    gpu_sink: Quantity
    near_gpu_source: Quantity
    near_gpu_sink: Quantity
    mtu: Quantity
    payload: Quantity
    wire: Quantity
    packets: Quantity
    gather: Quantity
    gather_requests: Quantity
    place: Quantity
    send_wqe: Quantity
    receive_wqe: Quantity
    translations: Quantity
    touched: Quantity
    slow: Quantity
    streamed: Quantity
    several_packets: Quantity
    small_beside_bulk: Quantity
    one_turn: Quantity
    ordering_waits: Quantity
    new_regions: Quantity
    new_queue_pairs: Quantity
    new_address_handles: Quantity
    queue_pair_errors: Quantity
    offered: Quantity
    spread: Quantity
    middle: Quantity
    longest: Quantity


def stack(points: Sequence[TrafficArrays]) -> TrafficArrays:
    """Return many points as one traffic of arrays."""
    width = len(TrafficArrays._fields)
    return TrafficArrays(
        *np.fromiter(chain.from_iterable(points), float, len(points) * width).reshape(-1, width).T.copy()
    )


class _Messages(NamedTuple):
    """Sums over one pass of the request vector, in the units of `TrafficArrays`."""

    packets: int
    several_packets: int
    place: int
    gather: int
    gather_requests: int
    inlined_bytes: int
    slow: float
    yields: float
    small: float
    bulk: float
    one_turn: float


def traffic_of(subsystem: Subsystem, workload: Workload, on: SetUp | None = None) -> TrafficArrays:
    """Return the traffic of a workload, on a set-up of its own or as a phase of another one."""
    made_for, before = (workload, ()) if on is None else (on.made_for, on.before)
    pcie, qp_type, operation = subsystem.pcie, workload.qp_type, _OPERATIONS[workload.opcode]
    is_read, is_ud, is_rc = workload.opcode is Opcode.READ, qp_type is QpType.UD, qp_type is QpType.RC
    mtu = min(max(workload.mtu, subsystem.wire.minimum_mtu), subsystem.wire.maximum_mtu)
    count, payload = len(workload.messages), sum(workload.messages)
    shortest, longest = min(workload.messages), max(workload.messages)
    sums = _messages(subsystem, workload, mtu)
    headers = sums.packets * packet_overhead_bytes(qp_type) + count * operation.overhead_bytes
    segments = operation.send_segments + (_UD_SEGMENTS if is_ud else 0)
    outstanding = min(workload.send_wq_depth, workload.max_rd_atomic, workload.max_dest_rd_atomic)
    (far_source, gpu_source), (far_sink, gpu_sink) = _buffers(subsystem, workload)
    made = workload.makes_control_verbs  # imitated ones cost the NIC nothing
    return TrafficArrays(
        is_read=is_read,
        is_rc=is_rc,
        is_ud=is_ud,
        receives=operation.receives,
        is_rc_write=is_rc and operation.writes,
        two_way=workload.directions - 1,
        loop=workload.loopback,
        qps=workload.qps,
        idle=max(each.qps for each in (workload, *before)) - workload.qps,
        wqe_batch=workload.wqe_batch,
        send_depth=workload.send_wq_depth,
        recv_depth=workload.recv_wq_depth,
        regions=workload.mrs_per_qp,
        entries=workload.sge_count,
        long_list=workload.sge_count > pcie.sges_read_with_wqe,
        signals=1.0 / workload.messages_per_signal,
        outstanding=outstanding if is_read else workload.send_wq_depth,
        started=min(workload.wqe_batch, outstanding, subsystem.reads.requests_per_visit),
        far_source=far_source,
        far_sink=far_sink,
        gpu_source=gpu_source,
        gpu_sink=gpu_sink,
        near_gpu_source=gpu_source and not far_source,
        near_gpu_sink=gpu_sink and not far_sink,
        mtu=mtu,
        payload=payload / count,
        wire=(payload + headers) / count,
        packets=sums.packets / count,
        gather=sums.gather / count,
        gather_requests=sums.gather_requests / count,
        place=sums.place / count,
        send_wqe=_send_wqe_bytes(workload, segments, sums.inlined_bytes // count),
        # The stride is a power of two. The queue is made for the longest list, so shorter lists have it, too.
        receive_wqe=_SEGMENT_BYTES << (made_for.sge_count - 1).bit_length(),
        translations=-(-longest // subsystem.translation_cache.page_bytes),
        touched=workload.mrs_per_qp * longest,
        slow=sums.slow / count if is_read else 0.0,
        streamed=max(0.0, 1.0 - _RUN * subsystem.receive_buffer.xoff_bytes * sums.yields / payload),
        several_packets=sums.several_packets / count,
        small_beside_bulk=sums.small / count * sums.bulk / payload,
        one_turn=sums.one_turn / count,
        ordering_waits=_ordering_waits(subsystem, workload) / count,
        new_regions=workload.new_mrs_per_second * made,
        new_queue_pairs=workload.new_qps_per_second * made,
        new_address_handles=workload.new_ahs_per_second * made,
        queue_pair_errors=workload.qp_errors_per_second * made,
        offered=workload.offered_bps / (8.0 * payload / count) if workload.offered_bps else inf,
        spread=1.0 if shortest == longest else sum(map(mul, workload.messages, workload.messages)) * count / payload**2,
        middle=shortest if shortest == longest else sorted(workload.messages)[(count - 1) // 2],
        longest=longest,
    )


def _messages(subsystem: Subsystem, workload: Workload, mtu: int) -> _Messages:
    payload_limit, request_limit = subsystem.pcie.max_payload_bytes, subsystem.pcie.max_read_request_bytes
    short, bulk_bytes = subsystem.acknowledgements.small_message_bytes, subsystem.acknowledgements.bulk_message_bytes
    quantum, long = subsystem.arbiter.quantum_bytes, subsystem.engine.streamed_message_bytes
    fast = subsystem.reads.bulk_packets / 2
    inline_limit = -1 if workload.opcode is Opcode.READ else workload.max_inline_data
    grh = GRH_BYTES if workload.qp_type is QpType.UD else 0
    full_write = write_bytes(mtu + grh, payload_limit)
    packets = several = place = gather = requests = inlined = 0
    slow = yields = small = bulk = one_turn = 0.0
    for size in workload.messages:
        full, tail = divmod(size, mtu)
        packets += full + (1 if tail else 0)
        several += size > mtu
        slow += max(0.0, full + (1 if tail else 0) - fast)
        if size < long:
            yields += min(1.0, 2.0 - 2.0 * size / long)
        place += full * full_write + (write_bytes(tail + grh, payload_limit) if tail else 0)
        if size <= inline_limit:
            inlined += size
        else:
            gather += read_bytes(size, payload_limit)
            requests += -(-size // request_limit)
        if size < 2 * short:
            small += 1.0 if size <= short else 2.0 - size / short
        elif 2 * size > bulk_bytes:
            bulk += size * min(1.0, 2.0 * size / bulk_bytes - 1.0)
        if size < 2 * quantum:
            one_turn += 1.0 if size <= quantum else 2.0 - size / quantum
    return _Messages(packets, several, place, gather, requests, inlined, slow, yields, small, bulk, one_turn)


def _buffers(subsystem: Subsystem, workload: Workload) -> tuple[tuple[bool, bool], tuple[bool, bool]]:
    one_nic = not subsystem.host.nic_per_socket
    a = workload.numa_node > 0 and one_nic, workload.memory is Memory.GPU
    b = workload.peer_numa_node > 0 and one_nic, workload.peer_memory is Memory.GPU
    return (b, a) if workload.opcode is Opcode.READ else (a, b)


def _send_wqe_bytes(workload: Workload, segments: int, inline_bytes: int) -> int:
    size = _SEGMENT_BYTES * segments + (inline_bytes + 4 if inline_bytes else _SEGMENT_BYTES * workload.sge_count)
    return -(-size // WQE_BLOCK_BYTES) * WQE_BLOCK_BYTES


def _ordering_waits(subsystem: Subsystem, workload: Workload) -> float:
    pcie = subsystem.pcie
    walked = workload.sge_count > pcie.sges_read_with_wqe
    alike = isinstance(workload.sge_split, str) and len(set(workload.messages)) == 1
    if alike or not (pcie.strict_ordering and walked):
        return 0.0
    return bulk_then_small(distinct_segments(workload), pcie.bulk_segment_bytes, pcie.small_segment_bytes)
