"""What one message costs wherever it is handled, before the working sets and the place of its buffers count.

`costs.py` makes the costs of each host from these.
"""

from __future__ import annotations

from typing import NamedTuple

from collie.simulator.caches import excess, overrun, pushed_out
from collie.simulator.hardware import Subsystem
from collie.simulator.numbers import Numbers, Quantity
from collie.simulator.pcie import COMPLETION_HEADER_BYTES
from collie.simulator.receives import Receives, receives_of
from collie.simulator.traffic import TrafficArrays
from collie.simulator.wire import ACK_BYTES, READ_REQUEST_BYTES


class Events(NamedTuple):
    """Rare events per message, as the costs count them. Those of a host also depend on its working sets.

    Attributes:
        refetched: READ work requests that left the chip before their response arrived.
        spilled: response packets whose READ request can have spilled.
        acknowledged: acknowledgements that need queue pair state.
        held: acknowledgements of small messages that find bulk data in the pipeline and their burst too long.
        turned: bursts for which the arbiter can have to switch.
    """

    refetched: Quantity
    spilled: Quantity
    acknowledged: Quantity
    held: Quantity
    turned: Quantity


class MessageCosts(NamedTuple):
    """Costs of one message on either host, mostly times in seconds.

    Attributes:
        asks: 1 if the requester is the payload's source, 0 for a READ.
        fetches: PCIe reads. One read fetches several WQEs of one post.
        gathered, wqe_read: on PCIe downstream.
        moving, answering: on the wire.
        ordered, ordered_read, ordered_write: in strictly ordered PCIe: the payload, and the waits of reads and of
            writes for late short reads.
        flushes: share of the bytes streamed by RC both ways, each write flushed before its acknowledgement.
        pending: to look up spilled READ requests.
        turned: in the arbiter when it switches for every burst.
        scatter, answered: delay of placement by a message that left.
    """

    asks: Quantity
    fetches: Quantity
    receives: Receives
    visit_wqes: Quantity
    answers: Quantity
    answer_bytes: Quantity
    doorbell: Quantity
    transmit: Quantity
    place: Quantity
    gathered: Quantity
    wqe_read: Quantity
    wqe_tags: Quantity
    moving: Quantity
    answering: Quantity
    payload_bits: Quantity
    ordered: Quantity
    ordered_read: Quantity
    ordered_write: Quantity
    flushes: Quantity
    pending: Quantity
    turned: Quantity
    scatter: Quantity
    answered: Quantity
    events: Events


def message_costs(subsystem: Subsystem, t: TrafficArrays, n: Numbers) -> MessageCosts:
    """Compute what one message costs on either host."""
    engine, pcie, reads = subsystem.engine, subsystem.pcie, subsystem.reads
    arbiter, acks = subsystem.arbiter, subsystem.acknowledgements
    rate, tlp, bit = engine.packets_per_second, pcie.bytes_per_second, 8 / subsystem.wire.line_rate_bps
    fetches = 1.0 / n.least(t.wqe_batch, n.most(1.0, engine.wqe_fetch_bytes // t.send_wqe))
    answers = n.choose(t.is_read, 1.0, t.is_rc / engine.messages_per_ack)
    answer_bytes = answers * n.choose(t.is_read, READ_REQUEST_BYTES, ACK_BYTES)
    spilled = refetched = 0.0
    if n.anywhere(t.is_read):
        spilled = t.is_read * t.packets * pushed_out(n, t.qps * t.started, reads.pending_requests)
        refetched = t.is_read * excess(n, t.wqe_batch, t.outstanding)
    bursts = t.is_rc * t.one_turn * pushed_out(n, t.wqe_batch, arbiter.burst_wqes)
    held = t.two_way * t.is_rc_write * t.small_beside_bulk * overrun(n, t.wqe_batch, acks.burst_messages)
    moving = t.wire * bit
    ordered = t.two_way * (t.ordering_waits > 0)  # without waits it is as wide as the port
    return MessageCosts(
        asks=1.0 - t.is_read,
        fetches=fetches,
        receives=receives_of(subsystem, t, n),
        visit_wqes=n.most(t.wqe_batch, t.send_depth / engine.visits_per_send_queue, 1.0),
        answers=answers,
        answer_bytes=answer_bytes,
        doorbell=1.0 / (t.wqe_batch * engine.doorbells_per_second),
        transmit=(t.packets - t.slow) / rate + t.slow / reads.responder_slow_packets_per_second,
        place=(t.packets - t.slow) / rate + t.slow / reads.requester_slow_packets_per_second,
        gathered=t.gather / tlp,
        wqe_read=(t.send_wqe + COMPLETION_HEADER_BYTES * fetches) / tlp,
        wqe_tags=fetches * pcie.read_latency_seconds / pcie.read_tags,
        moving=moving,
        answering=answer_bytes * bit,
        payload_bits=t.payload * 8,
        ordered=ordered * moving,
        ordered_read=ordered * t.ordering_waits * pcie.ordered_read_wait_seconds,
        ordered_write=ordered * t.ordering_waits * pcie.ordered_write_wait_seconds,
        flushes=t.is_rc * t.streamed * t.two_way,
        pending=spilled / reads.spilled_packets_per_second,
        turned=t.two_way * bursts * t.packets / arbiter.packets_per_second,
        scatter=t.two_way * refetched * t.long_list * t.packets * reads.scatter_wait_seconds,
        answered=held * acks.wait_seconds * acks.blocks_data,
        events=Events(
            refetched=refetched,
            spilled=spilled,
            acknowledged=answers * (1.0 - t.is_read),
            held=held,
            turned=bursts,
        ),
    )
