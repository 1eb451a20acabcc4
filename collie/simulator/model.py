"""The model: from a subsystem and a workload to a noiseless steady state. Pure.

A workload has at most three flows: from the payload's source to its sink, back, and from the sink to itself. The model
takes three steps (`docs/explanation/simulator.md` has the equations):

1. Each flow demands what its offered load, its window, its queue pairs and each resource alone allow. Flows that
   together overload a resource that slows senders get the same share of their demand.
2. A host whose receive side is overloaded pauses its peer for the missing share of the time, or drops packets on a
   lossy priority. Either can drop datagrams whose receive is late.
3. Loopback traffic gets the rest: what it yielded, and what a pause for other reasons leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from math import inf
from typing import NamedTuple

from collie.simulator.costs import Costs, HostCosts, PathCosts, costs_of
from collie.simulator.hardware import Subsystem
from collie.simulator.numbers import MANY, ONE, Numbers, Quantity, Vector
from collie.simulator.traffic import TrafficArrays, stack, traffic_of
from collie.workloads.setup import SetUp
from collie.workloads.workload import Opcode, Workload

_ROUNDING = 1e-6

Rates = tuple[Quantity, Quantity, Quantity]


class FlowRates(NamedTuple):
    """Messages/s of one flow: its own limit, the rate without pause from the receiver, and after all limits."""

    limit: Quantity
    offered: Quantity
    sent: Quantity
    delivered: Quantity


class HostLoad(NamedTuple):
    """Utilisation of a host.

    Attributes:
        steady: by resource of `STEADY`, from the messages finally sent.
        arrival: demand of arrivals, by resource of `ARRIVAL`. Above 1 they wait.
        accepted, circled: share of the arrivals from the network and of loopback.
        kept: share of the accepted messages that are not dropped for a late receive.
    """

    steady: Vector
    loopback: Quantity
    arrival: Vector
    upstream: Quantity
    accepted: Quantity
    circled: Quantity
    kept: Quantity
    pauses: bool


class _Arrivals(NamedTuple):
    arrival: Vector
    upstream: Quantity
    accepted: Quantity
    circled: Quantity
    kept: Quantity


class SteadyState(NamedTuple):
    """Steady state of both hosts, at one point or at many.

    Attributes:
        lossless: whether overload pauses the peer. It takes flow control on both hosts.
        wrong: share of the packets between the hosts that arrive with a bit error.
    """

    traffic: TrafficArrays
    costs: Costs
    forth: FlowRates
    back: FlowRates
    loop: FlowRates
    source: HostLoad
    sink: HostLoad
    lossless: bool
    wrong: Quantity
    numbers: Numbers

    def by_host(self, source: Quantity, sink: Quantity) -> tuple[Quantity, Quantity]:
        """Return two values in the order of hosts a and b. For a READ, b is the payload's source."""
        choose, is_read = self.numbers.choose, self.traffic.is_read
        return choose(is_read, sink, source), choose(is_read, source, sink)

    def delivered(self) -> tuple[Quantity, Quantity]:
        """Messages/s that hosts a and b receive."""
        return self.by_host(self.back.delivered, self.forth.delivered + self.loop.delivered)

    def delivered_bps(self) -> tuple[Quantity, Quantity]:
        """Payload bits/s that hosts a and b receive."""
        a, b = self.delivered()
        bits = self.traffic.payload * 8
        return a * bits, b * bits

    def delivered_pps(self) -> tuple[Quantity, Quantity]:
        """Payload packets/s that hosts a and b receive."""
        a, b = self.delivered()
        return a * self.traffic.packets, b * self.traffic.packets

    def receives(self) -> tuple[Quantity, Quantity]:
        """Whether any flow ends at host a and at host b."""
        return self.by_host(self.traffic.two_way, 1.0)

    def pause_ratio(self) -> tuple[Quantity, Quantity]:
        """Share of the time for which hosts a and b pause their peer."""
        return self.by_host(*(1.0 - load.accepted if load.pauses else 0.0 for load in (self.source, self.sink)))

    def pauses(self) -> tuple[bool, bool]:
        """Whether an overloaded host a or b pauses its peer."""
        source, sink = self.source.pauses, self.sink.pauses
        return (source, sink) if source == sink else self.by_host(source, sink)

    def loss_ratio(self) -> tuple[Quantity, Quantity]:
        """Share of the arriving packets that hosts a and b drop."""
        source, sink = self.source.kept, self.sink.kept
        if not self.lossless:
            source, sink = source * self.source.accepted, sink * self.sink.accepted
        return self.by_host(1.0 - source, 1.0 - sink)


