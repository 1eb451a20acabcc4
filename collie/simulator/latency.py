"""Latency of the messages of each flow in a steady state, from post to completion. Pure.

Terms. A message is *complete* when its requester can poll the completion: after the acknowledgement (RC), with the last
byte of the response (READ), and on arrival for UC and UD, which are not acknowledged. The *one-way* latency ends when
the payload is visible in the sink's memory, like half of perftest's ping-pong. For a READ both are equal.

Rules.
1. *Unloaded*. A message passes its stages one after another. Its packets overlap: the first packet passes every stage,
   and the others add only the time of the slowest stage.
2. *Queues*. Each stage is an M/G/1 queue with utilisation u. The mean wait is sum(r E[S^2]) / (2 (1 - u)) over flows
   with r messages/s and service time S (Pollaczek and Khinchine). The request vector decides E[S^2], so a short message
   waits behind bulk ones. Messages of one post arrive at once. The stages of a host overlap, so a message waits only at
   the host's busiest stage (Friedman 1965). The receive buffer bounds the wait at a receiver.
3. *Tail*. A wait exceeds t with probability u exp(-t / D), where D is the mean over the messages that wait. This is
   exact for M/M/1, and holds for M/G/1 under load (Kingman). Cache misses and pauses are waits of this form, too. The
   median latency is the unloaded median plus the medians of the waits. A higher quantile is the sum of the means plus
   the root of the summed squares of the excesses over them.
4. *Full send queues*. By Little's law, the latency is the number of posted messages divided by messages/s. The queues
   of a flow are full if it gets less than its offered load. Their quantiles are upper bounds at any lower load, unless
   the flow then gets more messages/s.

The latency of a flow is 0 at a point without traffic. It is None if the flow has no traffic at any point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from math import inf
from typing import Final, NamedTuple

from collie.simulator.caches import pushed_out
from collie.simulator.costs import DOWNSTREAM, WIRE, HostCosts, PathCosts
from collie.simulator.hardware import Subsystem
from collie.simulator.model import FlowRates, HostLoad, SteadyState, with_full_queues, yielding
from collie.simulator.numbers import Numbers, Quantity, Vector
from collie.simulator.traffic import TrafficArrays
from collie.simulator.wire import ACK_BYTES, READ_REQUEST_BYTES

_TAILS: Final = ((0.01, 2.326), (0.001, 3.090))
"""Share of slower messages, and the matching quantile of the standard normal distribution."""
_FULL: Final = 1.0 - 1e-9
"""Largest utilisation of a queue. Full send queues bound its wait."""
_TINY: Final = 1e-30
_REACHED: Final = 1.0 + 1e-9


class Distribution(NamedTuple):
    """Quantiles of a latency in seconds."""

    median: Quantity
    p99: Quantity
    p999: Quantity


class FlowLatency(NamedTuple):
    """Latency of the messages of a flow, until they are complete and until their payload has arrived."""

    completion: Distribution
    one_way: Distribution


class Latencies(NamedTuple):
    """Latency of each flow, None for a flow that delivers nothing at any point."""

    forth: FlowLatency | None
    back: FlowLatency | None
    loop: FlowLatency | None


class Wait(NamedTuple):
    """A wait: its probability, its mean over all messages, and a bound on its mean over the messages that wait."""

    busy: Quantity
    mean: Quantity
    depth: Quantity


class _Way(NamedTuple):
    """One flow, with the hosts and the load on its path.

    Attributes:
        start, end: hosts of the sender and of the receiver.
        sends, receives: costs of the flow at the stages of the sender and of the receiver.
        leaving, arriving: messages/s out of, into and inside the host, for the sender and for the receiver.
        paused, unanswered: share of the time for which messages and their acknowledgements are paused.
        loads: utilisation of the sender and of the receiver.
        late: seconds by which the memory of sender and receiver is slower than memory next to the NIC.
    """

    flow: FlowRates
    start: Subsystem
    end: Subsystem
    sender: HostCosts
    receiver: HostCosts
    sends: Vector
    receives: tuple[Vector, Vector]
    leaving: tuple[Quantity, Quantity, Quantity]
    arriving: tuple[Quantity, Quantity, Quantity]
    paused: Quantity
    unanswered: Quantity
    loads: tuple[HostLoad, HostLoad]
    late: tuple[Quantity, Quantity]
    is_loop: bool


class _Unloaded(NamedTuple):
    """Seconds on idle hosts: one-way latency of a message of middle, mean and largest size, and that of the answer."""

    middle: Quantity
    mean: Quantity
    longest: Quantity
    answer: Quantity


def latencies(subsystem: Subsystem, state: SteadyState) -> Latencies:
    """Return the latency of each flow between two equal hosts."""
    return latencies_between(subsystem, subsystem, state)


def latencies_between(a: Subsystem, b: Subsystem, state: SteadyState) -> Latencies:
    """Return the latency of each flow between hosts a and b."""
    source, sink = (b, a) if a is not b and state.traffic.is_read else (a, b)
    full, is_open = state, state.numbers.anywhere(state.traffic.offered < inf)
    if is_open:
        full = with_full_queues(source, sink, state)
    ways = zip(_ways(source, sink, state), _ways(source, sink, full), strict=True)
    return Latencies(*(_latency(state, way, limit, is_open=is_open) for way, limit in ways))


def latency_in_turns(
    subsystem: Subsystem, state: SteadyState, full_rate: Quantity, in_turns: Sequence[Wait]
) -> Distribution:
    """Return the completion latency of a plain flow between two equal hosts that other tenants use, too.

    `state` holds the messages/s that the flow gets, and costs with the caches shared. With full send queues it would
    get `full_rate` messages/s. The waits `in_turns` are those for resources that other tenants use.
    """
    n, t = state.numbers, state.traffic
    way = next(_ways(subsystem, subsystem, state))
    unloaded, misses = _unloaded(t, way, n), [*_misses(t, way, n), *_delays(state, way)]
    most = _in_full_queues(t, way, full_rate, misses, n)
    waits = [*misses, *_queues(state, way), *_waits_against(t, way, n), *in_turns]
    is_full = way.flow.sent * _REACHED < t.offered
    quantiles = zip(most, _sum(unloaded, unloaded.answer, waits, n), strict=True)
    return Distribution(*(n.choose(is_full, top, n.least(top, quantile)) for top, quantile in quantiles))


def _ways(source: Subsystem, sink: Subsystem, state: SteadyState) -> Iterator[_Way]:
    forth, back, loop, costs, t = state.forth, state.back, state.loop, state.costs, state.traffic
    at_source = forth.sent, back.sent, 0.0
    at_sink = back.sent, forth.sent, loop.sent * (1.0 - yielding(t, sink))  # loopback that yields does not delay others
    pauses, answers = 1.0 - state.sink.accepted, 1.0 - state.source.accepted
    if not state.lossless:
        pauses = answers = 0.0
    there, here = costs.sink, costs.source
    into = there.steady.into, there.arrival.into
    yield _Way(
        *(forth, source, sink, here, there, here.steady.out, into),
        *(at_source, at_sink, pauses, answers, (state.source, state.sink), (here.late, there.late)),
        is_loop=False,
    )
    into = here.steady.into, here.arrival.into
    yield _Way(
        *(back, sink, source, there, here, there.steady.out, into),
        *(at_sink, at_source, answers, pauses, (state.sink, state.source), (there.late, here.late)),
        is_loop=False,
    )
    at_sink = back.sent, forth.sent, loop.sent
    into = there.steady.loop, there.arrival.loop
    yield _Way(
        *(loop, sink, sink, there, there, there.steady.loop, into),
        *(at_sink, at_sink, 0.0, 0.0, (state.sink, state.sink), (there.late, there.late)),
        is_loop=True,
    )


def _latency(state: SteadyState, way: _Way, limit: _Way, *, is_open: bool) -> FlowLatency | None:
    n, t = state.numbers, state.traffic
    if not n.anywhere(way.flow.delivered):
        return None
    unloaded, misses = _unloaded(t, way, n), [*_misses(t, way, n), *_delays(state, way)]
    served, full_rate = _served(t, way.flow, n), _served(t, limit.flow, n)
    # With full queues, loopback can starve although it gets a share at this load.
    end = limit if n.anywhere(full_rate) else way
    most = _in_full_queues(t, end, n.most(full_rate, served), misses, n)
    answer = unloaded.answer
    until_arrival = [n.most(0.0, quantile - answer) for quantile in most]
    if not is_open:
        return _of_flow(way, most, until_arrival, n)
    waits, against = [*misses, *_queues(state, way)], list(_waits_against(t, way, n))
    both_ways = [*waits, *against]
    to_sink = [*waits, *(Wait(*(t.is_read * each for each in wait)) for wait in against)]
    is_full = served * _REACHED < t.offered

    def bounded(limits: Vector, quantiles: Vector) -> Vector:
        pairs = zip(limits, quantiles, strict=True)
        return [n.choose(is_full, top, n.least(top, quantile)) for top, quantile in pairs]

    return _of_flow(
        way,
        bounded(most, _sum(unloaded, answer, both_ways, n)),
        bounded(until_arrival, _sum(unloaded, 0.0, to_sink, n)),
        n,
    )


def _of_flow(way: _Way, completion: Vector, one_way: Vector, n: Numbers) -> FlowLatency:
    def known(quantiles: Vector) -> Distribution:
        return Distribution(*(n.choose(way.flow.delivered, quantile, 0.0) for quantile in quantiles))

    return FlowLatency(known(completion), known(one_way))


def _served(t: TrafficArrays, flow: FlowRates, n: Numbers) -> Quantity:
    """Return the messages/s that complete. UC and UD messages complete even when they are dropped."""
    return n.choose(t.is_rc, flow.delivered, flow.sent)


def _unloaded(t: TrafficArrays, way: _Way, n: Numbers) -> _Unloaded:
    start, end, asked_by_end = way.start, way.end, t.is_read
    idle = n.choose(asked_by_end, _idle_read(end), _idle_read(start))
    post = n.choose(asked_by_end, end.pcie.write_latency_seconds, start.pcie.write_latency_seconds)
    # A single post carries its WQE (BlueFlame). The NIC reads the WQEs of a list of posts, and the rest of a long WQE.
    fetch = ((t.wqe_batch > 1) + t.long_list) * idle
    read = n.least(1.0, t.gather_requests) * (_idle_read(start) + way.late[0])
    place = end.pcie.write_latency_seconds + way.late[1]
    bit = 1.0 / start.loopback.rate_bps if way.is_loop else 1.0 / start.wire.line_rate_bps
    flight = 0.0 if way.is_loop else start.wire.round_trip_seconds / 2.0
    request = 0.0 if way.is_loop else t.is_read * (flight + READ_REQUEST_BYTES * 8.0 * bit)
    slowest = n.most(*way.sends, *way.receives[0], *way.receives[1])
    per_byte = (
        t.gather / start.pcie.bytes_per_second / t.payload,
        8.0 * bit * (1.0 if way.is_loop else t.wire / t.payload),
        t.place / end.pcie.bytes_per_second / t.payload,
    )
    rest = n.most(*per_byte, slowest / t.payload)
    before = post + fetch + read + place + request + flight

    def one_way(size: Quantity, ahead: float) -> Quantity:
        first = n.least(size, t.mtu)
        others = ahead * (t.wqe_batch - 1.0) * slowest  # of the same post
        return before + first * sum(per_byte) + (size - first) * rest + others

    answer = t.is_rc * (1.0 - t.is_read) * (0.0 if way.is_loop else flight + ACK_BYTES * 8.0 * bit)
    return _Unloaded(one_way(t.middle, 0.5), one_way(t.payload, 0.5), one_way(t.longest, 1.0), answer)


def _idle_read(subsystem: Subsystem) -> float:
    return min(subsystem.pcie.idle_read_latency_seconds, subsystem.pcie.read_latency_seconds)


def _queues(state: SteadyState, way: _Way) -> Iterator[Wait]:
    """Yield the waits at the busiest stage of the sender and of the receiver."""
    n, t, costs = state.numbers, state.traffic, state.costs
    together = t.spread + t.wqe_batch - 1.0
    alone = [1.0 / costs.fetch_limit, way.sender.trip / (t.qps * t.outstanding)]
    if way.is_loop:
        alone = [1.0 / costs.fetch_limit, way.sender.round_trip / (t.qps * t.outstanding), costs.loopback]
    stages = list(_stages(way.sender.steady, way.leaving, way.sends, n))
    stages += [(way.flow.sent * cost, way.flow.sent * cost**2, cost) for cost in alone]
    yield _busiest(stages, together, None, n)
    upstream = costs.upstream_in / way.end.pcie.bytes_per_second
    busy = way.loads[1].upstream
    stages = [(busy, busy * upstream, upstream)]
    if not way.is_loop:
        stages += _stages(way.receiver.steady, way.arriving, way.receives[0], n)
    stages += _stages(way.receiver.arrival, way.arriving, way.receives[1], n)
    yield _busiest(stages, together, n.most(1.0, way.end.receive_buffer.xoff_bytes / t.wire), n)


def _stages(
    paths: PathCosts, rates: tuple[Quantity, Quantity, Quantity], own: Vector, n: Numbers
) -> Iterator[tuple[Quantity, Quantity, Quantity]]:
    """Yield utilisation, sum of r c^2 and largest c of each stage that a flow uses, for rates r and costs c."""
    leaving, coming, looping = rates
    for out, into, loop, cost in zip(paths.out, paths.into, paths.loop or repeat(0.0), own, strict=False):
        if n.anywhere(cost):
            used = n.choose(cost, 1.0, 0.0)
            load = leaving * out + coming * into + looping * loop
            squares = leaving * out**2 + coming * into**2 + looping * loop**2
            largest = n.most(out * (leaving > 0), into * (coming > 0), loop * (looping > 0))
            yield used * load, used * squares, used * largest


def _busiest(
    stages: Sequence[tuple[Quantity, Quantity, Quantity]], together: Quantity, room: Quantity | None, n: Numbers
) -> Wait:
    busy = mean = depth = 0.0
    for load, squares, largest in stages:
        load = n.least(load, _FULL)
        slower = together / (2.0 * (1.0 - load))
        if room is not None:
            slower = n.least(slower, room)
        busy, mean = n.most(busy, load), n.most(mean, squares * slower)
        depth = n.most(depth, largest * slower)
    return Wait(busy, mean, depth)


def _misses(t: TrafficArrays, way: _Way, n: Numbers) -> list[Wait]:
    """Return the waits for tables in host memory: contexts and translations of both hosts, and the sink's receives."""
    found = []
    for subsystem, host in ((way.start, way.sender), (way.end, way.receiver)):
        found += [
            (host.sets.context_misses, subsystem.context_cache.miss_seconds),
            (host.sets.translation_misses, subsystem.translation_cache.miss_seconds),
        ]
    if n.anywhere(t.receives):
        datagram, reliable = way.end.datagram_receives.fetch_seconds, way.end.reliable_receives.fetch_seconds
        found.append((t.receives * way.receiver.sets.receive_misses, n.choose(t.is_ud, datagram, reliable)))
    return [Wait(ratio, ratio * seconds, seconds) for ratio, seconds in found]


