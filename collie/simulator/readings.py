"""Counter readings of a steady state, per second and host.

A diagnostic counter is the rate of an event of the model, whether or not the event costs throughput yet. Two kinds of
events are no part of the costs, because they only delay: what comes to a busy stage waits, with the probability of the
stage's utilisation u, and a queue is at least k long with the probability u^k (M/M/1).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from collie.simulator.caches import miss_ratio
from collie.simulator.costs import (
    CREDITS,
    ENGINE,
    MEMORY,
    PEER_READS,
    PEER_WRITES,
    PLACEMENT,
    SOCKET_LINK,
    TAGS,
    TRANSMIT,
    HostCosts,
)
from collie.simulator.hardware import Subsystem
from collie.simulator.model import FlowRates, HostLoad, SteadyState, in_flight, wrong_packets
from collie.simulator.numbers import Numbers, Quantity, Vector


class _Diagnostics(NamedTuple):
    receive_wqe_cache_miss: Quantity
    sq_wqe_cache_miss: Quantity
    icm_cache_miss: Quantity
    mtt_cache_miss: Quantity
    reqsl_cache_miss: Quantity
    ack_context_miss: Quantity
    pcie_internal_back_pressure: Quantity
    pcie_read_stalled_tags: Quantity
    pcie_read_stalled_ordering: Quantity
    pcie_write_stalled_ordering: Quantity
    pcie_read_latency: Quantity
    pcie_writes_outstanding: Quantity
    outbound_pci_stalled_rd: Quantity
    outbound_pci_stalled_wr: Quantity
    rx_packet_buffer_full: Quantity
    packet_engine_busy: Quantity
    packet_engine_turns: Quantity
    ack_engine_busy: Quantity
    tx_packet_gathered_again: Quantity
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
_BACKED_UP: Final = 8
"""Transfers that wait when a unit signals back pressure."""
_MOST_QUEUED: Final = 256
_WQE_CACHE_SHARPNESS: Final = 2.0
_WQE_CACHE_CONFLICTS: Final = 0.05


def counters(subsystem: Subsystem, state: SteadyState) -> tuple[Vector, Vector]:
    """Return the increase per second of every counter, of two equal hosts a and b."""
    source, sink = _port(state)
    source += _diagnostics(subsystem, state, state.source, state.costs.source, state.back, state.forth, None)
    sink += _diagnostics(subsystem, state, state.sink, state.costs.sink, state.forth, state.back, state.loop)
    return state.numbers.exchange(state.traffic.is_read, source, sink)


def counters_between(a: Subsystem, b: Subsystem, state: SteadyState) -> tuple[Vector, Vector]:
    """The same for two hosts that can differ, with `FLEET_COUNTERS` last."""
    of_source, of_sink = (b, a) if state.traffic.is_read else (a, b)
    source, sink = _port(state)
    for readings, host, load, costs, coming, leaving, loop in (
        (source, of_source, state.source, state.costs.source, state.back, state.forth, None),
        (sink, of_sink, state.sink, state.costs.sink, state.forth, state.back, state.loop),
    ):
        readings += _diagnostics(host, state, load, costs, coming, leaving, loop)
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
        memory_stalled=_backed_up(state.numbers, load.steady[MEMORY]),
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


def _diagnostics(
    subsystem: Subsystem,
    state: SteadyState,
    load: HostLoad,
    costs: HostCosts,
    coming: FlowRates,
    leaving: FlowRates,
    loop: FlowRates | None,
) -> _Diagnostics:
    t, n, sets, steady, arrival = state.traffic, state.numbers, costs.sets, load.steady, load.arrival
    events, receives = state.costs.events, state.costs.receives
    inbound, outbound, circling = coming.sent, leaving.sent, 0.0
    if loop is not None:
        inbound, outbound = inbound + loop.sent, outbound + loop.sent
        circling = loop.offered * t.packets * _waiting(n, load.upstream, load.loopback)
    arrivals, departures = inbound * t.packets, outbound * t.packets
    asked = n.choose(t.is_read, inbound, outbound)  # as requester
    messages = inbound + outbound
    reads, writes = outbound * t.gather_requests, inbound * t.place / subsystem.pcie.max_payload_bytes
    read_seconds, write_seconds = _memory_latency(subsystem, state, load, costs)
    acknowledged = outbound * events.acknowledged * costs.unacknowledged
    engine_busy = _waiting(n, arrival[ENGINE]) * arrivals + _waiting(n, steady[TRANSMIT]) * departures
    lost = 1.0 - (load.kept if state.lossless else load.kept * load.accepted)
    ordered = t.two_way * subsystem.pcie.strict_ordering
    return _Diagnostics(
        receive_wqe_cache_miss=inbound * (receives.pushed_out + receives.on_demand * sets.receive_misses),
        sq_wqe_cache_miss=asked * (_wqe_misses(sets.send_wqes, subsystem.send_wqe_cache.entries) + events.refetched),
        icm_cache_miss=((messages - asked) / state.costs.visit_wqes + asked / t.wqe_batch) * sets.context_misses,
        mtt_cache_miss=messages * sets.translation_misses,
        reqsl_cache_miss=inbound * events.spilled,
        ack_context_miss=acknowledged,
        pcie_internal_back_pressure=_backed_up(n, load.upstream),
        pcie_read_stalled_tags=reads * _waiting(n, steady[TAGS]),
        pcie_read_stalled_ordering=reads * ordered * _waiting(n, load.upstream),
        pcie_write_stalled_ordering=n.choose(t.is_read, inbound, outbound) * ordered * t.ordering_waits,
        pcie_read_latency=1e6 * read_seconds,
        pcie_writes_outstanding=writes * write_seconds,
        outbound_pci_stalled_rd=reads * _waiting(n, steady[PEER_READS], arrival[SOCKET_LINK]),
        outbound_pci_stalled_wr=writes * _waiting(n, arrival[PEER_WRITES], arrival[SOCKET_LINK]),
        rx_packet_buffer_full=arrivals * (1.0 - load.accepted),
        packet_engine_busy=engine_busy,
        packet_engine_turns=messages * events.turned * costs.unarbitrated,
        ack_engine_busy=outbound * events.held * costs.unacknowledged,
        tx_packet_gathered_again=departures * sets.staging_misses,
        tx_stopped_e2e_credits=inbound * _waiting(n, steady[CREDITS]),
        loopback_back_pressure=circling,
        rx_steering_stalled=arrivals * _waiting(n, arrival[PLACEMENT]),
        out_of_buffer=arrivals * lost,
    )


def _memory_latency(
    subsystem: Subsystem, state: SteadyState, load: HostLoad, costs: HostCosts
) -> tuple[Quantity, Quantity]:
    """Return the seconds of a PCIe read and of a PCIe write, with the queue in front of the link between sockets."""
    n = state.numbers
    transfer = 8.0 * subsystem.pcie.max_payload_bytes / subsystem.socket_link.rate_bps
    queue = transfer * _length(n, load.arrival[SOCKET_LINK])
    read = subsystem.pcie.read_latency_seconds + costs.late + queue
    return read, 0.5 * subsystem.pcie.read_latency_seconds + costs.late + queue


def _length(numbers: Numbers, busy: Quantity) -> Quantity:
    """Return the transfers in a queue (M/M/1), at most what the flow control of PCIe lets out."""
    spare = numbers.most(1.0 / _MOST_QUEUED, 1.0 - busy)
    return numbers.least(1.0, busy) / spare


def _waiting(numbers: Numbers, *busy: Quantity) -> Quantity:
    """Return the share of arrivals that find the busiest of some stages busy."""
    return numbers.least(1.0, numbers.most(0.0, *busy))


def _backed_up(numbers: Numbers, busy: Quantity) -> Quantity:
    """Return the cycles/s in which `_BACKED_UP` transfers or more wait."""
    return _CYCLES_PER_SECOND * numbers.least(1.0, busy) ** _BACKED_UP


def _wqe_misses(posted: Quantity, entries: int) -> Quantity:
    return miss_ratio(posted, entries, _WQE_CACHE_SHARPNESS, _WQE_CACHE_CONFLICTS)
