"""A plain flow beside the workload, and what of its own throughput it keeps there. Pure.

Rules:

1. The victim is one RC queue pair that WRITEs 64 KiB, plain in all else, from the requesting host A to B, or from A to
   itself where nothing crosses the network. Its requester's completions count it, so that its payload and that of a
   workload are never mixed up.
2. What a device or an engine counts as a whole (packets, pause, polls, completions with an error) holds both. Errors
   are the victim's alone on a host where only queue pairs of the victim failed.
3. UC WRITE is counted by the port's packets, the victim's among them: beside such a workload there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collie.detect.measurement import Victim
from collie.readings.curve import Curve
from collie.readings.samples import AgentSample
from collie.workloads.plan import HOST_A, HOST_B, Flow
from collie.workloads.workload import Opcode, QpType, Workload

NAME = "victim"
"""Of its flow."""
REQUESTER, RESPONDER = f"{NAME}/requester", f"{NAME}/responder"
ALONE_RUNS = 3
"""Of the victim alone; their median is what it delivers undisturbed."""
MIN_MTU = 1024
"""Where no host tells the active MTU of its port: what any Ethernet carries."""

_BYTES = 65536
_QUEUE = 16
"""1 MiB outstanding fills any port over the microseconds of a data centre, and is a small part of a switch's buffer."""
_TIMEOUT = 16
"""0.27 s, and seven retries: what is starved for the two seconds of a run loses its throughput, not its queue pair."""


def victim(mtu: int, *, remote: bool) -> Workload:
    """Return what the victim runs.

    Args:
        mtu: that both ports have.
        remote: it goes from A to B; else from A to itself.
    """
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
    """Say why a workload has no victim beside it; empty where it can have one."""
    if workload.qp_type is QpType.UC and not all(opcode.consumes_receive for opcode in workload.opcodes):
        return "no victim beside it: UC WRITE is counted by the packets of the port, and the victim's are among them"
    return ""


def beside(placed: Sequence[tuple[float, AgentSample]], begin: float, end: float) -> Victim:
    """Return what the victim delivered beside a workload in its window.

    Args:
        placed: samples of host A with their seconds.
        begin: of the window, in the same seconds.
        end: of the window.
    """
    points = [
        (seconds, totals.delivered_bytes)
        for seconds, sample in placed
        if (totals := sample.flows.get(REQUESTER)) is not None and totals.delivered_bytes is not None
    ]
    advance = Curve(points).advance(begin, end) if len(points) > 1 and end > begin else None
    return Victim(beside_bps=None if advance is None else 8 * advance / (end - begin))


def failed(sample: AgentSample) -> bool:
    """Whether a queue pair of the victim has failed on this host."""
    return any(sample.flows[key].failed_qps for key in (REQUESTER, RESPONDER) if key in sample.flows)


def failed_alone(sample: AgentSample) -> bool:
    """Whether a queue pair of the victim has failed on this host, and none of the workload's."""
    others = (totals for key, totals in sample.flows.items() if key not in (REQUESTER, RESPONDER))
    return failed(sample) and not any(totals.failed_qps for totals in others)


def notes(window: Mapping[str, Sequence[AgentSample]]) -> tuple[str, ...]:
    """Say where queue pairs of the victim failed, and whose errors the host's may be."""
    said = []
    for role, samples in window.items():
        if samples and failed(samples[-1]):
            whose = "its own" if failed_alone(samples[-1]) else "its own and the workload's"
            said.append(f"host {role}: the victim's queue pair failed; the errors are {whose}")
    return tuple(said)
