"""Costs of one message on each host that handles it: times for which it occupies a resource.

Messages/s times cost is the utilisation. A busy `STEADY` resource slows the sender. A busy `ARRIVAL` resource fills the
receive buffer.

A message leaves a host (`out`), arrives (`into`), or goes round inside the NIC (`loop`). Its acknowledgement costs the
sender, so `out` has entries on arrival resources.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from collie.simulator.caches import overrun, within
from collie.simulator.demand import WorkingSets, receive_queues, working_sets
from collie.simulator.hardware import ReceiveQueues, Subsystem, WhenMissing
from collie.simulator.numbers import Numbers, Quantity, Vector
from collie.simulator.pcie import COMPLETION_HEADER_BYTES, READ_HEADER_BYTES, WRITE_HEADER_BYTES
from collie.simulator.traffic import TrafficArrays
from collie.simulator.wire import ACK_BYTES, READ_REQUEST_BYTES

STEADY: Final = (
    "doorbells",
    "transmit engine",
    "PCIe downstream",
    "PCIe read tags",
    "context cache",
    "translation cache",
    "receive credits",
    "transmit staging",
    "memory",
    "posting",
    "wire",
    "ordered reads",
    "peer-to-peer reads",
)
TRANSMIT, TAGS, CONTEXT, TRANSLATION = 1, 3, 4, 5
CREDITS, STAGING, MEMORY, PEER_READS = 6, 7, 8, 12

ARRIVAL: Final = (
    "receive engine",
    "placement",
    "receive WQE fetch",
    "pending READs",
    "duplex arbiter",
    "socket link",
    "ordered writes",
    "peer-to-peer writes",
)
ENGINE, PLACEMENT, ARBITER, SOCKET_LINK, ORDERED_WRITES, PEER_WRITES = 0, 1, 4, 5, 6, 7

CQE_BYTES: Final = 64 + WRITE_HEADER_BYTES
_NEVER_LOOPED: Final = 3
_NOTHING: Final = (0.0,) * _NEVER_LOOPED


class PathCosts(NamedTuple):
    """Costs of one message by resource and way. `loop` is empty without loopback."""

    out: Vector
    into: Vector
    loop: Vector


class HostCosts(NamedTuple):
    """Costs of one message at one host.

    Attributes:
        dropping: time for which a message occupies a receive queue that drops, or 0.
        trip, round_trip: seconds in flight of a message that leaves this host, and of loopback.
    """

    sets: WorkingSets
    steady: PathCosts
    arrival: PathCosts
    dropping: Quantity
    trip: Quantity
    round_trip: Quantity


class Costs(NamedTuple):
    """Costs of one message.

    Attributes:
        upstream_out, upstream_in: bytes of PCIe upstream at the payload's source and at its sink.
        fetch_limit: messages/s of one flow for which its queue pairs can fetch WQEs.
        visit_wqes: WQEs served per context load.
        answers, answer_bytes: acknowledgements or READ requests against the payload.
    """

    source: HostCosts
    sink: HostCosts
    loopback: Quantity
    upstream_out: Quantity
    upstream_in: Quantity
    fetch_limit: Quantity
    visit_wqes: Quantity
    answers: Quantity
    answer_bytes: Quantity


class _BufferLocation(NamedTuple):
    """Location of one host's buffers.

    Attributes:
        near_gpu: behind the NIC's bridge.
        late: seconds of latency beyond memory next to the NIC.
        loops: whether any message goes round inside this NIC.
    """

    far: Quantity
    gpu: Quantity
    near_gpu: Quantity
    late: Quantity
    loops: bool


class _Receives(NamedTuple):
    """Costs of the receives of one message.

    Attributes:
        fetches: PCIe reads. One read fetches several receives of one post.
        withheld, waiting, dropping: time without a receive on chip: at the sender, in the pipeline, or before the drop.
        pushed_out: delay by an overrun of prefetched receives: in the pipeline, and in placement.
    """

    fetches: Quantity
    wqe_read: Quantity
    withheld: Quantity
    waiting: Quantity
    dropping: Quantity
    pushed_out: tuple[Quantity, Quantity]


_NO_RECEIVES: Final = _Receives(0.0, 0.0, 0.0, 0.0, 0.0, (0.0, 0.0))


class _Message(NamedTuple):
    """Costs of one message on either host, mostly times.

    Attributes:
        asks: 1 if the requester is the payload's source, 0 for a READ.
        fetches: PCIe reads. One read fetches several WQEs of one post.
        gathered, wqe_read: on PCIe downstream.
        moving, answering: on the wire.
        ordered_read, ordered_write: in strictly ordered PCIe, 0 unless a short segment follows a bulk one.
        flushes: whether RC streams both ways, so that each write is flushed before its acknowledgement.
        pending: to look up spilled READ requests.
        turned: in the arbiter when it switches for every burst.
        scatter, answered: delay of placement by a message that left.
    """

    asks: Quantity
    fetches: Quantity
    receives: _Receives
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
    ordered_read: Quantity
    ordered_write: Quantity
    flushes: Quantity
    pending: Quantity
    turned: Quantity
    scatter: Quantity
    answered: Quantity


def costs_of(subsystem: Subsystem, t: TrafficArrays, n: Numbers) -> Costs:
    """Compute the costs of one message."""
    engine = subsystem.engine
    m = _message(subsystem, t, n)
    source, sink = _places(subsystem, t, n)
    sets = working_sets(subsystem, t, n)
    cqe = CQE_BYTES / engine.completions_per_cqe_write
    asking = m.fetches * READ_HEADER_BYTES + cqe * t.signals
    return Costs(
        source=_host(subsystem, t, n, m, sets[0], source, sink),
        sink=_host(subsystem, t, n, m, sets[1], sink, source),
        loopback=m.payload_bits / subsystem.loopback.rate_bps,
        upstream_out=t.gather_requests * READ_HEADER_BYTES + m.asks * asking,
        upstream_in=t.place + m.receives.fetches * READ_HEADER_BYTES + t.receives * cqe + t.is_read * asking,
        fetch_limit=t.qps * engine.wqe_fetches_per_qp / (m.fetches * subsystem.pcie.read_latency_seconds),
        visit_wqes=m.visit_wqes,
        answers=m.answers,
        answer_bytes=m.answer_bytes,
    )


def _message(subsystem: Subsystem, t: TrafficArrays, n: Numbers) -> _Message:
    engine, pcie, reads = subsystem.engine, subsystem.pcie, subsystem.reads
    arbiter, acks = subsystem.arbiter, subsystem.acknowledgements
    rate, tlp, bit = engine.packets_per_second, pcie.bytes_per_second, 8 / subsystem.wire.line_rate_bps
    fetches = 1.0 / n.least(t.wqe_batch, n.most(1.0, engine.wqe_fetch_bytes // t.send_wqe))
    answers = n.choose(t.is_read, 1.0, t.is_rc / engine.messages_per_ack)
    answer_bytes = answers * n.choose(t.is_read, READ_REQUEST_BYTES, ACK_BYTES)
    spilled = unheld = 0.0
    if n.anywhere(t.is_read):
        spilled = t.is_read * overrun(n, t.qps * t.started, reads.pending_requests)
        unheld = t.is_read * t.long_list * overrun(n, t.wqe_batch, t.outstanding)
    bursts = t.is_rc * t.one_turn * overrun(n, t.wqe_batch, arbiter.burst_wqes)
    answered = t.is_rc_write * t.small_beside_bulk * overrun(n, t.wqe_batch, acks.burst_messages)
    moving = t.wire * bit
    ordered = t.two_way * (t.ordering_waits > 0)  # reads and writes share a host's ordered queue
    return _Message(
        asks=1.0 - t.is_read,
        fetches=fetches,
        receives=_receives(subsystem, t, n, tlp) if n.anywhere(t.receives) else _NO_RECEIVES,
        visit_wqes=n.most(t.wqe_batch, t.send_depth / engine.visits_per_send_queue, 1.0),
        answers=answers,
        answer_bytes=answer_bytes,
        doorbell=1.0 / (t.wqe_batch * engine.doorbells_per_second),
        transmit=t.packets / n.choose(t.slow, reads.responder_slow_packets_per_second, rate),
        place=t.packets / n.choose(t.slow, reads.requester_slow_packets_per_second, rate),
        gathered=t.gather / tlp,
        wqe_read=(t.send_wqe + COMPLETION_HEADER_BYTES * fetches) / tlp,
        wqe_tags=fetches * pcie.read_latency_seconds / pcie.read_tags,
        moving=moving,
        answering=answer_bytes * bit,
        payload_bits=t.payload * 8,
        ordered_read=ordered * (moving + t.ordering_waits * pcie.ordered_read_wait_seconds),
        ordered_write=ordered * (moving + t.ordering_waits * pcie.ordered_write_wait_seconds),
        flushes=t.is_rc * t.streamed * t.two_way,
        pending=spilled * t.packets / reads.spilled_packets_per_second,
        turned=bursts * t.packets / arbiter.packets_per_second,
        scatter=unheld * t.packets * reads.scatter_wait_seconds,
        answered=answered * acks.wait_seconds * acks.blocks_data,
    )


def _places(subsystem: Subsystem, t: TrafficArrays, n: Numbers) -> tuple[_BufferLocation, _BufferLocation]:
    far, gpu = subsystem.memory.far_latency_seconds, subsystem.memory.gpu_latency_seconds
    source_late = t.far_source * far + t.gpu_source * gpu
    sink_late = t.far_sink * far + t.gpu_sink * gpu
    return (
        _BufferLocation(t.far_source, t.gpu_source, t.near_gpu_source, source_late, loops=False),
        _BufferLocation(t.far_sink, t.gpu_sink, t.near_gpu_sink, sink_late, loops=n.anywhere(t.loop)),
    )


def _receives(subsystem: Subsystem, t: TrafficArrays, n: Numbers, tlp: float) -> _Receives:
    fetches = t.receives / n.least(t.wqe_batch, n.most(1.0, subsystem.engine.wqe_fetch_bytes // t.receive_wqe))
    withheld = waiting = dropping = 0.0
    for queues, used in receive_queues(subsystem, t):
        late = used * _fetching(queues, t, n)
        withheld = withheld + late * (queues.when_missing is WhenMissing.WITHHOLD)
        waiting = waiting + late * (queues.when_missing is WhenMissing.WAIT)
        dropping = dropping + late * (queues.when_missing is WhenMissing.DROP)
    datagram, reliable = subsystem.datagram_receives, subsystem.reliable_receives
    # One packet consumes its receive at once. The later packets of a longer message need the receive again.
    returning = t.is_rc * t.several_packets * reliable.overrun_wait_seconds * _pushed_out(reliable, t, n)
    demanding = t.is_ud * t.packets * datagram.overrun_wait_seconds * _pushed_out(datagram, t, n)
    return _Receives(
        fetches=fetches,
        wqe_read=(t.receives * t.receive_wqe + COMPLETION_HEADER_BYTES * fetches) / tlp,
        withheld=withheld,
        waiting=waiting,
        dropping=dropping,
        pushed_out=(returning, demanding),
    )


def _fetching(queues: ReceiveQueues, t: TrafficArrays, n: Numbers) -> Quantity:
    overlap = n.most(1.0, t.mtu / queues.look_ahead_bytes) * queues.outstanding_fetches
    return t.receives * within(n, t.wqe_batch, queues.on_demand_wqes) * queues.fetch_seconds / overlap


def _pushed_out(queues: ReceiveQueues, t: TrafficArrays, n: Numbers) -> Quantity:
    long_queue = overrun(n, t.recv_depth, queues.resident_wqes_per_queue)
    return t.receives * overrun(n, t.wqe_batch, queues.prefetch_wqes) * long_queue


def _host(
    subsystem: Subsystem,
    t: TrafficArrays,
    n: Numbers,
    m: _Message,
    sets: WorkingSets,
    here: _BufferLocation,
    peer: _BufferLocation,
) -> HostCosts:
    round_trip = 2.0 * subsystem.pcie.read_latency_seconds + here.late + m.payload_bits / subsystem.wire.line_rate_bps
    # UC and UD messages end when they have left. RC messages stay until they are acknowledged.
    trip = round_trip + subsystem.wire.round_trip_seconds * (0.5 + 0.5 * t.is_rc) + t.is_rc * peer.late
    return HostCosts(
        sets=sets,
        steady=_steady(subsystem, t, n, m, sets, here),
        arrival=_arrival(subsystem, n, m, sets, here),
        dropping=m.receives.dropping * sets.receive_misses,
        trip=trip,
        round_trip=round_trip + t.is_rc * here.late,
    )


def _steady(
    subsystem: Subsystem, t: TrafficArrays, n: Numbers, m: _Message, sets: WorkingSets, here: _BufferLocation
) -> PathCosts:
    pcie, bridge = subsystem.pcie, subsystem.gpu_bridge
    staged = sets.staging_misses * t.packets * subsystem.transmit_staging.refill_seconds
    in_dram = (1.0 - here.gpu) * m.payload_bits / subsystem.memory.bandwidth_bps
    context, translation = _blocking(subsystem, t, n, m, sets) if n.anywhere(t.is_rc_write) else (0.0, 0.0)
    redirected = m.flushes * here.near_gpu * bridge.redirects
    out = (
        m.asks * m.doorbell,
        m.transmit,
        m.gathered + m.asks * m.wqe_read,
        t.gather_requests * (pcie.read_latency_seconds + here.late) / pcie.read_tags + m.asks * m.wqe_tags,
        0.0,
        0.0,
        0.0,
        m.asks * staged,
        in_dram,
        m.asks * subsystem.host.posting_seconds,
        m.moving,
        m.ordered_read,
        redirected * m.payload_bits / bridge.contended_read_bps,
    )
    into = (
        t.is_read * m.doorbell,
        0.0,
        m.receives.wqe_read + t.is_read * m.wqe_read,
        t.is_read * m.wqe_tags,
        context,
        translation,
        m.receives.withheld * sets.receive_misses,
        t.is_read * staged,
        in_dram * sets.write_misses,
        t.is_read * subsystem.host.posting_seconds,
        m.answering,
        0.0,
        0.0,
    )
    if not here.loops:
        return PathCosts(out, into, ())
    both = [leaving + coming for leaving, coming in zip(out[:-_NEVER_LOOPED], into[:-_NEVER_LOOPED], strict=True)]
    return PathCosts(out, into, (*both, *_NOTHING))


def _blocking(
    subsystem: Subsystem, t: TrafficArrays, n: Numbers, m: _Message, sets: WorkingSets
) -> tuple[Quantity, Quantity]:
    """Costs of missed contexts and missed translations that the responder waits for.

    The responder of an RC WRITE checks key, address and packet number before it takes the next packet. A SEND is looked
    up early with its receive WQE, a READ request in a queue that is read ahead. UC lookups overlap. A context stays
    loaded for all WQEs of a visit. The translations of one post are looked up ahead.
    """
    context, translation = subsystem.context_cache, subsystem.translation_cache
    loads = t.is_rc_write * sets.context_misses / (context.outstanding_misses * m.visit_wqes)
    overlap = n.least(t.wqe_batch, translation.look_ahead_messages) * translation.outstanding_misses
    return loads * context.miss_seconds, t.is_rc_write * sets.translation_misses * translation.miss_seconds / overlap


def _arrival(subsystem: Subsystem, n: Numbers, m: _Message, sets: WorkingSets, here: _BufferLocation) -> PathCosts:
    placement_bps, link, bridge = subsystem.engine.placement_bps, subsystem.socket_link, subsystem.gpu_bridge
    line_rate = subsystem.wire.line_rate_bps
    pushed_out = m.receives.pushed_out
    waiting = m.receives.waiting * sets.receive_misses + pushed_out[0]
    turned = m.turned * overrun(n, sets.ends, subsystem.arbiter.queue_pairs)
    crossing = here.far * m.payload_bits / n.choose(m.flushes, link.streamed_rate_bps, link.rate_bps)
    # READs: WQEs fetched beyond the outstanding limit leave the chip, with the second block of a long scatter list. The
    # new fetch queues behind the payload reads for this host's responses. WRITEs: acknowledging small messages needs
    # queue pair state that the unit does not hold.
    held_up = m.scatter * overrun(n, sets.reads, subsystem.reads.scatter_lists)
    held_up = held_up + m.answered * overrun(n, sets.ends, subsystem.acknowledgements.contexts)
    to_placement = line_rate / placement_bps
    return PathCosts(
        out=(0.0, m.answering * to_placement + held_up, 0.0, 0.0, turned, crossing, 0.0, 0.0),
        into=(
            m.place,
            m.moving * to_placement + pushed_out[1],
            waiting,
            m.pending,
            turned,
            crossing,
            m.ordered_write,
            m.flushes * here.near_gpu * bridge.redirects * m.payload_bits / bridge.contended_write_bps,
        ),
        loop=(m.place, pushed_out[1], waiting, m.pending, 0.0, 2.0 * crossing, 0.0, 0.0) if here.loops else (),
    )
