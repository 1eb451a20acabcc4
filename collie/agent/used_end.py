"""What a phase uses of a set-up: its workload on the first queue pairs and regions of each end."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Dict, List, Optional

from .content import COMPLEMENT, Content, is_source, verify
from .faults import bad_request
from .pattern import ReceivePlan, receive_plan
from .resources import End
from .workload import ATOMICS, BESIDE_TRAFFIC, Workload

# Fields of which a phase may use less than its set-up has.
CAPACITIES = ("qps", "mrs_per_qp", "buffer_bytes", "sge_count", "send_wq_depth", "recv_wq_depth")
# Fields of work requests, which are free in each phase.
REQUESTS = ("opcode", "more_opcodes", "messages", "wqe_batch", "signal_every", "sge_split", "fence", "offered_bps")
# Fields of an address handle with UD, of the queue pair otherwise.
PATH = ("traffic_class", "hop_limit")


def check_fit(workload: Workload, made_for: Workload) -> None:
    """Raise ``bad_request`` if a workload cannot be a phase of a set-up."""
    free = {*REQUESTS, *BESIDE_TRAFFIC, *CAPACITIES, "mr_bytes", *(PATH if workload.qp_type == "UD" else ())}
    fixed = [field.name for field in dataclasses.fields(Workload) if field.name not in free]
    for name in fixed:
        if getattr(workload, name) != getattr(made_for, name):
            raise bad_request(f"phase: {name} {getattr(workload, name)} needs another set-up")
    if bool(workload.opcodes & ATOMICS) != bool(made_for.opcodes & ATOMICS):
        raise bad_request("phase: atomics need a set-up with their access rights, and only atomics may use it")
    for name in CAPACITIES:
        used, made = getattr(workload, name), getattr(made_for, name)
        if used > made:
            raise bad_request(f"phase: {name} is {used}, and the set-up has {made}")


def _receives(workload: Workload, qps: int) -> ReceivePlan:
    if workload.srq:
        return receive_plan(workload, workload.mrs_per_qp * qps, 1)
    return receive_plan(workload, workload.mrs_per_qp, qps)


class UsedEnd:
    """The part of an end that a phase uses."""

    def __init__(self, end: End, workload: Workload, qps: int, flow_qps: Optional[int] = None) -> None:
        """Use the first ``qps`` queue pairs of ``end``, of ``flow_qps`` that all engines use of the flow."""
        check_fit(workload, end.workload)
        if qps > end.qps:
            raise bad_request(f"phase: {end.key} has {end.qps} queue pairs, not {qps}")
        self.end, self.workload, self.qps, self.flow_qps = end, workload, qps, flow_qps or qps
        self.receives = _receives(workload, qps) if workload.receives else None
        if workload.srq and end.posted[0] not in (None, self.receives):
            raise bad_request("phase: the shared receive queue is filled with receives of another shape")
        self.first_receives: Dict[int, int] = {}
        self._content: Optional[Content] = None

    @property
    def echoed(self) -> bool:
        """Whether echoes time the rounds of its flow: its messages can be echoed, and the other end does its part."""
        return self.workload.echoable and bool(self.end.peer.get("echoes"))

    @property
    def timed(self) -> bool:
        """Whether its rounds can be timed, if the data path can."""
        return self.end.requester and (self.workload.reliable or self.echoed)

    @property
    def outdated(self) -> List[int]:
        """Queue pairs whose posted receives have another shape than this phase needs."""
        if self.receives is None or self.workload.srq:
            return []
        return [pair for pair in range(self.qps) if self.end.posted[pair] not in (None, self.receives)]

    @property
    def unfilled(self) -> List[int]:
        """Queue pairs without posted receives that this phase needs. Of a shared receive queue, only the first."""
        if self.receives is None:
            return []
        return [pair for pair in range(1 if self.workload.srq else self.qps) if self.end.posted[pair] is None]

    def fill(self) -> None:
        """Fill the regions for verification."""
        workload, buffers = self.workload, self.end.memory
        self._content = content = Content(workload, self.qps, workload.buffer_bytes)
        source = is_source(workload, self.end.requester)
        for pair in range(self.qps):
            data = content.of(pair) if source else content.of(pair).translate(COMPLEMENT)
            for mr in range(workload.mrs_per_qp):
                buffers.write(pair, mr, data)

    def verify(self, completed: int) -> Optional[Dict[str, Any]]:
        """Compare the received payload. Return None with atomics, because they change the payload."""
        workload = self.workload
        if self._content is None:
            raise bad_request("verify: the phase was begun without verify")
        if workload.opcodes & ATOMICS:
            return None
        read = partial(self.end.memory.read, length=workload.buffer_bytes)
        return verify(workload, self.end.requester, self._content, read, self.qps, completed, self.first_receives)