def evaluate(subsystem: Subsystem, workload: Workload, on: SetUp | None = None) -> SteadyState:
    """Return the steady state of a workload between two equal hosts, as a phase of a set-up if one is given."""
    traffic = traffic_of(subsystem, workload, on)
    return _solve((subsystem, subsystem), traffic, costs_of(subsystem, traffic, ONE), ONE)


def evaluate_between(a: Subsystem, b: Subsystem, workload: Workload, on: SetUp | None = None) -> SteadyState:
    """Return the steady state between two hosts that can differ, with the smaller maximum path MTU of the two ports."""
    if a is b:
        return evaluate(a, workload, on)
    workload = replace(workload, mtu=min(workload.mtu, a.wire.maximum_mtu, b.wire.maximum_mtu))
    source, sink = (b, a) if workload.opcode is Opcode.READ else (a, b)
    sent, traffic = traffic_of(source, workload, on), traffic_of(sink, workload, on)
    leaving, coming = costs_of(source, sent, ONE), costs_of(sink, traffic, ONE)
    costs = coming._replace(source=leaving.source, fetch_limit=min(leaving.fetch_limit, coming.fetch_limit))
    return _solve((source, sink), traffic, costs, ONE)


def evaluate_many(subsystem: Subsystem, workloads: Sequence[Workload], on: Sequence[SetUp | None] = ()) -> SteadyState:
    """Return the steady states of many workloads in arrays. A quantity that is 0 everywhere stays a number.

    `on` names the set-up of each, if any workload is a phase of another set-up than its own.
    """
    set_ups = on or repeat(None)
    traffic = stack([traffic_of(subsystem, each, set_up) for each, set_up in zip(workloads, set_ups, strict=False)])
    return _solve((subsystem, subsystem), traffic, costs_of(subsystem, traffic, MANY), MANY)


def with_full_queues(source: Subsystem, sink: Subsystem, state: SteadyState) -> SteadyState:
    """Return the steady state of the same traffic without its offered load, from the hosts of payload and sink."""
    return _solve((source, sink), state.traffic._replace(offered=inf), state.costs, state.numbers)


def _solve(subsystems: tuple[Subsystem, Subsystem], t: TrafficArrays, costs: Costs, n: Numbers) -> SteadyState:
    capacities = subsystems[0].pcie.bytes_per_second, subsystems[1].pcie.bytes_per_second
    pauses = subsystems[0].receive_buffer.lossless, subsystems[1].receive_buffer.lossless
    yields = yielding(t, subsystems[1])
    limits = _limits(t, costs, n)
    eager = (limits[0], limits[1], limits[2] * (1.0 - yields))
    held = _held_back(costs, eager, n)
    offered, at_source, at_sink = _served(costs, held, (1.0, 1.0), capacities, n)
    if n.anywhere(at_source.accepted + at_sink.accepted < 2.0):
        # A refused arrival is not written either: solve again with the actual writes.
        taken = at_source.accepted, at_sink.accepted
        offered, at_source, at_sink = _served(costs, held, taken, capacities, n)
    lossless = pauses[0] and pauses[1]
    forth = _taken(limits[0], offered[0], at_sink, t, lossless)
    back = _taken(limits[1], offered[1], at_source, t, lossless)
    wrong: Quantity = 0.0
    if errors := subsystems[0].wire.bit_error_ratio + subsystems[1].wire.bit_error_ratio:
        wrong = wrong_packets(errors, t)
        forth, back = _repeated(forth, costs.source, t, wrong), _repeated(back, costs.sink, t, wrong)
    # Loopback does not cross the network, so no overload drops it.
    loop = _taken(limits[2], offered[2], at_sink._replace(accepted=at_sink.circled), t, lossless=True)
    source_steady = _busy(costs.source.steady, forth.sent, back.sent, 0.0, n)
    sink_steady = _busy(costs.sink.steady, back.sent, forth.sent, loop.sent, n)
    if n.anywhere(t.loop):
        arrival = _busy(costs.sink.arrival, back.sent, forth.sent, loop.sent, n)
        rest = t.loop * _left_over(costs, (forth, back, loop), (sink_steady, arrival), capacities[1], n)
        sent = loop.sent + rest
        loop = FlowRates(limits[2], n.most(loop.offered, sent), sent, loop.delivered + rest)
        sink_steady = [busy + rest * cost for busy, cost in zip(sink_steady, costs.sink.steady.loop, strict=True)]
    source = HostLoad(source_steady, 0.0, *at_source, pauses[0])
    sink = HostLoad(sink_steady, loop.sent * costs.loopback, *at_sink, pauses[1])
    return SteadyState(t, costs, forth, back, loop, source, sink, lossless, wrong, n)


