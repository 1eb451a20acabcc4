"""A plan: the flows between two hosts that a workload stands for."""

from __future__ import annotations

from dataclasses import dataclass

from collie.workloads.workload import Direction, Opcode, Workload

HOST_A = "a"
HOST_B = "b"


@dataclass(frozen=True, slots=True)
class Flow:
    """`qps` queue pairs whose requester is on one host and whose responder is on another, or on the same one.

    Attributes:
        requester, responder: `a` or `b`.
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
    """Return the flows: A to B, with `bidirectional` also B to A, with `loopback` also the sink of A-B to itself."""
    forward = Flow(HOST_A, HOST_B, workload.opcode)
    plan = [forward]
    if workload.direction is Direction.BIDIRECTIONAL:
        plan.append(Flow(HOST_B, HOST_A, workload.opcode))
    if workload.loopback:
        plan.append(Flow(forward.sink, forward.sink, workload.opcode))
    return tuple(plan)


def sinks(workload: Workload) -> tuple[str, ...]:
    """Return the hosts that receive payload, each once, in order of the flows."""
    return tuple(dict.fromkeys(flow.sink for flow in flows(workload)))
