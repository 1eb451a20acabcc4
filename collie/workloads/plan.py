"""A plan: the flows between hosts that a workload stands for."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass

from collie.workloads.workload import Direction, Opcode, Workload

HOST_A = "a"
HOST_B = "b"

MOST_PARTNERS = 7
"""Hosts that one host may have traffic with: an agent has room for 16 ends of flows, two of which are its loopback."""

ROLES = tuple(string.ascii_lowercase[: MOST_PARTNERS + 1])
"""Roles of the hosts of a group, in order."""


@dataclass(frozen=True, slots=True)
class Flow:
    """`qps` queue pairs whose requester is on one host and whose responder is on another, or on the same one.

    Attributes:
        requester, responder: roles: `a`, `b`, `c`, ...
        opcode: decides which end receives the payload.
    """

    requester: str
    responder: str
    opcode: Opcode

    @property
    def sink(self) -> str:
        """The host that receives the payload: of a READ, the requester."""
        return self.requester if self.opcode is Opcode.READ else self.responder

    @property
    def source(self) -> str:
        """The host that the payload comes from."""
        return self.responder if self.opcode is Opcode.READ else self.requester

    @property
    def is_loopback(self) -> bool:
        """Whether both ends are on one host."""
        return self.requester == self.responder

    @property
    def name(self) -> str:
        """`a-b`: requester, then responder."""
        return f"{self.requester}-{self.responder}"


def flows(workload: Workload) -> tuple[Flow, ...]:
    """Return the flows of a workload.

    A to B; with several requesters also C, D, ... to B, with several responders also A to C, D, ...; with
    `bidirectional` the mirror image of each; with `loopback` also the sink of A-B to itself. Not `remote`: A to itself.
    """
    if not workload.remote:
        return (Flow(HOST_A, HOST_A, workload.opcode),)
    more = ROLES[2 : workload.partners + 1]
    ends = [(HOST_A, HOST_B), *((HOST_A, role) if workload.responders > 1 else (role, HOST_B) for role in more)]
    plan = [Flow(requester, responder, workload.opcode) for requester, responder in ends]
    first = plan[0]
    if workload.direction is Direction.BIDIRECTIONAL:
        plan += [Flow(responder, requester, workload.opcode) for requester, responder in ends]
    if workload.loopback:
        plan.append(Flow(first.sink, first.sink, workload.opcode))
    return tuple(plan)


def hosts(workload: Workload) -> tuple[str, ...]:
    """Return the roles that a workload has a part for, in order."""
    return ROLES[: workload.partners + 1] if workload.remote else (HOST_A,)


def is_peer(workload: Workload, role: str) -> bool:
    """Whether `peer_numa_node` and `peer_memory` are about a host: about B, and about responders beyond it."""
    return role == HOST_B or (role != HOST_A and workload.responders > 1)


def sinks(workload: Workload) -> tuple[str, ...]:
    """Return the hosts that receive payload, each once, in order of the flows."""
    return tuple(dict.fromkeys(flow.sink for flow in flows(workload)))


def shares(workload: Workload) -> Mapping[str, float]:
    """Return what part of all that one port can deliver each sink may expect.

    1.0, but for the several hosts that one host sends to: they share its port. Loopback crosses no port.
    """
    feeding: dict[str, set[str]] = {sink: set() for sink in sinks(workload)}
    for flow in flows(workload):
        if not flow.is_loopback:
            feeding[flow.sink].add(flow.source)
    return {sink: 1.0 / sum(other == sources for other in feeding.values()) for sink, sources in feeding.items()}