def _delays(state: SteadyState, way: _Way) -> Iterator[Wait]:
    """Yield the waits that use up no resource (`hardware.Delays`). Those of this subsystem can all be 0."""
    n, t = state.numbers, state.traffic
    if timer := way.end.delays.acknowledgement_timer_seconds:
        # An acknowledgement that covers several messages leaves early if they arrive within the period.
        filled = way.end.engine.messages_per_ack * t.qps / n.most(way.flow.sent, _TINY)
        period = t.is_rc * (1.0 - t.is_read) * n.least(timer, filled)
        share = way.receiver.on_timer
        yield Wait(share, share * period / 2.0, period / 2.0)
    for subsystem, load in zip((way.start, way.end), way.loads, strict=True):
        delays, busy = subsystem.delays, n.least(1.0, n.most(load.steady[DOWNSTREAM], load.upstream))
        cold = pushed_out(n, t.qps * t.regions, delays.cold_regions)
        long = n.choose(t.entries >= delays.long_list_entries, 1.0, 0.0)
        for share, seconds in ((cold, delays.cold_region_seconds), (long, delays.long_list_seconds)):
            if seconds:
                yield Wait(share, share * busy * seconds, busy * seconds)
    if (burst := way.end.delays.loopback_burst_seconds) and not way.is_loop:
        bursts = way.loads[1].loopback * t.streamed
        yield Wait(bursts, bursts * burst / 2.0, burst)


