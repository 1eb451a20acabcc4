"""A plain flow beside the workload, and the share of its throughput that it keeps. Pure.

Rules:

1. The victim is one plain RC queue pair that WRITEs 64 KiB from A to B, or from A to itself where no flow crosses the
   network. Its requester's completions count it, apart from the workload's payload.
2. Totals of a device or engine (packets, pause, polls, failed completions) include both. Errors are the victim's where
   only its queue pair failed.
3. UC WRITE is counted by the port's packets, which include the victim's. Such a workload has no victim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collie.detect.measurement import Victim
from collie.readings.curve import Curve
from collie.readings.samples import AgentSample
from collie.workloads.plan import HOST_A, HOST_B, Flow
from collie.workloads.workload import Opcode, QpType, Workload

NAME = "victim"
"""Name of its flow."""
REQUESTER, RESPONDER = f"{NAME}/requester", f"{NAME}/responder"
ALONE_RUNS = 3
"""Runs of the victim alone. Their median is its undisturbed throughput."""
MIN_MTU = 1024
"""Any Ethernet carries it. Used where no host reports its active MTU."""

_BYTES = 65536
_QUEUE = 16
"""1 MiB outstanding fills any port over a data centre's microseconds, and is a small part of a switch's buffer."""
_TIMEOUT = 16
"""0.27 s and seven retries: starved for the two seconds of a run, it loses throughput, not its queue pair."""


def victim(mtu: int, *, remote: bool) -> Workload:
    """Return the victim's workload: from A to B if `remote`, otherwise from A to itself."""
    return Workload(
        qp_type=QpType.RC,
        opcode=Opcode.WRITE,
        messages=(_BYTES,),
        mr_bytes=_BYTES,
        send_wq_depth=_QUEUE,
        timeout=_TIMEOUT,
        mtu=mtu,
        remote=remote,
        loopback=not remote,
    )


def victim_flow(workload: Workload) -> Flow:
    """Return the victim's flow beside a workload."""
    return Flow(HOST_A, HOST_B if workload.remote else HOST_A, (Opcode.WRITE,), NAME)


def why_none(workload: Workload) -> str:
    """Return why a workload has no victim, or an empty string."""
    if workload.qp_type is QpType.UC and not all(opcode.consumes_receive for opcode in workload.opcodes):
        return "no victim beside it: UC WRITE is counted by the packets of the port, and the victim's are among them"
    return ""


def beside(timeline: Sequence[tuple[float, AgentSample]], begin: float, end: float) -> Victim:
    """Return the victim's throughput beside a workload, from host A's samples in its window."""
    points = [
        (seconds, totals.delivered_bytes)
        for seconds, sample in timeline
        if (totals := sample.flows.get(REQUESTER)) is not None and totals.delivered_bytes is not None
    ]
    advance = Curve(points).advance(begin, end) if len(points) > 1 and end > begin else None
    return Victim(beside_bps=None if advance is None else 8 * advance / (end - begin))


def failed(sample: AgentSample) -> bool:
    """Whether a queue pair of the victim has failed on this host."""
    return any(sample.flows[key].failed_qps for key in (REQUESTER, RESPONDER) if key in sample.flows)


def failed_alone(sample: AgentSample) -> bool:
    """Whether a queue pair failed on this host, and only of the victim."""
    others = (totals for key, totals in sample.flows.items() if key not in (REQUESTER, RESPONDER))
    return failed(sample) and not any(totals.failed_qps for totals in others)


def notes(window: Mapping[str, Sequence[AgentSample]]) -> tuple[str, ...]:
    """Name the hosts where the victim's queue pair failed, and the owner of their errors."""
    said = []
    for role, samples in window.items():
        if samples and failed(samples[-1]):
            whose = "its own" if failed_alone(samples[-1]) else "its own and the workload's"
            said.append(f"host {role}: the victim's queue pair failed; the errors are {whose}")
    return tuple(said)
