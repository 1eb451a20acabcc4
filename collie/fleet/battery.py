"""The battery: the same short runs for every host, after the self-checks of MegaScale (Jiang et al., NSDI '24).

A host sends to its neighbours around a ring, to itself beside what a neighbour sends, and takes what several send at
once. Probes go from plain to special: each special one asks more of one component, which is then the suspect when a
host is odd there and nowhere before.
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
"""A host is compared with runs that it had no part in; with three hosts these are one pair's."""
MIN_PEER_READINGS: Final = 12
"""Readings of its peers that a host is compared with, where repeating gives them: a median and a spread of less say so
little that only a host beyond all reason would stand out (`judge.bar`)."""
_NEIGHBOURS: Final = 2
"""Every host meets so many on either side. It is blamed for what it shows with all of them, so that it takes four
faulty ones around a sound one to have it blamed in their place."""
_EVERYBODY: Final = 5
"""Hosts up to which everybody meets everybody: an odd host has a part in most runs of so small a fleet, and a sound one
that never met it would be what differs."""
_CROWD_SHARE: Final = 10
"""At most one in so many hosts has a part in one run of all to one, so that few of the runs have an odd one in it."""


class Stage(StrEnum):
    """Who sends to whom."""

    RING = "ring"
    """Neighbours to each other, both ways: both hosts are under test."""
    LOOPBACK = "loopback"
    """A host to itself, beside what its neighbour sends to it."""
    ALL_TO_ONE = "all to one"
    """Several hosts to one, which is under test."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One workload of the battery.

    Attributes:
        name: in messages and reports.
        stage: who sends to whom.
        workload: what is sent.
        stresses: the component of which it asks more than the probes before it; None for a plain one.
        needs_hardware: that component is a unit of a NIC: a device that is software has none, and its host would only
            be kept busy, to the point of answering nobody.
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
        """Whether each message waits for the answer to the one before, so that its rate tells how long that takes."""
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
"""`segments` puts short segments behind long ones, which strict ordering of PCIe writes makes wait (paper, #9); `mixed
sizes` puts answers to short messages of many queue pairs beside long ones (paper, #10); `one at a time` is as fast as
answers come, where the others keep so much under way that they hide a longer way; `loopback` and `all to one` bring a
host more than it takes, so that its flow control has to act (paper, #13)."""


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts that measure together.

    Attributes:
        hosts: by role: a, b, c, ...
        probes: that they run, in order.
    """

    hosts: tuple[str, ...]
    probes: tuple[Probe, ...]


def grouping(hosts: Iterable[str]) -> Callable[[str], str]:
    """Return by what hosts are told apart: by their machine, unless all are devices of one.

    Devices of one machine share its PCIe and its memory: what is wrong there is wrong with all of them.
    """
    return host_of if len({host_of(host) for host in hosts}) > 1 else str


def is_large_enough(hosts: Sequence[str]) -> bool:
    """Whether a fleet has enough hosts for the odd one to be told from its partners."""
    return len(set(map(grouping(hosts), hosts))) >= MIN_HOSTS


def repeats(hosts: Sequence[str]) -> int:
    """Return how often the battery is run: small fleets have few peers, and make up for it by repeating.

    Args:
        hosts: as for `rounds`.
    """
    apart = grouping(hosts)
    pairs = _pairs(hosts)
    parts = Counter(apart(host) for pair in pairs for host in pair)
    fewest = len(pairs) - max(parts.values())  # that a host, or its machine, has no part in
    return max(1, math.ceil(MIN_PEER_READINGS / fewest))


def rounds(hosts: Sequence[str], battery: Iterable[Probe] = BATTERY) -> tuple[tuple[Group, ...], ...]:
    """Return who measures with whom, once through the battery: the groups of one round share no host.

    Devices of one host are in no group together, as loopback across ports is no peer of traffic between hosts; unless
    the fleet is one host, where there is nothing else. Nor are they in two groups of one round: they share its PCIe and
    its memory.

    Args:
        hosts: in the order of the ring; at least `MIN_HOSTS`.
        battery: the probes.
    """
    probes = tuple(battery)
    pairwise = tuple(probe for probe in probes if probe.stage is not Stage.ALL_TO_ONE)
    many = tuple(probe for probe in probes if probe.stage is Stage.ALL_TO_ONE)
    pairs = [Group(hosts_, pairwise) for hosts_ in _pairs(hosts)] if pairwise else []
    crowds = [Group(hosts_, many) for hosts_ in _crowds(hosts)] if many else []
    return tuple(chain(_disjoint(pairs), _disjoint(crowds)))


def _steps(hosts: int) -> range:
    """Return how far along the ring the neighbours are that a host sends to."""
    return range(1, hosts if hosts <= _EVERYBODY else _NEIGHBOURS + 1)


def _pairs(hosts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return who sends to whom: every host to the next ones around the ring, and the ones before it to every host.

    That is the same twice, unless there are more devices on one machine than on others.
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
    """Return so many of the next ones around the ring that a host may meet, of as many machines as there are."""
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
    """Yield the others, in order around the ring from a host."""
    return (hosts[(index + direction * step) % len(hosts)] for step in range(1, len(hosts)))


def _who_may_meet(hosts: Sequence[str]) -> Callable[[str, str], bool]:
    apart = grouping(hosts)
    return lambda host, other: apart(host) != apart(other)


def _crowds(hosts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return groups of several hosts that send to one, role b; everybody is that one twice, with other senders."""
    senders = min(MAX_HOSTS, len(hosts) // _CROWD_SHARE) - 1
    if senders < 2:
        return []
    found = []
    may_meet = _who_may_meet(hosts)
    for index, host in enumerate(hosts):
        others = list(islice(filter(partial(may_meet, host), _around(hosts, index)), 2 * senders))
        for chosen in (others[:senders], others[senders:]):
            if len(chosen) == senders:
                found.append((chosen[0], host, *chosen[1:]))
    return found


def _disjoint(groups: Iterable[Group]) -> list[tuple[Group, ...]]:
    """Put each group into the first round that has none of its hosts."""
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
