"""From a steady state to what its counters read, per second and host. The same quantities, no second arithmetic.

Diagnostic counters count near misses, too: a stage that is 80 % busy lets some of its arrivals wait. That is why they
rise before throughput falls. They follow powers of a utilisation u, as the chance that a queue in front of a busy stage
is at least k long does (u^k, M/M/1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collie.simulator.caches import miss_ratio, pressure
from collie.simulator.costs import CONTEXT, ENGINE, LOOPBACK, TAGS, TRANSLATION, TRANSMIT
from collie.simulator.demand import KINDS
from collie.simulator.model import State
from collie.simulator.subsystem import Cache, Subsystem
from collie.simulator.wire import ACK_BYTES, READ_REQUEST_BYTES
from collie.workloads.workload import Opcode, QpType, Workload

COUNTERS: Final = (
    "tx_bytes",
    "rx_bytes",
    "tx_packets",
    "rx_packets",
    "tx_pause_duration",
    "rx_pause_duration",
    "receive_wqe_cache_miss",
    "sq_wqe_cache_miss",
    "icm_cache_miss",
    "mtt_cache_miss",
    "pcie_internal_back_pressure",
    "pcie_read_stalled_tags",
    "pcie_write_stalled_ordering",
    "rx_packet_buffer_full",
    "packet_engine_busy",
    "loopback_back_pressure",
    "rx_steering_stalled",
    "out_of_buffer",
)
"""In the order of `counters`; the catalog `simulated` describes them."""

_CYCLES_PER_SECOND: Final = 1e9
_BURST_BYTES: Final = 32 * 1024
"""Arrivals come in bursts: that many of them fill the buffer to its threshold."""
_WQE_CACHE_SHARPNESS: Final = 2.0
_WQE_CACHE_CONFLICTS: Final = 0.05


def counters(subsystem: Subsystem, workload: Workload, state: State, host: int) -> tuple[float, ...]:
    """Return the advance per second of every counter of one host."""
    return _port(subsystem, workload, state, host) + _diagnostics(subsystem, workload, state, host)


def _port(subsystem: Subsystem, workload: Workload, state: State, host: int) -> tuple[float, ...]:
    out_bytes, in_bytes, out_packets, in_packets = 0.0, 0.0, 0.0, 0.0
    pattern = state.pattern
    answer_bytes, answers = 0.0, 0.0  # per message, against the payload: requests of READs, acknowledgements
    if workload.opcode is Opcode.READ:
        answer_bytes, answers = READ_REQUEST_BYTES, 1.0
    elif workload.qp_type is QpType.RC:
        answers = 1.0 / subsystem.engine.messages_per_ack
        answer_bytes = ACK_BYTES * answers
    for rate in state.flows:
        if rate.demand.is_loopback:
            continue
        sends = rate.demand.source == host
        data, packets = rate.sent * pattern.wire_bytes, rate.sent * pattern.packets
        back, back_packets = rate.sent * answer_bytes, rate.sent * answers
        out_bytes += data if sends else back
        out_packets += packets if sends else back_packets
        in_bytes += back if sends else data
        in_packets += back_packets if sends else packets
    return (
        out_bytes,
        in_bytes,
        out_packets,
        in_packets,
        1e6 * state.pause_ratio(host),
        1e6 * state.pause_ratio(1 - host),
    )


@dataclass(slots=True)
class _Tally:
    """What one host did per second.

    Attributes:
        requests, answers: messages as requester and as responder.
        visits: loads of a queue pair's context.
        reads: PCIe reads of payload.
        arrivals: packets with payload.
        slow: packets that the engine handled on its slow path, made or placed.
        looped: packets offered to the loopback path.
    """

    requests: float = 0.0
    answers: float = 0.0
    visits: float = 0.0
    reads: float = 0.0
    arrivals: float = 0.0
    slow: float = 0.0
    looped: float = 0.0


def _tally(state: State, host: int) -> _Tally:
    tally, pattern = _Tally(), state.pattern
    slow_packets = pattern.packets if pattern.slow else 0.0
    for rate in state.flows:
        demand, messages = rate.demand, rate.sent
        if demand.requester == host:
            tally.requests += messages
            tally.visits += messages / demand.visit_wqes
        if demand.responder == host:
            tally.answers += messages
            tally.visits += messages / demand.visit_wqes
        if demand.source == host:
            tally.reads += messages * pattern.gather_requests
            tally.slow += messages * slow_packets
        if demand.sink == host:
            tally.arrivals += messages * pattern.packets
            tally.slow += messages * slow_packets
            tally.looped += rate.offered * pattern.packets if demand.is_loopback else 0.0
    return tally


def _diagnostics(subsystem: Subsystem, workload: Workload, state: State, host: int) -> tuple[float, ...]:
    tally, sets, load = _tally(state, host), state.sets, state.loads[host]
    busy = state.steady[host * KINDS : (host + 1) * KINDS]
    received = tally.answers if workload.opcode.consumes_receive else 0.0
    context, translation = subsystem.context_cache, subsystem.translation_cache
    lookups = (tally.requests + tally.answers) / min(workload.wqe_batch, translation.look_ahead_messages)
    buffer = subsystem.receive_buffer
    room = (buffer.xoff_bytes if state.lossless else buffer.size_bytes) / _BURST_BYTES
    arriving = tally.arrivals / subsystem.engine.packets_per_second
    engine = max(busy[TRANSMIT], min(1.0, load.receive[ENGINE]))
    return (
        received * _receive_misses(subsystem, workload, sets.receive_wqes[host]),
        tally.requests * _wqe_misses(sets.send_wqes[host], subsystem.send_wqe_cache.entries),
        tally.visits * sets.context_misses[host] * _replays(context, busy[CONTEXT]),
        # What was looked up ahead within a post is a hit when it is used.
        lookups * sets.translation_misses[host] * _replays(translation, busy[TRANSLATION]),
        _CYCLES_PER_SECOND * min(1.0, load.upstream**4 / 4),
        tally.reads * busy[TAGS] ** 2,
        _ordering_stalls(state, host),
        tally.arrivals * min(1.0, load.utilisation) ** room,
        tally.slow + tally.arrivals * engine**4,
        tally.looped * min(1.0, max(load.upstream, busy[LOOPBACK] ** 4)),
        tally.arrivals * min(1.0, arriving) ** 2,
        tally.arrivals * state.loss_ratio(host),
    )


def _receive_misses(subsystem: Subsystem, workload: Workload, posted: int) -> float:
    """Share of receives that were not on chip when their packet came, whether or not that held anything up."""
    cache = subsystem.receive_wqe_cache
    late = pressure(workload.wqe_batch, 2 * cache.prefetch_wqes)
    late *= pressure(workload.recv_wq_depth, 2 * cache.resident_wqes_per_queue)
    return 1.0 - (1.0 - late) * (1.0 - _wqe_misses(posted, cache.entries))


def _replays(cache: Cache, busy: float) -> float:
    """Lookups per miss: what waits behind a blocking miss is looked up again, once for each miss in flight."""
    return 1.0 + cache.outstanding_misses * busy


def _wqe_misses(posted: int, entries: int) -> float:
    return miss_ratio(posted, entries, _WQE_CACHE_SHARPNESS, _WQE_CACHE_CONFLICTS)


def _ordering_stalls(state: State, host: int) -> float:
    """Short writes behind bulk ones; a host that also reads feels them more."""
    arriving = sum(rate.offered for rate in state.flows if rate.demand.sink == host)
    sending = any(rate.demand.source == host for rate in state.flows)
    return arriving * state.pattern.ordering_pressure * (1.0 if sending else 0.1)
