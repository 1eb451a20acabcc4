"""The battery: the same short runs for every host, after the self-checks of MegaScale (Jiang et al., NSDI '24).

Hosts send to neighbours on a ring, to themselves beside a neighbour's traffic, and several to one. Probes go from plain
to special. Each special probe stresses one component, which is the suspect when a host is odd in that probe alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from typing import Final

from collie.inventory.hosts import MAX_HOSTS, host_of
from collie.workloads.plan import HOST_B, ROLES
from collie.workloads.workload import Direction, Workload

MIN_HOSTS: Final = 4
"""A host is compared with runs that exclude it. Three hosts leave one pair of those."""
MIN_PEER_READINGS: Final = 12
"""Peer readings that repetition provides. The median and spread of fewer detect only extreme hosts (`spread.bar`)."""
_NEIGHBOURS: Final = 2
"""Neighbours of a host on either side. A host is blamed for deviations with all partners, so it takes four faulty ones
to incriminate a sound host."""
_EVERYBODY: Final = 5
"""Hosts up to which each pairs with all: in so small a fleet most runs include an odd host, and a sound one that never
ran with it would stand out."""
_CROWD_SHARE: Final = 10
"""A run of all to one uses at most one in this many hosts, so that few runs include an odd one."""


class Stage(StrEnum):
    """The traffic pattern of a probe."""

    RING = "ring"
    """Neighbours to each other, both ways. Both hosts are under test."""
    LOOPBACK = "loopback"
    """A host to itself, beside a neighbour's traffic to it."""
    ALL_TO_ONE = "all to one"
    """Several hosts to the one under test."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One workload of the battery.

    Attributes:
        name: in messages and reports.
        stresses: the component that it loads more than the probes before it, or None for a plain one.
        needs_hardware: the component is a unit of a NIC. A software device lacks it, and the probe would only overload
            the host.
    """

    name: str
    stage: Stage
    workload: Workload
    stresses: str | None = None
    needs_hardware: bool = False

    @property
    def under_test(self) -> tuple[str, ...]:
        """The roles whose readings count."""
        return ROLES[:2] if self.stage is Stage.RING else (HOST_B,)

    @property
    def is_one_at_a_time(self) -> bool:
        """Whether each message waits for the answer to the one before, so that the rate measures latency."""
        return self.workload.qps == self.workload.send_wq_depth == 1


def _both_ways(name: str, stresses: str | None = None, *, needs_hardware: bool = False, **fields: object) -> Probe:
    workload = Workload(direction=Direction.BIDIRECTIONAL, **fields)  # type: ignore[arg-type]
    return Probe(name, Stage.RING, workload, stresses, needs_hardware)


