"""What one message of a workload is made of, on average over its request vector.

A pattern depends on the message sizes and on the hardware's granularities, not on who sends to whom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collie.simulator.ordering import bulk_then_small, distinct_segments
from collie.simulator.pcie import read_bytes, write_bytes
from collie.simulator.subsystem import RelaxedOrdering, Subsystem
from collie.simulator.wire import message_overhead_bytes, packet_overhead_bytes
from collie.workloads.workload import GRH_BYTES, Opcode, QpType, Workload

WQE_BLOCK_BYTES: Final = 64
_SEGMENT_BYTES: Final = 16
_SEND_SEGMENTS: Final = {
    Opcode.SEND: 1,
    Opcode.SEND_WITH_IMM: 1,
    Opcode.WRITE: 2,
    Opcode.WRITE_WITH_IMM: 2,
    Opcode.READ: 2,
}
"""Segments of 16 bytes before the scatter/gather entries: control, and a remote address where there is one (mlx5)."""
_UD_SEGMENTS: Final = 3
"""The address vector of a UD send is 48 bytes."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Means per message.

    Attributes:
        payload_bytes: what the application asked for.
        packets: that carry payload.
        wire_bytes: with all headers, in the direction of the payload.
        gather_bytes: PCIe bytes downstream at the source, completions of payload reads.
        gather_requests: PCIe read requests for them.
        place_bytes: PCIe bytes upstream at the sink.
        slow: the packets take the slow path of the engine.
        send_wqe_bytes, receive_wqe_bytes: in their queues.
        streamed: every message is long enough to be streamed over the loopback path.
        ordering_waits: times that a strictly ordered short segment follows a bulk one.
        ordering_pressure: the same counted softly, also where nothing waits yet.
    """

    payload_bytes: float
    packets: float
    wire_bytes: float
    gather_bytes: float
    gather_requests: float
    place_bytes: float
    slow: bool
    send_wqe_bytes: int
    receive_wqe_bytes: int
    streamed: bool
    ordering_waits: float
    ordering_pressure: float


def pattern_of(subsystem: Subsystem, workload: Workload) -> Pattern:
    """Take a workload's messages apart."""
    pcie, mtu = subsystem.pcie, workload.mtu
    payload_limit, request_limit = pcie.max_payload_bytes, pcie.max_read_request_bytes
    is_read, is_ud = workload.opcode is Opcode.READ, workload.qp_type is QpType.UD
    is_slow = is_read and -(-min(workload.messages) // mtu) >= subsystem.engine.read_bulk_packets
    grh = GRH_BYTES if is_ud else 0
    full_write = write_bytes(mtu + grh, payload_limit)
    packets = gather = requests = place = inlined = 0
    for size in workload.messages:
        full, tail = divmod(size, mtu)
        count = full + (1 if tail else 0)
        packets += count
        place += full * full_write + (write_bytes(tail + grh, payload_limit) if tail else 0)
        if size <= workload.max_inline_data and not is_read:
            inlined += size
        else:
            gather += read_bytes(size, payload_limit)
            requests += -(-size // request_limit)
    messages = len(workload.messages)
    payload = sum(workload.messages)
    headers = packets * packet_overhead_bytes(workload.qp_type) + messages * message_overhead_bytes(workload.opcode)
    waits, pressure = _ordering(subsystem, workload)
    return Pattern(
        payload_bytes=payload / messages,
        packets=packets / messages,
        wire_bytes=(payload + headers) / messages,
        gather_bytes=gather / messages,
        gather_requests=requests / messages,
        place_bytes=place / messages,
        slow=is_slow,
        send_wqe_bytes=_send_wqe_bytes(workload, inlined // messages),
        receive_wqe_bytes=_receive_wqe_bytes(workload.sge_count),
        streamed=min(workload.messages) >= subsystem.loopback.bulk_message_bytes,
        ordering_waits=waits,
        ordering_pressure=pressure,
    )


def _send_wqe_bytes(workload: Workload, inline_bytes: int) -> int:
    segments = _SEND_SEGMENTS[workload.opcode] + (_UD_SEGMENTS if workload.qp_type is QpType.UD else 0)
    size = _SEGMENT_BYTES * segments + (inline_bytes + 4 if inline_bytes else _SEGMENT_BYTES * workload.sge_count)
    return -(-size // WQE_BLOCK_BYTES) * WQE_BLOCK_BYTES


def _receive_wqe_bytes(sge_count: int) -> int:
    return int(_SEGMENT_BYTES * (1 << (sge_count - 1).bit_length()))  # the stride is a power of two


def _ordering(subsystem: Subsystem, workload: Workload) -> tuple[float, float]:
    pcie = subsystem.pcie
    if subsystem.settings.relaxed_ordering is RelaxedOrdering.FORCED:
        return 0.0, 0.0
    waits, pressure = bulk_then_small(distinct_segments(workload), pcie.bulk_segment_bytes, pcie.small_segment_bytes)
    dependent = workload.sge_count > pcie.sges_read_with_wqe
    early = min(1.0, workload.sge_count / (pcie.sges_read_with_wqe + 1))
    return (waits / len(workload.messages) if dependent else 0.0), pressure * early / len(workload.messages)
