"""Two tenants of a subsystem: a plain flow, the *victim*, beside the workload of another, the *aggressor*. Pure.

Rules.
1. The caches are shared. The victim has one queue pair and one region, so the aggressor's working set decides how often
   the victim's lookups miss.
2. What the aggressor leaves of a resource serves the victim. Of a resource that is fully used, the victim gets the fair
   share of one queue pair among all that are active on the host.
3. A pause stops all traffic of the port, the victim's, too.
4. A NIC serves queue pairs in turns. So a message that takes c of a resource takes c / s where the victim gets the
   share s (processor sharing, Kleinrock 1967). It waits at the busiest resource of each host, as in `latency.py`.

The victim slows the aggressor down in turn. The model leaves this out: it is one queue pair among those of a tenant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from collie.readings.victim import victim
from collie.simulator.costs import ARRIVAL, STEADY, WIRE, Costs, costs_of
from collie.simulator.demand import WorkingSets, working_sets
from collie.simulator.hardware import Subsystem
from collie.simulator.latency import Distribution, Wait, latency_in_turns
from collie.simulator.model import HostLoad, evaluate
from collie.simulator.numbers import ONE
from collie.simulator.traffic import traffic_of
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

_SHARED: Final = ("context_misses", "translation_misses", "contexts_lost", "translations_lost", "write_misses", "held")


class Kept(NamedTuple):
    """The victim beside an aggressor: payload bits/s, and the resource that limits it, such as `wire of host a`.

    `limit` is empty if its send queue or its own load does.
    """

    bps: float
    limit: str


class _Room(NamedTuple):
    resource: str
    share: float
    seconds_per_message: float


def victim_of(subsystem: Subsystem, offered_bps: int = 0) -> Workload:
    """Return the victim's workload, which is the same as on real hosts."""
    return victim(subsystem.wire.maximum_mtu, remote=True, offered_bps=offered_bps)


def kept_beside(
    subsystem: Subsystem, aggressor: Workload | None, on: SetUp | None = None, offered_bps: int = 0
) -> Kept:
    """Return what the victim keeps beside a workload, or without one."""
    if aggressor is None:
        return Kept(float(max(evaluate(subsystem, victim_of(subsystem, offered_bps)).delivered_bps())), "")
    return _contest(subsystem, aggressor, on, offered_bps).kept


def victim_beside(
    subsystem: Subsystem, aggressor: Workload, on: SetUp | None = None, offered_bps: int = 0
) -> tuple[Kept, Distribution]:
    """Return what the victim keeps beside a workload, and the latency of its messages."""
    plain = victim_of(subsystem, offered_bps)
    contest, own = _contest(subsystem, aggressor, on, offered_bps), evaluate(subsystem, plain)
    rate = contest.kept.bps / (float(own.traffic.payload) * 8.0)
    shared = own._replace(costs=contest.costs, forth=own.forth._replace(sent=rate, delivered=rate))
    return contest.kept, latency_in_turns(subsystem, shared, contest.full_rate, _turns(contest.rooms))


def _turns(rooms: Sequence[_Room]) -> list[Wait]:
    """Return the waits at the busiest resource of each host."""
    waits = []
    for host in ("a", "b"):
        at_host = [room for room in rooms if room.resource.endswith(f"host {host}")]
        room = max(at_host, key=lambda each: each.seconds_per_message * (1.0 / each.share - 1.0))
        served = room.seconds_per_message / room.share
        waits.append(Wait(1.0 - room.share, served - room.seconds_per_message, served))
    return waits


class _Contest(NamedTuple):
    """The victim's part of the resources beside an aggressor. `full_rate` is messages/s of full send queues."""

    kept: Kept
    full_rate: float
    rooms: Sequence[_Room]
    costs: Costs


def _contest(subsystem: Subsystem, aggressor: Workload, on: SetUp | None, offered_bps: int) -> _Contest:
    plain = victim_of(subsystem, offered_bps)
    traffic, state = traffic_of(subsystem, plain), evaluate(subsystem, aggressor, on)
    costs, loads = (state.costs.source, state.costs.sink), (state.source, state.sink)
    if state.traffic.is_read:  # host b is the source of the payload
        costs, loads = costs[::-1], loads[::-1]
    own = working_sets(subsystem, traffic, ONE)
    shared = _beside(own[0], costs[0].sets), _beside(own[1], costs[1].sets)
    mine = costs_of(subsystem, traffic, ONE, shared)
    fair = (1.0 / (1.0 + float(costs[0].sets.ends)), 1.0 / (1.0 + float(costs[1].sets.ends)))
    rooms = list(_rooms(mine, loads, fair, subsystem.pcie.bytes_per_second))
    window = float(traffic.qps * traffic.outstanding / mine.source.trip)
    tightest = min(rooms, key=lambda room: room.share / room.seconds_per_message)
    rate = tightest.share / tightest.seconds_per_message
    limits = {"": window, "WQE fetches of host a": float(mine.fetch_limit), tightest.resource: rate}
    limit = min(limits, key=limits.__getitem__)
    full_rate, offered = limits[limit], float(traffic.offered)
    kept = Kept(min(full_rate, offered) * float(traffic.payload) * 8.0, "" if offered < full_rate else limit)
    return _Contest(kept, full_rate, rooms, mine)


def _beside(own: WorkingSets, other: WorkingSets) -> WorkingSets:
    return own._replace(**{name: max(getattr(own, name), getattr(other, name)) for name in _SHARED})


def _rooms(
    mine: Costs, loads: tuple[HostLoad, HostLoad], fair: tuple[float, float], capacity: float
) -> Iterator[_Room]:
    """Yield the share of each resource that the victim gets, and the time that one of its messages takes of it."""
    a, b = loads
    passing = float(b.accepted) if b.pauses else 1.0
    uses = [
        *((f"{name} of host a", a.steady[k], mine.source.steady.out[k], fair[0]) for k, name in enumerate(STEADY)),
        *((f"{name} of host b", b.steady[k], mine.sink.steady.into[k], fair[1]) for k, name in enumerate(STEADY)),
        *((f"{name} of host a", a.arrival[k], mine.source.arrival.out[k], fair[0]) for k, name in enumerate(ARRIVAL)),
        *((f"{name} of host b", b.arrival[k], mine.sink.arrival.into[k], fair[1]) for k, name in enumerate(ARRIVAL)),
        ("PCIe upstream of host a", a.upstream, mine.upstream_out / capacity, fair[0]),
        ("PCIe upstream of host b", b.upstream, mine.upstream_in / capacity, fair[1]),
    ]
    for resource, used, seconds, share in uses:
        if seconds > 0.0:
            left = passing if resource == f"{STEADY[WIRE]} of host a" else 1.0
            name = "pause from host b" if left < 1.0 else resource
            yield _Room(name, max(left - float(used), share * left), float(seconds))