BATTERY: Final = (
    _both_ways("stream", mtu=4096, qps=8, mr_bytes=4 << 20, wqe_batch=8, messages=(64 << 10,)),
    _both_ways("small messages", mtu=4096, qps=16, wqe_batch=16, messages=(64,)),
    _both_ways(
        "segments",
        "PCIe",
        needs_hardware=True,
        mtu=4096,
        qps=8,
        mr_bytes=4 << 20,
        wqe_batch=8,
        sge_count=3,
        sge_split=(128, 64 << 10),
        messages=(66_688,),
    ),
    _both_ways(
        "mixed sizes",
        "acknowledgement unit",
        needs_hardware=True,
        mtu=1024,
        qps=320,
        wqe_batch=64,
        messages=(64 << 10, 128, 128, 128),
    ),
    _both_ways("one at a time", "latency", mtu=4096, send_wq_depth=1, messages=(64,)),
    Probe(
        "loopback",
        Stage.LOOPBACK,
        Workload(loopback=True, mtu=4096, qps=8, mr_bytes=4 << 20, wqe_batch=16, messages=(256 << 10,)),
        "receive buffer",
        needs_hardware=True,
    ),
    Probe(
        "all to one",
        Stage.ALL_TO_ONE,
        Workload(requesters=MAX_HOSTS - 1, mtu=4096, qps=2, mr_bytes=4 << 20, wqe_batch=8, messages=(64 << 10,)),
        "receive buffer",
        needs_hardware=True,
    ),
)
"""`segments` puts short segments behind long ones, which strictly ordered PCIe writes delay (paper, #9). `mixed sizes`
puts answers to short messages of many queue pairs beside long ones (paper, #10). `one at a time` runs at the latency of
answers, which outstanding messages hide elsewhere. `loopback` and `all to one` exceed a host's capacity and trigger
flow control (paper, #13)."""


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts that measure together.

    Attributes:
        hosts: by role: a, b, c, ...
    """

    hosts: tuple[str, ...]
    probes: tuple[Probe, ...]


def grouping(hosts: Iterable[str]) -> Callable[[str], str]:
    """Return the unit of comparison: the host machine, or the device if all devices share one.

    Devices of one host share its PCIe and memory, and so its faults.
    """
    return host_of if len({host_of(host) for host in hosts}) > 1 else str


def is_large_enough(hosts: Sequence[str]) -> bool:
    """Whether a fleet has enough hosts to separate an odd host from its partners."""
    return len(set(map(grouping(hosts), hosts))) >= MIN_HOSTS


def repeats(hosts: Sequence[str]) -> int:
    """Return the repetitions of the battery. Small fleets repeat it for want of peers.

    Args:
        hosts: as for `rounds`.
    """
    apart = grouping(hosts)
    pairs = _pairs(hosts)
    parts = Counter(apart(host) for pair in pairs for host in pair)
    fewest = len(pairs) - max(parts.values())  # pairs without this host
    return max(1, math.ceil(MIN_PEER_READINGS / fewest))


def rounds(hosts: Sequence[str], battery: Iterable[Probe] = BATTERY) -> tuple[tuple[Group, ...], ...]:
    """Return the groups of each round, once through the battery. Groups of one round share no host.

    Devices of one host share its PCIe and memory, so they are never in two groups of one round. They are in one group
    only when the fleet is one host, because loopback across ports is no peer of traffic between hosts.

    Args:
        hosts: in the order of the ring. At least `MIN_HOSTS`.
        battery: the probes.
    """
    probes = tuple(battery)
    pairwise = tuple(probe for probe in probes if probe.stage is not Stage.ALL_TO_ONE)
    many = tuple(probe for probe in probes if probe.stage is Stage.ALL_TO_ONE)
    pairs = [Group(hosts_, pairwise) for hosts_ in _pairs(hosts)] if pairwise else []
    crowds = [Group(hosts_, many) for hosts_ in _crowds(hosts)] if many else []
    return tuple(chain(_disjoint(pairs), _disjoint(crowds)))


def _steps(hosts: int) -> range:
    """Return the distances on the ring at which hosts pair."""
    return range(1, hosts if hosts <= _EVERYBODY else _NEIGHBOURS + 1)


def _pairs(hosts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the pairs: every host to its successors on the ring, and its predecessors to it.

    Both are the same unless hosts have different numbers of devices.
    """
    apart = grouping(hosts)
    steps = len(_steps(len(hosts)))
    sent, taken = [], []
    for index, host in enumerate(hosts):
        sent += [(step, host, other) for step, other in enumerate(_nearest(hosts, apart, index, 1, steps))]
        taken += [(step, other, host) for step, other in enumerate(_nearest(hosts, apart, index, -1, steps))]
    by_step = [*sorted(sent, key=itemgetter(0)), *sorted(taken, key=itemgetter(0))]
    return list(dict.fromkeys((host, other) for _, host, other in by_step))


def _nearest(hosts: Sequence[str], apart: Callable[[str], str], index: int, direction: int, count: int) -> list[str]:
    """Return this many partners next on the ring, on as many different hosts as possible."""
    chosen: dict[str, str] = {}
    more = []
    for other in _around(hosts, index, direction):
        if apart(other) != apart(hosts[index]):
            if apart(other) in chosen:
                more.append(other)
            else:
                chosen[apart(other)] = other
            if len(chosen) == count:
                break
    return [*chosen.values(), *more][:count]


def _around(hosts: Sequence[str], index: int, direction: int = 1) -> Iterator[str]:
    """Yield the others in ring order from a host."""
    return (hosts[(index + direction * step) % len(hosts)] for step in range(1, len(hosts)))


def _can_pair(hosts: Sequence[str]) -> Callable[[str, str], bool]:
    apart = grouping(hosts)
    return lambda host, other: apart(host) != apart(other)


def _crowds(hosts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return groups of several senders to one host, role b. Each host receives twice, from different senders."""
    senders = min(MAX_HOSTS, len(hosts) // _CROWD_SHARE) - 1
    if senders < 2:
        return []
    found = []
    can_pair = _can_pair(hosts)
    for index, host in enumerate(hosts):
        others = list(islice(filter(partial(can_pair, host), _around(hosts, index)), 2 * senders))
        for chosen in (others[:senders], others[senders:]):
            if len(chosen) == senders:
                found.append((chosen[0], host, *chosen[1:]))
    return found


def _disjoint(groups: Iterable[Group]) -> list[tuple[Group, ...]]:
    made: list[list[Group]] = []
    taken: list[set[str]] = []
    for group in groups:
        own = {host_of(host) for host in group.hosts}
        free = next((index for index, busy in enumerate(taken) if busy.isdisjoint(own)), len(made))
        if free == len(made):
            made.append([])
            taken.append(set())
        made[free].append(group)
        taken[free] |= own
    return [tuple(each) for each in made]