def yielding(t: TrafficArrays, sink: Subsystem) -> Quantity:
    """Return the share of the loopback traffic that yields to all other traffic."""
    return t.loop if sink.loopback.rate_limited else t.loop * (1.0 - t.streamed)


def _limits(t: TrafficArrays, costs: Costs, n: Numbers) -> Rates:
    source, sink = costs.source, costs.sink
    window = t.qps * t.outstanding
    forth = n.least(
        t.offered, window / source.trip, costs.fetch_limit, 1.0 / n.most(*source.steady.out, *sink.steady.into)
    )
    back = loop = 0.0
    if n.anywhere(t.two_way):
        slowest = n.most(*sink.steady.out, *source.steady.into)
        back = t.two_way * n.least(t.offered, window / sink.trip, costs.fetch_limit, 1.0 / slowest)
    if n.anywhere(t.loop):
        slowest = n.most(costs.loopback, *sink.steady.loop)
        loop = t.loop * n.least(t.offered, window / sink.round_trip, costs.fetch_limit, 1.0 / slowest)
    return forth, back, loop


def _busy(paths: PathCosts, leaving: Quantity, coming: Quantity, looping: Quantity, n: Numbers) -> Vector:
    if not n.anywhere(looping):
        return [leaving * out + coming * into for out, into in zip(paths.out, paths.into, strict=True)]
    costs = zip(paths.out, paths.into, paths.loop, strict=True)
    return [leaving * out + coming * into + looping * loop for out, into, loop in costs]


def _held_back(costs: Costs, limits: Rates, n: Numbers) -> Rates:
    forth, back, loop = limits
    source, sink = costs.source.steady, costs.sink.steady
    at_source, at_sink = _busy(source, forth, back, 0.0, n), _busy(sink, back, forth, loop, n)
    forth = forth / n.most(1.0, n.busiest(at_source, source.out), n.busiest(at_sink, sink.into))
    if n.anywhere(back):
        back = back / n.most(1.0, n.busiest(at_sink, sink.out), n.busiest(at_source, source.into))
    if n.anywhere(loop):
        loop = loop / n.most(1.0, n.busiest(at_sink, sink.loop))
    return forth, back, loop


def _served(
    costs: Costs, held: Rates, taken: tuple[Quantity, Quantity], capacities: tuple[float, float], n: Numbers
) -> tuple[Rates, _Arrivals, _Arrivals]:
    """Return the offered rates and the load of either receive side, if the hosts take these shares of arrivals."""
    forth, back, loop = offered = _fit_upstream(costs, held, taken, capacities, n)
    at_source = _receive_side(costs.source, (back, forth, 0.0), costs, capacities[0], n)
    return offered, at_source, _receive_side(costs.sink, (forth, back, loop), costs, capacities[1], n)


def _fit_upstream(
    costs: Costs, rates: Rates, taken: tuple[Quantity, Quantity], capacities: tuple[float, float], n: Numbers
) -> Rates:
    """Slow senders whose requests do not fit PCIe upstream beside the writes of arriving messages.

    First all slow down by the same share. If that is not enough on a host, its requests get the bandwidth that the
    writes leave. The receive side handles writes that alone exceed it.
    """
    forth, back, loop = rates
    for leave in (False, True):
        source = _upstream_share(costs, back * taken[0], forth, capacities[0], n, leave=leave)
        sink = _upstream_share(costs, forth * taken[1], back + loop, capacities[1], n, leave=leave)
        forth, back, loop = forth * source, back * sink, loop * sink
    return forth, back, loop


