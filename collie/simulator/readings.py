"""Counter readings of a steady state, per second and host.

Diagnostic counters also count near misses, so they rise before throughput falls. They follow powers of a utilisation u:
the queue of a busy stage is at least k long with probability u^k (M/M/1).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from collie.simulator.caches import miss_ratio, pressure
from collie.simulator.costs import (
    ARBITER,
    CONTEXT,
    CREDITS,
    ENGINE,
    MEMORY,
    ORDERED_WRITES,
    PEER_READS,
    PEER_WRITES,
    PLACEMENT,
    SOCKET_LINK,
    STAGING,
    TAGS,
    TRANSLATION,
    TRANSMIT,
    HostCosts,
)
from collie.simulator.demand import receive_queues
from collie.simulator.hardware import Cache, Subsystem
from collie.simulator.model import FlowRates, HostLoad, SteadyState, in_flight, wrong_packets
from collie.simulator.numbers import Numbers, Quantity, Vector


class _Diagnostics(NamedTuple):
    receive_wqe_cache_miss: Quantity
    sq_wqe_cache_miss: Quantity
    icm_cache_miss: Quantity
    mtt_cache_miss: Quantity
    reqsl_cache_miss: Quantity
    pcie_internal_back_pressure: Quantity
    pcie_read_stalled_tags: Quantity
    pcie_write_stalled_ordering: Quantity
    outbound_pci_stalled_rd: Quantity
    outbound_pci_stalled_wr: Quantity
    rx_packet_buffer_full: Quantity
    packet_engine_busy: Quantity
    ack_engine_busy: Quantity
    tx_stopped_e2e_credits: Quantity
    loopback_back_pressure: Quantity
    rx_steering_stalled: Quantity
    out_of_buffer: Quantity


class _FaultReadings(NamedTuple):
    rx_crc_errors: Quantity
    out_of_sequence: Quantity
    packets_sent_again: Quantity
    memory_stalled: Quantity


_PORT: Final = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets", "tx_pause_duration", "rx_pause_duration")

COUNTERS: Final = _PORT + _Diagnostics._fields

PORT_COUNTERS: Final = len(_PORT)
"""The leading ones follow throughput and pause without separate noise."""

FLEET_COUNTERS: Final = _FaultReadings._fields
"""Additional counters of `counters_between`."""

_CYCLES_PER_SECOND: Final = 1e9
_BURST_BYTES: Final = 32 * 1024
"""Several bursts of arrivals fill the buffer to its threshold."""
_WQE_CACHE_SHARPNESS: Final = 2.0
_WQE_CACHE_CONFLICTS: Final = 0.05


def counters(subsystem: Subsystem, state: SteadyState) -> tuple[Vector, Vector]:
    """Return the increase per second of every counter, of two equal hosts a and b."""
    shared = _near_misses(subsystem, state, lossless=state.lossless)
    source, sink = _port(state)
    source += _diagnostics(subsystem, state, shared, state.source, state.costs.source, state.back, state.forth, None)
    sink += _diagnostics(subsystem, state, shared, state.sink, state.costs.sink, state.forth, state.back, state.loop)
    return state.numbers.exchange(state.traffic.is_read, source, sink)


def counters_between(a: Subsystem, b: Subsystem, state: SteadyState) -> tuple[Vector, Vector]:
    """The same for two hosts that can differ, with `FLEET_COUNTERS` last."""
    of_source, of_sink = (b, a) if state.traffic.is_read else (a, b)
    source, sink = _port(state)
    for readings, host, load, costs, coming, leaving, loop in (
        (source, of_source, state.source, state.costs.source, state.back, state.forth, None),
        (sink, of_sink, state.sink, state.costs.sink, state.forth, state.back, state.loop),
    ):
        shared = _near_misses(host, state, lossless=load.pauses)
        readings += _diagnostics(host, state, shared, load, costs, coming, leaving, loop)
        readings += _faults(host, state, load, costs, coming, leaving)
    return state.numbers.exchange(state.traffic.is_read, source, sink)


def _faults(
    host: Subsystem, state: SteadyState, load: HostLoad, costs: HostCosts, coming: FlowRates, leaving: FlowRates
) -> _FaultReadings:
    t = state.traffic
    arrivals, departures = coming.sent * t.packets, leaving.sent * t.packets
    return _FaultReadings(
        rx_crc_errors=arrivals * wrong_packets(host.wire.bit_error_ratio, t),
        out_of_sequence=arrivals * state.wrong * t.is_rc,
        packets_sent_again=departures * state.wrong * in_flight(leaving, costs, t) * t.is_rc,
        memory_stalled=_stalled(state.numbers, load.steady[MEMORY]),
    )


def _port(state: SteadyState) -> tuple[list[Quantity], list[Quantity]]:
    traffic, costs = state.traffic, state.costs
    forth, back = state.forth.sent, state.back.sent
    forth_bytes = forth * traffic.wire + back * costs.answer_bytes
    back_bytes = back * traffic.wire + forth * costs.answer_bytes
    forth_packets = forth * traffic.packets + back * costs.answers
    back_packets = back * traffic.packets + forth * costs.answers
    source_pause = sink_pause = 0.0
    if state.source.pauses:
        source_pause = 1e6 * (1.0 - state.source.accepted)
    if state.sink.pauses:
        sink_pause = 1e6 * (1.0 - state.sink.accepted)
    return (
        [forth_bytes, back_bytes, forth_packets, back_packets, source_pause, sink_pause],
        [back_bytes, forth_bytes, back_packets, forth_packets, sink_pause, source_pause],
    )


class _NearMisses(NamedTuple):
    """Contribution of one message to diagnostic counters, before the host's share.

    Attributes:
        late: receives that are not on chip, even with an ideal cache. A datagram needs its receive once. Each further
            packet of an RC message needs it again.
        reading_lists: scatter lists of READs that leave the chip.
        spilled: packets with a lookup of their READ request.
        lookups: translations that were not looked up ahead.
        bursts: bursts that fill the receive buffer to its threshold.
    """

    late: Quantity
    reading_lists: Quantity
    spilled: Quantity
    answered: Quantity
    lookups: Quantity
    bursts: float


def _near_misses(subsystem: Subsystem, state: SteadyState, *, lossless: bool) -> _NearMisses:
    t, n = state.traffic, state.numbers
    reads, acks, buffer = subsystem.reads, subsystem.acknowledgements, subsystem.receive_buffer
    late = reading_lists = spilled = answered = 0.0
    if n.anywhere(t.receives):
        for (queues, used), lookups in zip(receive_queues(subsystem, t), (1.0, t.packets - 1.0), strict=True):
            long_queue = pressure(n, t.recv_depth, queues.resident_wqes_per_queue)
            late = late + used * lookups * pressure(n, t.wqe_batch, queues.prefetch_wqes) * long_queue
    if n.anywhere(t.is_read):
        reading_lists = t.is_read * t.early_list * pressure(n, t.wqe_batch, t.outstanding)
        spilled = t.is_read * t.packets * pressure(n, t.qps * t.started, reads.pending_requests)
    if n.anywhere(t.is_rc_write):
        answered = t.is_rc_write * t.small_beside_bulk * pressure(n, t.wqe_batch, acks.burst_messages)
    return _NearMisses(
        late=late,
        reading_lists=reading_lists,
        spilled=spilled,
        answered=answered,
        lookups=1.0 / n.least(t.wqe_batch, subsystem.translation_cache.look_ahead_messages),
        bursts=(buffer.xoff_bytes if lossless else buffer.size_bytes) / _BURST_BYTES,
    )


def _diagnostics(
    subsystem: Subsystem,
    state: SteadyState,
    shared: _NearMisses,
    load: HostLoad,
    costs: HostCosts,
    coming: FlowRates,
    leaving: FlowRates,
    loop: FlowRates | None,
) -> _Diagnostics:
    t, n, sets, steady, arrival = state.traffic, state.numbers, costs.sets, load.steady, load.arrival
    inbound, outbound, circling = coming.sent, leaving.sent, 0.0
    if loop is not None:
        inbound, outbound = inbound + loop.sent, outbound + loop.sent
        circling = loop.offered * t.packets * n.least(1.0, n.most(load.upstream, load.loopback**4))
    arrivals = inbound * t.packets
    asked = n.choose(t.is_read, inbound, outbound)  # as requester
    messages = inbound + outbound
    busy = n.least(1.0, n.most(load.upstream, *arrival))
    engine = n.most(steady[TRANSMIT], n.least(1.0, n.most(arrival[ENGINE], arrival[ARBITER])))
    arriving = arrivals / subsystem.engine.packets_per_second
    crossing = n.most(arrival[SOCKET_LINK], arrival[ORDERED_WRITES], arrival[PEER_WRITES])
    lost = 1.0 - (load.kept if state.lossless else load.kept * load.accepted)
    lists = shared.reading_lists * pressure(n, sets.reads, subsystem.reads.scatter_lists)
    answers = shared.answered * pressure(n, sets.ends, subsystem.acknowledgements.contexts)
    lookups = messages * shared.lookups  # what was looked up ahead within a post is a hit when it is used
    # Short writes behind bulk ones; a host that also reads feels them more.
    ordered = coming.offered * t.ordering_pressure * t.early_list * n.choose(outbound > 0, 1.0, 0.1)
    return _Diagnostics(
        receive_wqe_cache_miss=inbound * t.receives * (shared.late + sets.receive_misses),
        sq_wqe_cache_miss=asked * (_wqe_misses(sets.send_wqes, subsystem.send_wqe_cache.entries) + lists),
        icm_cache_miss=messages
        / state.costs.visit_wqes
        * sets.context_misses
        * _replays(subsystem.context_cache, steady[CONTEXT]),
        mtt_cache_miss=lookups * sets.translation_misses * _replays(subsystem.translation_cache, steady[TRANSLATION]),
        reqsl_cache_miss=inbound * shared.spilled,
        pcie_internal_back_pressure=_CYCLES_PER_SECOND * n.least(1.0, load.upstream**4 / 4.0),
        pcie_read_stalled_tags=outbound * t.gather_requests * steady[TAGS] ** 2,
        pcie_write_stalled_ordering=ordered,
        outbound_pci_stalled_rd=_stalled(n, n.most(steady[STAGING], steady[PEER_READS])),
        outbound_pci_stalled_wr=_stalled(n, crossing),
        rx_packet_buffer_full=arrivals * busy**shared.bursts,
        packet_engine_busy=t.slow * messages * t.packets + arrivals * engine**4,
        ack_engine_busy=outbound * answers,
        tx_stopped_e2e_credits=_stalled(n, steady[CREDITS]),
        loopback_back_pressure=circling,
        rx_steering_stalled=arrivals * n.least(1.0, n.most(arriving, arrival[PLACEMENT] - 0.5)) ** 2,
        out_of_buffer=arrivals * lost,
    )


def _stalled(numbers: Numbers, busy: Quantity) -> Quantity:
    return _CYCLES_PER_SECOND * numbers.least(1.0, busy) ** 4


def _replays(cache: Cache, busy: Quantity) -> Quantity:
    """Lookups per miss. Requests behind a blocking miss are looked up again, once for each miss in flight."""
    return 1.0 + cache.outstanding_misses * busy


def _wqe_misses(posted: Quantity, entries: int) -> Quantity:
    return miss_ratio(posted, entries, _WQE_CACHE_SHARPNESS, _WQE_CACHE_CONFLICTS)
