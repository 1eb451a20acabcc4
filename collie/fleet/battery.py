"""The battery: the same short runs for every host, after the self-checks of MegaScale (Jiang et al., NSDI '24)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Final

from collie.inventory.hosts import MAX_HOSTS, disjoint, host_of
from collie.workloads.plan import HOST_B, ROLES
from collie.workloads.workload import Direction, Workload

MIN_HOSTS: Final = 4
"""With three hosts, only one pair would exclude a given host."""
_MIN_PEER_READINGS: Final = 12
"""Fewer peer readings reveal only extreme hosts (`spread.bar`)."""
_NEIGHBOURS: Final = 2
"""Partners on either side of a host. Only four faulty partners would incriminate a sound host."""
_PAIR_ALL: Final = 5
"""Up to this many hosts, each pairs with all others. Else a sound host without an odd partner would stand out."""
_CROWD_SHARE: Final = 10
"""A run of all to one uses one host of this many, so that few runs include an odd host."""


class Stage(StrEnum):
    """The traffic of a probe: neighbours both ways, a host to itself beside a neighbour, or several hosts to one."""

    RING = "ring"
    LOOPBACK = "loopback"
    ALL_TO_ONE = "all to one"


@dataclass(frozen=True, slots=True)
class Probe:
    """One workload of the battery.

    Attributes:
        stresses: the component that this probe loads more than earlier ones, the suspect if a host is odd only here.
        needs_hardware: whether that component is in a NIC. On a software device the probe would only overload the host.
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
        """Whether each message waits for the previous answer, so that the rate measures latency."""
        return self.workload.qps == self.workload.send_wq_depth == 1


_BOTH_WAYS: Final = Workload(direction=Direction.BIDIRECTIONAL, mtu=4096)
_STREAM: Final = _BOTH_WAYS.with_(qps=8, mr_bytes=4 << 20, wqe_batch=8, messages=(64 << 10,))

BATTERY: Final = (
    Probe("stream", Stage.RING, _STREAM),
    Probe("small messages", Stage.RING, _BOTH_WAYS.with_(qps=16, wqe_batch=16, messages=(64,))),
    Probe(
        "segments",
        Stage.RING,
        _STREAM.with_(sge_count=3, sge_split=(128, 64 << 10), messages=(66_688,)),
        "PCIe",
        needs_hardware=True,
    ),
    Probe(
        "mixed sizes",
        Stage.RING,
        _BOTH_WAYS.with_(mtu=1024, qps=320, wqe_batch=64, messages=(64 << 10, 128, 128, 128)),
        "acknowledgement unit",
        needs_hardware=True,
    ),
    Probe("one at a time", Stage.RING, _BOTH_WAYS.with_(send_wq_depth=1, messages=(64,)), "latency"),
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
        _STREAM.with_(direction=Direction.UNIDIRECTIONAL, requesters=MAX_HOSTS - 1, qps=2),
        "receive buffer",
        needs_hardware=True,
    ),
)
"""Plain probes first. `segments` puts short segments behind long ones, which strictly ordered PCIe writes delay (paper,
#9). `mixed sizes` puts short messages beside long ones (#10). `loopback` and `all to one` trigger flow control (#13).
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts that measure together, in order of their roles."""

    hosts: tuple[str, ...]
    probes: tuple[Probe, ...]


def grouping(hosts: Iterable[str]) -> Callable[[str], str]:
    """Return a function from endpoints to compared units: hosts (devices share faults), or an only host's devices."""
    return host_of if len({host_of(host) for host in hosts}) > 1 else str


def is_large_enough(hosts: Sequence[str]) -> bool:
    """Whether an odd host can be separated from its partners."""
    return len(set(map(grouping(hosts), hosts))) >= MIN_HOSTS


def repeats(hosts: Sequence[str]) -> int:
    """Return the repetitions that give small fleets enough peers."""
    apart = grouping(hosts)
    pairs = _pairs(hosts)
    parts = Counter(apart(host) for pair in pairs for host in pair)
    fewest = len(pairs) - max(parts.values())  # pairs without this host
    return math.ceil(_MIN_PEER_READINGS / fewest)


def rounds(hosts: Sequence[str], battery: Iterable[Probe] = BATTERY) -> tuple[tuple[Group, ...], ...]:
    """Return the groups of each round, once through the battery, for hosts in the order of the ring.

    Groups of one round share no device. A receiver has no sender of its own host, unless the fleet is one host. Senders
    to one receiver share a host where there are fewer hosts than senders.
    """
    probes = tuple(battery)
    pairwise = tuple(probe for probe in probes if probe.stage is not Stage.ALL_TO_ONE)
    many = tuple(probe for probe in probes if probe.stage is Stage.ALL_TO_ONE)
    pairs = [Group(pair, pairwise) for pair in _pairs(hosts)] if pairwise else []
    crowds = [Group(crowd, many) for crowd in _crowds(hosts)] if many else []
    return tuple(chain.from_iterable(disjoint(groups, attrgetter("hosts")) for groups in (pairs, crowds)))


def _pairs(hosts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return every host with its successors, and its predecessors with it. These add pairs if device counts differ."""
    apart = grouping(hosts)
    steps = len(hosts) if len(hosts) <= _PAIR_ALL else _NEIGHBOURS
    sent, taken = [], []
    for index, host in enumerate(hosts):
        sent += [(step, host, other) for step, other in enumerate(_nearest(hosts, apart, index, 1, steps))]
        taken += [(step, other, host) for step, other in enumerate(_nearest(hosts, apart, index, -1, steps))]
    by_step = [*sorted(sent, key=itemgetter(0)), *sorted(taken, key=itemgetter(0))]
    return list(dict.fromkeys((host, other) for _, host, other in by_step))


def _nearest(hosts: Sequence[str], apart: Callable[[str], str], index: int, direction: int, count: int) -> list[str]:
    """Return partners next on the ring, on as many different hosts as possible."""
    chosen: dict[str, str] = {}
    more = []
    for other in _others(hosts, apart, index, direction):
        if apart(other) in chosen:
            more.append(other)
        else:
            chosen[apart(other)] = other
        if len(chosen) == count:
            break
    return [*chosen.values(), *more][:count]


def _others(hosts: Sequence[str], apart: Callable[[str], str], index: int, direction: int = 1) -> Iterator[str]:
    around = (hosts[(index + direction * step) % len(hosts)] for step in range(1, len(hosts)))
    return (other for other in around if apart(other) != apart(hosts[index]))


def _crowds(hosts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return groups of senders to one host, role b. Each host receives twice."""
    senders = min(MAX_HOSTS, len(hosts) // _CROWD_SHARE) - 1
    if senders < 2:
        return []
    found = []
    apart = grouping(hosts)
    for index, host in enumerate(hosts):
        others = list(islice(_others(hosts, apart, index), 2 * senders))
        for chosen in (others[:senders], others[senders:]):
            if len(chosen) == senders:
                found.append((chosen[0], host, *chosen[1:]))
    return found