def _upstream_share(
    costs: Costs, inbound: Quantity, outbound: Quantity, capacity: float, n: Numbers, *, leave: bool
) -> Quantity:
    """Return the share of its rate that a host can send: its peer's, or with room for all writes."""
    written, asked = inbound * costs.upstream_in, outbound * costs.upstream_out
    total = written + asked
    overbooked = total > capacity * (1.0 + _ROUNDING)
    if not n.anywhere(overbooked):
        return 1.0
    share = capacity / n.most(total, capacity)
    if leave:
        room = (capacity - written) / n.most(asked, 1.0)
        share = n.choose(written < capacity, n.least(1.0, room), share)
    return n.choose(overbooked, share, 1.0)


def _receive_side(host: HostCosts, rates: Rates, costs: Costs, capacity: float, n: Numbers) -> _Arrivals:
    """Return the load by the rates of arriving, leaving and loopback messages."""
    coming, leaving, looping = rates
    arrival = _busy(host.arrival, leaving, coming, looping, n)
    room = n.most(capacity - (leaving + looping) * costs.upstream_out, 0.01 * capacity)
    upstream = (coming + looping) * costs.upstream_in / room
    accepted = _share_taken(n.most(upstream, *arrival), n)
    circled = accepted
    if n.anywhere(looping):
        # Loopback is not paused: it gives way where it queues for the same resource.
        circled = _share_taken(n.most(upstream, n.busiest(arrival, host.arrival.loop)), n)
    kept = 1.0 / n.most(1.0, (coming * accepted + looping * circled) * host.dropping)
    return _Arrivals(arrival, upstream, accepted, circled, kept)


def _share_taken(busy: Quantity, n: Numbers) -> Quantity:
    return n.choose(busy > 1.0 + _ROUNDING, 1.0 / n.most(1.0, busy), 1.0)


def _taken(limit: Quantity, offered: Quantity, load: _Arrivals, t: TrafficArrays, lossless: bool) -> FlowRates:
    accepted = offered * load.accepted
    if lossless:
        return FlowRates(limit, offered, accepted, accepted * load.kept)
    # A lost RC packet costs the rest of its window (go back N): a packet sent twice counts once as delivered.
    again = 1.0 - t.is_rc * (1.0 - load.accepted)
    return FlowRates(limit, offered, offered, accepted * load.kept * again)


def wrong_packets(bit_error_ratio: float, t: TrafficArrays) -> Quantity:
    """Return the share of packets with at least one bit error."""
    return 1.0 - (1.0 - bit_error_ratio) ** (8.0 * t.wire / t.packets)


def _repeated(flow: FlowRates, sender: HostCosts, t: TrafficArrays, wrong: Quantity) -> FlowRates:
    """Return a flow with packets that arrive wrong.

    An RC queue pair resends all packets in flight (go back N), so one in 1 + wrong x in flight is new.
    """
    new = t.is_rc / (1.0 + wrong * in_flight(flow, sender, t)) + (1.0 - t.is_rc) * (1.0 - wrong)
    return flow._replace(delivered=flow.delivered * new)


def in_flight(flow: FlowRates, sender: HostCosts, t: TrafficArrays) -> Quantity:
    """Return the packets of one queue pair in flight, including the current one."""
    return 1.0 + flow.sent * t.packets * sender.trip / t.qps


def _left_over(
    costs: Costs,
    flows: tuple[FlowRates, FlowRates, FlowRates],
    loads: tuple[Vector, Vector],
    capacity: float,
    n: Numbers,
) -> Quantity:
    """Return what loopback traffic can take besides: the rest of every resource that it needs."""
    forth, back, loop = flows
    rate = n.most(0.0, n.least(loop.limit, 1.0 / costs.loopback) - loop.sent)
    for load, paths in zip(loads, (costs.sink.steady, costs.sink.arrival), strict=True):
        for busy, cost in zip(load, paths.loop, strict=True):
            if n.anywhere(cost):
                room = n.most(0.0, 1.0 - busy)
                rate = n.least(rate, n.choose(cost, room / n.most(cost, 1e-18), rate))
    if n.anywhere(costs.sink.dropping):
        room = n.most(0.0, 1.0 - (forth.sent + loop.sent) * costs.sink.dropping)
        rate = n.least(rate, n.choose(costs.sink.dropping, room / n.most(costs.sink.dropping, 1e-18), rate))
    used = forth.delivered * costs.upstream_in + back.sent * costs.upstream_out
    used = used + loop.sent * (costs.upstream_in + costs.upstream_out)
    free = n.most(0.0, capacity - used)
    return n.least(rate, free / (costs.upstream_out + costs.upstream_in))
