"""Costs of one message on each host that handles it: times for which it occupies a resource.

Messages/s times cost is the utilisation. A busy `STEADY` resource slows the sender. A busy `ARRIVAL` resource fills the
receive buffer.

A message leaves a host (`out`), arrives (`into`), or goes round inside the NIC (`loop`). Its acknowledgement costs the
sender, so `out` has entries on arrival resources.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from collie.simulator.caches import overrun, pushed_out
from collie.simulator.demand import WorkingSets, working_sets
from collie.simulator.hardware import Subsystem
from collie.simulator.message import Events, MessageCosts, message_costs
from collie.simulator.numbers import Numbers, Quantity, Vector
from collie.simulator.pcie import READ_HEADER_BYTES, WRITE_HEADER_BYTES
from collie.simulator.receives import Receives
from collie.simulator.traffic import TrafficArrays

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
TRANSMIT, TAGS, CREDITS = map(STEADY.index, ("transmit engine", "PCIe read tags", "receive credits"))
DOWNSTREAM, MEMORY, WIRE = map(STEADY.index, ("PCIe downstream", "memory", "wire"))
ORDERED_READS, PEER_READS = map(STEADY.index, ("ordered reads", "peer-to-peer reads"))

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
ENGINE, PLACEMENT = map(ARRIVAL.index, ("receive engine", "placement"))
SOCKET_LINK, PEER_WRITES = map(ARRIVAL.index, ("socket link", "peer-to-peer writes"))

CQE_BYTES: Final = 64 + WRITE_HEADER_BYTES


class PathCosts(NamedTuple):
    """Costs of one message by resource and way. `loop` is empty without loopback."""

    out: Vector
    into: Vector
    loop: Vector


class HostCosts(NamedTuple):
    """Costs of one message at one host.

    Attributes:
        unacknowledged, unarbitrated: share of the queue pair ends whose state the acknowledgement unit, or the arbiter,
            does not hold.
        late: seconds of a PCIe transaction beyond those to memory next to the NIC.
        dropping: time for which a message occupies a receive queue that drops, or 0.
        on_timer: share of the acknowledgements that wait for the timer.
        trip, round_trip: seconds in flight of a message that leaves this host, and of loopback.
    """

    sets: WorkingSets
    steady: PathCosts
    arrival: PathCosts
    unacknowledged: Quantity
    unarbitrated: Quantity
    late: Quantity
    dropping: Quantity
    on_timer: Quantity
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
    receives: Receives
    events: Events


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


def costs_of(
    subsystem: Subsystem, t: TrafficArrays, n: Numbers, sets: tuple[WorkingSets, WorkingSets] | None = None
) -> Costs:
    """Compute the costs of one message. `sets` are the working sets beside other traffic."""
    engine = subsystem.engine
    m = message_costs(subsystem, t, n)
    source, sink = _places(subsystem, t, n)
    sets = sets or working_sets(subsystem, t, n)
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
        receives=m.receives,
        events=m.events,
    )


def _places(subsystem: Subsystem, t: TrafficArrays, n: Numbers) -> tuple[_BufferLocation, _BufferLocation]:
    far, gpu = subsystem.memory.far_latency_seconds, subsystem.memory.gpu_latency_seconds
    source_late = t.far_source * far + t.gpu_source * gpu
    sink_late = t.far_sink * far + t.gpu_sink * gpu
    return (
        _BufferLocation(t.far_source, t.gpu_source, t.near_gpu_source, source_late, loops=False),
        _BufferLocation(t.far_sink, t.gpu_sink, t.near_gpu_sink, sink_late, loops=n.anywhere(t.loop)),
    )


def _host(
    subsystem: Subsystem,
    t: TrafficArrays,
    n: Numbers,
    m: MessageCosts,
    sets: WorkingSets,
    here: _BufferLocation,
    peer: _BufferLocation,
) -> HostCosts:
    round_trip = 2.0 * subsystem.pcie.read_latency_seconds + here.late + m.payload_bits / subsystem.wire.line_rate_bps
    # UC and UD messages end when they have left. RC messages stay until they are acknowledged.
    trip = round_trip + subsystem.wire.round_trip_seconds * (0.5 + 0.5 * t.is_rc) + t.is_rc * peer.late
    on_timer = pushed_out(n, sets.ends, subsystem.delays.acknowledgement_timer_ends)
    timer = t.is_rc * (1.0 - t.is_read) * on_timer * subsystem.delays.acknowledgement_timer_seconds / 2.0
    unacknowledged = overrun(n, sets.ends, subsystem.acknowledgements.contexts)
    unarbitrated = pushed_out(n, sets.ends, subsystem.arbiter.queue_pairs)
    looked_up = m.place
    if n.anywhere(t.idle):
        walks = pushed_out(n, sets.ends * t.idle / t.qps, subsystem.flow_table.idle_entries)
        looked_up = m.place + walks * t.packets * subsystem.flow_table.walk_seconds
    return HostCosts(
        sets=sets,
        steady=_held(n, sets, _steady(subsystem, t, n, m, sets, here)),
        arrival=_held(
            n,
            sets,
            _arrival(subsystem, n, m._replace(place=looked_up), sets, here, unacknowledged, unarbitrated),
        ),
        unacknowledged=unacknowledged,
        unarbitrated=unarbitrated,
        late=here.late,
        dropping=m.receives.dropping * sets.receive_misses,
        on_timer=on_timer,
        trip=trip + timer,
        round_trip=round_trip + t.is_rc * here.late + timer,
    )


def _held(n: Numbers, sets: WorkingSets, paths: PathCosts) -> PathCosts:
    """Return costs that grow because control verbs and errors hold up the host's messages for a share of the time."""
    if not n.anywhere(sets.held):
        return paths
    slower = 1.0 / (1.0 - sets.held)
    return PathCosts(*(tuple(cost * slower for cost in way) for way in paths))


