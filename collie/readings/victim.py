"""The victim: a plain flow beside the workload. Pure.

1. One RC queue pair WRITEs 64 KiB from A to B, or from A to itself if no flow crosses the network. With rails it runs
   between the other ports of the two hosts. The requester's completions count its payload.
2. Totals of a device include victim and workload, and errors those of both. They are the victim's if only its queue
   pair failed.
3. UC WRITE is counted by the port's packets, which would include the victim's. Such a workload has no victim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collie.detect.measurement import Victim
from collie.detect.victims import VICTIM_BYTES
from collie.readings.delivery import curve_of_end, received_bps
from collie.readings.latency import latency_of
from collie.readings.recording import Timeline
from collie.readings.samples import AgentSample
from collie.workloads.constraint import Constraint
from collie.workloads.plan import HOST_A, HOST_B, ROLES, Flow
from collie.workloads.workload import Opcode, QpType, Workload

NAME = "victim"
REQUESTER, RESPONDER = f"{NAME}/requester", f"{NAME}/responder"
ALONE_RUNS = 3
"""Runs of the victim alone. Their median is its undisturbed throughput."""
MIN_MTU = 1024
"""An MTU that any Ethernet carries."""

OTHER_RAIL = (ROLES[2], ROLES[3])
"""Roles of the second pair of ports."""

_QUEUE = 16
"""1 MiB outstanding fills any port and is a small part of a switch's buffer."""
_TIMEOUT = 16
"""0.27 s, with seven retries. A victim that starves for two seconds loses throughput, not its queue pair."""


@dataclass(frozen=True, slots=True)
class PlainFlow:
    """The victim: its workload between hosts A and B, and the flow that it is beside other workloads."""

    workload: Workload
    flow: Flow


def victim(mtu: int, *, remote: bool, offered_bps: int = 0) -> Workload:
    """Return the victim's workload. With an offered load of 0 it keeps its send queue full."""
    return Workload(
        qp_type=QpType.RC,
        opcode=Opcode.WRITE,
        messages=(VICTIM_BYTES,),
        mr_bytes=VICTIM_BYTES,
        send_wq_depth=_QUEUE,
        timeout=_TIMEOUT,
        mtu=mtu,
        remote=remote,
        loopback=not remote,
        offered_bps=offered_bps,
    )


def victim_flow(workload: Workload, *, other_rail: bool = False) -> Flow:
    """Return the victim's flow beside a workload."""
    a, b = OTHER_RAIL if other_rail else (HOST_A, HOST_B if workload.remote else HOST_A)
    return Flow(a, b, (Opcode.WRITE,), NAME)


def _counted_by_packets(draft: Any) -> str | None:
    if draft.qp_type is QpType.UC and not draft.opcode.consumes_receive:
        return "no victim beside it: UC WRITE is counted by the packets of the port, and the victim's are among them"
    return None


HAS_VICTIM = Constraint(frozenset({"qp_type", "opcode"}), _counted_by_packets)
"""The rule of a search that judges nothing but the victim."""


def why_none(workload: Workload) -> str:
    """Return why a workload has no victim, or an empty string."""
    return next(filter(None, (_counted_by_packets(workload.with_(opcode=each)) for each in workload.opcodes)), "")


def beside(timeline: Timeline, begin: float, end: float, window: Sequence[AgentSample]) -> Victim:
    """Return the victim's throughput and latency beside a workload, from the samples of its requester."""
    return Victim(
        beside_bps=received_bps([curve_of_end(REQUESTER, timeline)], begin, end), latency=latency_of(REQUESTER, window)
    )


def _failed(sample: AgentSample) -> bool:
    return any(sample.flows[key].failed_qps for key in (REQUESTER, RESPONDER) if key in sample.flows)


def failed_alone(sample: AgentSample) -> bool:
    """Whether only queue pairs of the victim have failed on this host."""
    others = (totals for key, totals in sample.flows.items() if key not in (REQUESTER, RESPONDER))
    return _failed(sample) and not any(totals.failed_qps for totals in others)


def notes(window: Mapping[str, Sequence[AgentSample]]) -> tuple[str, ...]:
    """Name the hosts where the victim's queue pair failed."""
    found = []
    for role, samples in window.items():
        if samples and _failed(samples[-1]):
            owner = "its own" if failed_alone(samples[-1]) else "its own and the workload's"
            found.append(f"host {role}: the victim's queue pair failed; the errors are {owner}")
    return tuple(found)