def _waits_against(t: TrafficArrays, way: _Way, n: Numbers) -> Iterator[Wait]:
    """Yield the waits of acknowledgements and READ requests: for the wire, and during its pauses."""
    if way.is_loop or not n.anywhere(t.is_rc):
        return
    paths = way.receiver.steady
    wire = PathCosts(paths.out[WIRE : WIRE + 1], paths.into[WIRE : WIRE + 1], ())
    wait = _busiest(list(_stages(wire, way.arriving, wire.into, n)), t.spread + t.wqe_batch - 1.0, None, n)
    yield Wait(t.is_rc * wait.busy, t.is_rc * wait.mean, t.is_rc * wait.depth)
    yield _pause(t.is_rc * way.unanswered, way.start)


def _pause(ratio: Quantity, receiver: Subsystem) -> Wait:
    """Return the wait in a pause. A pause ends when the buffer is drained, so a message waits for half of it."""
    seconds = receiver.receive_buffer.xoff_bytes * 8.0 / receiver.wire.line_rate_bps
    return Wait(ratio, ratio * seconds / 2.0, seconds / 2.0)


def _sum(unloaded: _Unloaded, answer: Quantity, waits: Sequence[Wait], n: Numbers) -> Vector:
    """Return the quantiles of a latency below saturation."""
    median = unloaded.middle + answer
    mean = unloaded.mean + answer
    for wait in waits:
        likely = n.most(1.0, 2.0 * wait.busy)
        median = median + wait.mean * n.log(likely) * 2.0 / likely
        mean = mean + wait.mean
    late = n.most(0.0, unloaded.longest - unloaded.mean)
    return [median, *(mean + _excess(late, waits, share, n) for share, _ in _TAILS)]


def _excess(late: Quantity, waits: Sequence[Wait], share: float, n: Numbers) -> Quantity:
    """Return the excess over the mean that `share` of the messages exceed, for independent waits."""
    squares = late**2
    for busy, _, depth in waits:
        over = n.log(n.most(busy, share) / share) - busy
        squares = squares + (depth * n.most(0.0, over)) ** 2
    return squares**0.5


def _in_full_queues(t: TrafficArrays, way: _Way, rate: Quantity, misses: Sequence[Wait], n: Numbers) -> Vector:
    """Return the latencies in full send queues. They vary with the sizes of messages ahead, and with pauses."""
    posted = t.qps * t.send_depth
    mean = posted / n.most(rate, _TINY)
    spread = mean * (n.most(0.0, t.spread - 1.0) / posted) ** 0.5
    waits = [*misses, _pause(way.paused, way.end)]
    return [mean, *(mean + _excess(normal * spread, waits, share, n) for share, normal in _TAILS)]