def _steady(
    subsystem: Subsystem, t: TrafficArrays, n: Numbers, m: MessageCosts, sets: WorkingSets, here: _BufferLocation
) -> PathCosts:
    pcie, bridge = subsystem.pcie, subsystem.gpu_bridge
    staged = sets.staging_misses * t.packets * subsystem.transmit_staging.refill_seconds
    in_dram = (1.0 - here.gpu) * m.payload_bits / subsystem.memory.bandwidth_bps
    posted, context, translation = _lookups(subsystem, t, n, m, sets)
    redirected = here.near_gpu * bridge.redirects * m.payload_bits
    out = (
        m.asks * m.doorbell,
        m.transmit,
        m.gathered + m.asks * m.wqe_read,
        t.gather_requests * (pcie.read_latency_seconds + here.late) / pcie.read_tags + m.asks * m.wqe_tags,
        m.asks * posted + t.is_read * context,
        t.is_read * translation,
        0.0,
        m.asks * staged,
        in_dram,
        m.asks * subsystem.host.posting_seconds,
        m.moving,
        m.ordered + m.asks * m.ordered_read,
        redirected * (m.flushes / bridge.contended_read_bps + (1.0 - m.flushes) / (8.0 * pcie.bytes_per_second)),
    )
    into = (
        t.is_read * m.doorbell,
        0.0,
        m.receives.wqe_read + t.is_read * m.wqe_read,
        t.is_read * m.wqe_tags,
        t.is_read * posted + m.asks * context,
        m.asks * translation,
        m.receives.withheld * sets.receive_misses,
        t.is_read * staged,
        in_dram * sets.write_misses,
        t.is_read * subsystem.host.posting_seconds,
        m.answering,
        t.is_read * m.ordered_read,
        0.0,
    )
    if not here.loops:
        return PathCosts(out, into, ())
    loop = [leaving + coming for leaving, coming in zip(out, into, strict=True)]
    loop[WIRE] = loop[ORDERED_READS] = 0.0
    return PathCosts(out, into, loop)


def _lookups(
    subsystem: Subsystem, t: TrafficArrays, n: Numbers, m: MessageCosts, sets: WorkingSets
) -> tuple[Quantity, Quantity, Quantity]:
    """Costs of missed contexts at the requester and at the responder, and of the responder's missed translations.

    The requester looks up a context for each doorbell. The responder of an RC WRITE checks key, address and packet
    number before it takes the next packet. It looks up others early: a SEND with its receive WQE, a READ request in a
    queue that it reads ahead, and UC while earlier packets are placed. An entry that was looked up early and left the
    chip before use costs as much as that of a WRITE. A context stays loaded for all WQEs of a visit. The translations
    of one post are looked up ahead.
    """
    context, translation = subsystem.context_cache, subsystem.translation_cache
    early = 1.0 - t.is_rc_write
    contexts = sets.context_misses * (t.is_rc_write + early * sets.contexts_lost)
    translations = sets.translation_misses * (t.is_rc_write + early * sets.translations_lost)
    overlap = n.least(t.wqe_batch, translation.look_ahead_messages) * translation.outstanding_misses
    load = context.miss_seconds / context.outstanding_misses
    return (
        sets.context_misses * sets.contexts_lost * load / t.wqe_batch,
        contexts * load / m.visit_wqes,
        translations * translation.miss_seconds / overlap,
    )


def _arrival(
    subsystem: Subsystem,
    n: Numbers,
    m: MessageCosts,
    sets: WorkingSets,
    here: _BufferLocation,
    unacknowledged: Quantity,
    unarbitrated: Quantity,
) -> PathCosts:
    placement_bps, link, bridge = subsystem.engine.placement_bps, subsystem.socket_link, subsystem.gpu_bridge
    line_rate = subsystem.wire.line_rate_bps
    waiting = m.receives.waiting * sets.receive_misses + m.receives.fetched_again
    turned = m.turned * unarbitrated
    crossing = here.far * m.payload_bits * (m.flushes / link.streamed_rate_bps + (1.0 - m.flushes) / link.rate_bps)
    redirected = here.near_gpu * bridge.redirects * m.payload_bits
    written = m.flushes / bridge.contended_write_bps + (1.0 - m.flushes) / (8.0 * subsystem.pcie.bytes_per_second)
    # READs: WQEs fetched beyond the outstanding limit leave the chip, with the later blocks of a long list. The new
    # fetch queues behind the payload reads for this host's responses. WRITEs: the acknowledgement of a small message
    # finds bulk data in the pipeline, its burst too long for the unit, and the state of its queue pair not on chip.
    held_up = m.scatter * overrun(n, sets.reads, subsystem.reads.scatter_lists)
    held_up = held_up + m.answered * unacknowledged
    to_placement = line_rate / placement_bps
    return PathCosts(
        out=(0.0, m.answering * to_placement + held_up, 0.0, 0.0, turned, crossing, m.asks * m.ordered_write, 0.0),
        into=(
            m.place,
            m.moving * to_placement,
            waiting,
            m.pending,
            turned,
            crossing,
            m.ordered + (1.0 - m.asks) * m.ordered_write,
            redirected * written,
        ),
        loop=(m.place, 0.0, waiting, m.pending, 0.0, 2.0 * crossing, 0.0, redirected * written) if here.loops else (),
    )
