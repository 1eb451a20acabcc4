"""The model: from a subsystem and a workload to a steady state, without noise. Pure.

Three steps (`docs/simulator.md` has the equations):

1. Each flow wants what its window, its queue pairs and each resource alone allow. Where flows together want more of a
   resource that holds senders back, all of them get the same share of their wish.
2. What arrives at a host may be more than its receive side takes. On a lossless priority the host then pauses its peer
   for the missing share of the time; on a lossy one it drops.
3. Loopback traffic that yields takes what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collie.simulator.costs import RECEIVE, STEADY, message_costs
from collie.simulator.demand import KINDS, FlowDemand, WorkingSets, flow_demand, working_sets
from collie.simulator.pattern import Pattern, pattern_of
from collie.simulator.subsystem import Subsystem
from collie.workloads.plan import flows
from collie.workloads.workload import QpType, Workload

_ROUNDING = 1e-9
"""A utilisation this little above 1 is 1."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages/s of one flow.

    Attributes:
        demand: of the flow.
        sent: by the sender, after everything that holds it back, pause included.
        offered: what it would send if the receiver never paused it.
        delivered: at the sink.
    """

    demand: FlowDemand
    sent: float
    offered: float
    delivered: float


@dataclass(frozen=True, slots=True)
class HostLoad:
    """How busy the receive side of a host is.

    Attributes:
        receive: utilisation that arrivals ask for, by resource (`demand.RECEIVE`); above 1 they wait.
        upstream: the same of PCIe upstream.
        accepted: share of the arrivals that is taken.
    """

    receive: tuple[float, ...]
    upstream: float
    accepted: float

    @property
    def utilisation(self) -> float:
        """Of the busiest stage."""
        return max(self.upstream, *self.receive)


@dataclass(frozen=True, slots=True)
class State:
    """Steady state of both hosts.

    Attributes:
        pattern: of the messages.
        sets: cache misses.
        flows: rates, in the order of the plan.
        steady: utilisation by host x KINDS + resource, of what was finally sent.
        loads: receive sides of a and b.
        lossless: whether overload pauses the peer; otherwise packets are lost.
    """

    pattern: Pattern
    sets: WorkingSets
    flows: tuple[Rates, ...]
    steady: tuple[float, ...]
    loads: tuple[HostLoad, HostLoad]
    lossless: bool

    def delivered_bps(self, host: int) -> float:
        """Payload bits/s that a host receives."""
        return self._delivered(host) * self.pattern.payload_bytes * 8

    def delivered_pps(self, host: int) -> float:
        """Payload packets/s that a host receives."""
        return self._delivered(host) * self.pattern.packets

    def pause_ratio(self, host: int) -> float:
        """Share of the time for which a host asks its peer to stop."""
        return 1.0 - self.loads[host].accepted if self.lossless else 0.0

    def loss_ratio(self, host: int) -> float:
        """Share of the packets that a host drops."""
        return 0.0 if self.lossless else 1.0 - self.loads[host].accepted

    @property
    def bottleneck(self) -> str:
        """The busiest resource, in words; `window` when none is busy."""
        busy = [(value, f"{STEADY[i % KINDS]} of host {'ab'[i // KINDS]}") for i, value in enumerate(self.steady)]
        for host, load in zip("ab", self.loads, strict=True):
            busy.append((load.upstream, f"PCIe upstream of host {host}"))
            busy += [(value, f"{name} of host {host}") for name, value in zip(RECEIVE, load.receive, strict=True)]
        value, name = max(busy)
        return name if value > 0.99 else "window"

    def receives(self, host: int) -> bool:
        """Whether any flow ends at a host."""
        return any(rate.demand.sink == host for rate in self.flows)

    def _delivered(self, host: int) -> float:
        return sum(rate.delivered for rate in self.flows if rate.demand.sink == host)


def evaluate(subsystem: Subsystem, workload: Workload) -> State:
    """Compute the steady state of a workload."""
    plan = flows(workload)
    pattern = pattern_of(subsystem, workload)
    sets = working_sets(subsystem, workload, plan)
    costs = message_costs(subsystem, workload, pattern)
    demands = [flow_demand(subsystem, workload, pattern, costs, sets, flow) for flow in plan]
    eager = [demand for demand in demands if not demand.yields]
    offered = _held_back(eager, subsystem.pcie.bytes_per_second)
    loads = (_receive_side(subsystem, eager, offered, 0), _receive_side(subsystem, eager, offered, 1))
    lossless = subsystem.settings.pfc
    rates = [
        _taken(demand, rate, loads[demand.sink], workload, lossless)
        for demand, rate in zip(eager, offered, strict=True)
    ]
    steady = _utilisation(rates)
    for demand in demands:
        if demand.yields:
            rates.append(_left_over(subsystem, demand, steady, rates, loads))
            steady = _utilisation(rates)
    return State(pattern, sets, tuple(rates), tuple(steady), loads, lossless)


def _held_back(demands: Sequence[FlowDemand], upstream: float) -> list[float]:
    """Return messages/s of each flow after every resource that holds senders back."""
    asked = [0.0] * (2 * KINDS)
    for demand in demands:
        for resource, cost in demand.steady:
            asked[resource] += demand.limit * cost
    rates = []
    for demand in demands:
        busiest = max(asked[resource] for resource, _ in demand.steady)
        rates.append(demand.limit / busiest if busiest > 1.0 else demand.limit)
    return _fit_upstream(demands, rates, upstream)


def _fit_upstream(demands: Sequence[FlowDemand], rates: list[float], capacity: float) -> list[float]:
    """Slow down senders whose requests do not fit PCIe upstream beside the writes of what their host receives.

    First everybody gives way alike; then, if a host still asks for too much because its peer did not slow down, its
    requests take what the writes leave. Writes that do not fit by themselves are the receive side's matter.
    """
    for leave in (False, True):
        inbound, outbound = [0.0, 0.0], [0.0, 0.0]
        for demand, rate in zip(demands, rates, strict=True):
            outbound[demand.source] += rate * demand.upstream_out
            if not demand.is_loopback:
                inbound[demand.sink] += rate * demand.upstream_in
        for host in (0, 1):
            total = inbound[host] + outbound[host]
            if total <= capacity * (1.0 + _ROUNDING) or not outbound[host]:
                continue
            if leave and inbound[host] < capacity:
                share = (capacity - inbound[host]) / outbound[host]
            else:
                share = capacity / total
            rates = [
                rate * share if demand.source == host else rate for demand, rate in zip(demands, rates, strict=True)
            ]
    return rates


def _receive_side(subsystem: Subsystem, demands: Sequence[FlowDemand], offered: Sequence[float], host: int) -> HostLoad:
    receive = [0.0] * len(RECEIVE)
    inbound = outbound = 0.0
    for demand, rate in zip(demands, offered, strict=True):
        if demand.source == host:
            outbound += rate * demand.upstream_out
        if demand.sink == host:
            inbound += rate * demand.upstream_in
            for resource, cost in demand.receive:
                receive[resource] += rate * cost
    capacity = subsystem.pcie.bytes_per_second
    upstream = inbound / max(capacity - outbound, 0.01 * capacity)
    busiest = max(upstream, *receive)
    return HostLoad(tuple(receive), upstream, 1.0 / busiest if busiest > 1.0 + 1e3 * _ROUNDING else 1.0)


def _taken(demand: FlowDemand, offered: float, load: HostLoad, workload: Workload, lossless: bool) -> Rates:
    delivered = offered * load.accepted
    if lossless or demand.is_loopback:
        return Rates(demand, delivered, offered, delivered)
    if workload.qp_type is QpType.RC:
        # A lost packet costs the rest of its window (go back N): what was sent twice was not delivered once.
        return Rates(demand, offered, offered, delivered * load.accepted)
    return Rates(demand, offered, offered, delivered)


def _utilisation(rates: Sequence[Rates]) -> list[float]:
    used = [0.0] * (2 * KINDS)
    for rate in rates:
        for resource, cost in rate.demand.steady:
            used[resource] += rate.sent * cost
    return used


def _left_over(
    subsystem: Subsystem, demand: FlowDemand, steady: Sequence[float], rates: Sequence[Rates], loads: Sequence[HostLoad]
) -> Rates:
    """Return the rate of a flow that yields: what every resource it needs has left."""
    host = demand.sink
    rate = demand.limit
    per_resource: dict[int, float] = {}
    for resource, cost in demand.steady:  # a loopback flow is both ends, so a resource may appear twice
        per_resource[resource] = per_resource.get(resource, 0.0) + cost
    for resource, cost in per_resource.items():
        if cost:
            rate = min(rate, max(0.0, 1.0 - steady[resource]) / cost)
    for resource, cost in demand.receive:
        if cost:
            rate = min(rate, max(0.0, 1.0 - loads[host].receive[resource]) / cost)
    used = sum(
        other.sent * other.demand.upstream_out * (other.demand.source == host)
        + other.delivered * other.demand.upstream_in * (other.demand.sink == host)
        for other in rates
    )
    room = max(0.0, subsystem.pcie.bytes_per_second - used)
    rate = min(rate, room / (demand.upstream_out + demand.upstream_in))
    return Rates(demand, rate, rate, rate)
