"""The counters that lead: what moves between a plain workload and an anomaly before anything is lost.

The *line* from the plain sibling to a witness moves every ordered dimension by the same factor at each step. The other
dimensions flip one after another at even distances, the last of the space first: both directions load a host more than
anything else, so the direction flips last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from collie.detect.plain import plain_sibling
from collie.simulator.capabilities import unsupported_reason
from collie.simulator.hardware import Subsystem
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import SteadyState, evaluate
from collie.simulator.readings import COUNTERS, PORT_COUNTERS, counters
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.dimension import Ordered
from collie.workloads.space import Space
from collie.workloads.workload import EVEN, Workload
from tests.support.smoothness import shares_of_sibling

STEPS: Final = 96
MAX_PAUSE: Final = 0.001
MAX_LOSS: Final = 0.05
"""Beyond these something is lost (pause ratio of the paper; share of the sibling's throughput)."""
DOUBLES: Final = 2.0
FLOOR_SHARE: Final = 0.01
"""What a counter must reach, as a share of its value at the witness: a first event among millions leads nothing."""

LEADING: Final = {
    Mechanism.DATAGRAM_PREFETCH: "receive_wqe_cache_miss",
    Mechanism.DATAGRAM_RECEIVE_CACHE: "receive_wqe_cache_miss",
    Mechanism.READ_SLOW_PATH: "packet_engine_busy",
    Mechanism.READ_SCATTER_LISTS: "sq_wqe_cache_miss",
    Mechanism.RELIABLE_PREFETCH: "receive_wqe_cache_miss",
    Mechanism.RELIABLE_RECEIVE_CACHE: "receive_wqe_cache_miss",
    Mechanism.TRANSLATION_CACHE: "mtt_cache_miss",
    Mechanism.CONTEXT_CACHE: "icm_cache_miss",
    Mechanism.STRICT_ORDERING: "pcie_read_stalled_ordering",
    Mechanism.ACKNOWLEDGEMENT_BLOCKING: "ack_context_miss",
    Mechanism.SOCKET_LINK: "outbound_pci_stalled_wr",
    Mechanism.PEER_TO_PEER_REDIRECT: "outbound_pci_stalled_wr",
    Mechanism.TRANSMIT_STAGING: "tx_packet_gathered_again",
    Mechanism.PENDING_READS: "reqsl_cache_miss",
    Mechanism.DUPLEX_ARBITER: "packet_engine_turns",
}
"""The counter of the events that each mechanism consists of. Loopback alone turns #13 on, so nothing leads to it."""


@dataclass(frozen=True, slots=True)
class Lead:
    """The counters that lead to one witness.

    Attributes:
        grown: growth from the sibling to the last healthy point of each counter that at least doubled. It is infinite
            from 0.
        healthy: share of the line that is healthy.
    """

    mechanism: Mechanism
    grown: Mapping[str, float]
    healthy: float


def leads(file: SubsystemFile, space: Space) -> Iterator[Lead]:
    """Return the leading counters of every witness of a subsystem."""
    hardware = file.hardware
    for witness in file.witnesses:
        points = list(line(space, hardware, witness.trigger))
        last = _last_healthy(hardware, points)
        names = COUNTERS[PORT_COUNTERS:]
        plain, edge, end = (_highest(hardware, workload) for workload in (points[0], points[last], points[-1]))
        grown = {
            name: edge[name] / plain[name] if plain[name] > 0 else float("inf")
            for name in names
            if edge[name] > max(DOUBLES * plain[name], FLOOR_SHARE * end[name]) and end[name] > plain[name]
        }
        yield Lead(witness.mechanism, grown, last / (len(points) - 1))


def line(space: Space, hardware: Subsystem, trigger: Workload) -> Iterator[Workload]:
    """Return the workloads from the plain sibling to a trigger, those left out that cannot run."""
    sibling = plain_sibling(trigger, space)
    moved = [name for name in space.dimensions if name != "messages" and sibling.get(name) != trigger.get(name)]
    ordered = [name for name in moved if isinstance(space.dimensions[name], Ordered)]
    flips = [name for name in reversed(moved) if name not in ordered]
    for step in range(STEPS + 1):
        share = step / STEPS
        values: dict[str, Any] = {
            name: _between(space.dimensions[name], sibling.get(name), trigger.get(name), share) for name in ordered
        }
        values |= {name: trigger.get(name) for index, name in enumerate(flips, 1) if share > index / (len(flips) + 1)}
        workload = _possible(sibling, values)
        if not space.violations(workload) and unsupported_reason(hardware, workload) is None:
            yield workload


def _between(dimension: Any, low: int, high: int, share: float) -> int:
    value = round(low * (high / low) ** share)
    if dimension.ladder_only:
        return int(min(dimension.ladder, key=lambda step: abs(step - value)))
    return int(dimension.low + round((value - dimension.low) / dimension.step) * dimension.step)


def _possible(sibling: Workload, values: Mapping[str, Any]) -> Workload:
    """Return the sibling with these values, queues as deep as a post and a split no longer than the list."""
    workload = sibling.with_(**values)
    if not isinstance(workload.sge_split, str) and len(workload.sge_split) >= workload.sge_count:
        workload = workload.with_(sge_split=workload.sge_split[: workload.sge_count - 1] or EVEN)
    batch = workload.wqe_batch
    return workload.with_(
        send_wq_depth=max(batch, workload.send_wq_depth), recv_wq_depth=max(batch, workload.recv_wq_depth)
    )


def _last_healthy(hardware: Subsystem, points: list[Workload]) -> int:
    plain = evaluate(hardware, points[0])
    for index, workload in enumerate(points):
        if _lost(evaluate(hardware, workload), plain):
            return max(0, index - 1)
    return len(points) - 1


def _lost(state: SteadyState, plain: SteadyState) -> bool:
    """Whether pause or the missing throughput of a host passes its limit."""
    if max(state.pause_ratio()) > MAX_PAUSE:
        return True
    shares = zip(state.receives(), shares_of_sibling(state, plain), strict=True)
    return any(gets and share < 1.0 - MAX_LOSS for gets, share in shares)


def _highest(hardware: Subsystem, workload: Workload) -> dict[str, float]:
    """Return each counter of the host that counts more."""
    a, b = counters(hardware, evaluate(hardware, workload))
    return dict(zip(COUNTERS, map(max, a, b), strict=True))
