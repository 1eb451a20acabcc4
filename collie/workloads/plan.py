"""The flows between hosts of a workload."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collie.workloads.workload import Direction, Opcode, Workload

HOST_A = "a"
HOST_B = "b"

MAX_PARTNERS = 7
"""An agent has room for 16 ends of flows: two for its loopback and two per partner."""
ROLES = tuple(string.ascii_lowercase[: MAX_PARTNERS + 1])
MAX_RAILS = len(ROLES) // 2


@dataclass(frozen=True, slots=True)
class Flow:
    """`qps` queue pairs from one role (`a`, `b`, ...) to another or itself. A second such flow has a `label`."""

    requester: str
    responder: str
    opcodes: tuple[Opcode, ...]
    label: str = ""

    @property
    def sink(self) -> str:
        """The role that receives the payload: the responder, unless every opcode fetches."""
        return self.requester if self._fetches else self.responder

    @property
    def source(self) -> str:
        """The role that sends the payload."""
        return self.responder if self._fetches else self.requester

    @property
    def is_mixed(self) -> bool:
        """Whether payload goes both ways: some work requests fetch, others do not."""
        return not self._fetches and any(opcode.fetches for opcode in self.opcodes)

    @property
    def _fetches(self) -> bool:
        return all(opcode.fetches for opcode in self.opcodes)

    @property
    def is_loopback(self) -> bool:
        """Whether both ends are on one host."""
        return self.requester == self.responder

    def is_across_ports(self, machines: Mapping[str, str]) -> bool:
        """Whether the flow joins two devices of one host. A role that `machines` lacks has a host to itself."""
        if self.is_loopback or self.requester not in machines:
            return False
        return machines[self.requester] == machines.get(self.responder)

    @property
    def name(self) -> str:
        """`label`, else `a-b`: requester, then responder."""
        return self.label or f"{self.requester}-{self.responder}"


def flows(workload: Workload) -> tuple[Flow, ...]:
    """Return the flows of a workload.

    The first flow is A-B. Several requesters add C-B, D-B, ..., several responders A-C, A-D, ..., several rails C-D,
    E-F, .... `bidirectional` adds the reverse of each. `loopback` adds a flow from the sink of A-B to itself, and from
    that of each rail. Without `remote`, the only flow is A-A.
    """
    opcodes = workload.opcodes
    if not workload.remote:
        return (Flow(HOST_A, HOST_A, opcodes),)
    ends = list(_ends(workload))
    plan = [Flow(requester, responder, opcodes) for requester, responder in ends]
    looped = [flow.sink for flow in plan[: workload.rails]]
    if workload.direction is Direction.BIDIRECTIONAL:
        plan += [Flow(responder, requester, opcodes) for requester, responder in ends]
    if workload.loopback:
        plan += [Flow(sink, sink, opcodes) for sink in looped]
    return tuple(plan)


def _ends(workload: Workload) -> Iterator[tuple[str, str]]:
    """Yield requester and responder of each flow in the first direction."""
    yield HOST_A, HOST_B
    yield from zip(ROLES[2 : 2 * workload.rails : 2], ROLES[3 : 2 * workload.rails : 2], strict=True)
    for role in ROLES[2 : workload.partners + 1]:
        yield (HOST_A, role) if workload.responders > 1 else (role, HOST_B)


def hosts(workload: Workload) -> tuple[str, ...]:
    """Return the roles of a workload."""
    return ROLES[: max(workload.partners + 1, 2 * workload.rails)] if workload.remote else (HOST_A,)


def is_peer(workload: Workload, role: str) -> bool:
    """Whether `peer_numa_node` and `peer_memory` apply to a role."""
    if workload.rails > 1:
        return role in ROLES[1::2]
    return role == HOST_B or (role != HOST_A and workload.responders > 1)


@dataclass(frozen=True, slots=True)
class Stream:
    """The payload of a flow in one direction. A mix of SEND and READ makes two streams of one flow.

    Attributes:
        returned: the part of a mixed flow that returns to its requester.
        payloads: payload bytes of each work request of the stream, for one turn.
        per_request: mean payload bytes per work request of the flow.
    """

    flow: Flow
    sink: str
    source: str
    returned: bool
    payloads: tuple[int, ...]
    per_request: float


def streams(workload: Workload) -> tuple[Stream, ...]:
    """Return the streams in order of the flows."""
    turn = workload.turn
    found = []
    for flow in flows(workload):
        for returned in (False, True) if flow.is_mixed else (False,):
            sizes = tuple(size for opcode, size in turn if (flow.is_mixed and opcode.fetches) == returned)
            sink, source = (flow.source, flow.sink) if returned else (flow.sink, flow.source)
            found.append(Stream(flow, sink, source, returned, sizes, sum(sizes) / len(turn)))
    return tuple(found)


def sinks(workload: Workload) -> tuple[str, ...]:
    """Return the roles that receive payload, in order of the flows."""
    if not workload.more_opcodes:  # called for every verdict
        return tuple(dict.fromkeys(flow.sink for flow in flows(workload)))
    return tuple(dict.fromkeys(stream.sink for stream in streams(workload)))


def shares(workload: Workload) -> Mapping[str, float]:
    """Return each sink's share of a port's capacity: below 1.0 for sinks with the same senders."""
    if workload.partners == 1:  # called for every verdict
        return dict.fromkeys(sinks(workload), 1.0)
    feeding: dict[str, set[str]] = {sink: set() for sink in sinks(workload)}
    for stream in streams(workload):
        if not stream.flow.is_loopback:
            feeding[stream.sink].add(stream.source)
    return {sink: 1.0 / sum(other == sources for other in feeding.values()) for sink, sources in feeding.items()}


def _packets(message_bytes: int, mtu: int) -> int:
    """Packets of one message."""
    return max(1, math.ceil(message_bytes / mtu))


def packets_per_byte(workload: Workload, sink: str | None = None) -> float:
    """Packets per payload byte over all messages, or over those whose payload one host receives."""
    sizes: Sequence[int] = workload.payloads
    if sink is not None and workload.more_opcodes:
        sizes = [size for stream in streams(workload) if stream.sink == sink for size in stream.payloads]
    return sum(_packets(size, workload.mtu) for size in sizes) / sum(sizes)
