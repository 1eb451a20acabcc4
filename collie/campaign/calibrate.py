"""Calibration of a testbed: ceilings of plain traffic per opcode, transport and message size, and links at a load."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from collie.campaign.lanes import Lane, LaneLost
from collie.campaign.measure import Measurer
from collie.campaign.siblings import SickPlain, best_rate
from collie.detect.bounds import Calibration, CalibrationPoint
from collie.detect.links import LinkLatency, link_latencies
from collie.detect.measurement import Measurement
from collie.ports import HostLost, Measured, Unsupported
from collie.workloads.dimension import Choice, Ordered
from collie.workloads.space import Space
from collie.workloads.workload import ATOMIC_BYTES, OPCODES_BY_QP_TYPE, Opcode, QpType, Workload

_MAX_SPOILED: Final = 2
"""Limit on repeated runs of a workload that never settles."""

SIZES = (64, 1024, 4096, 16384, 65536)
"""Message sizes in bytes: header-bound, one small packet, one full packet, four packets, bandwidth-bound."""

DENSE_SIZES = (64, 256, 1024, 2048, 4096, 16384, 65536, 262144, 1048576)
"""Sizes of `collie hosts calibrate`. They are denser where the cost of a message hardly depends on its size."""


@dataclass
class _Work:
    """What the pairs of a calibration share.

    Attributes:
        left: workloads to run, one entry for each run.
        rates: the ceilings that the runs gave.
        spoiled: runs that give no ceiling.
    """

    left: deque[Workload]
    rates: dict[Workload, list[float]] = field(default_factory=lambda: defaultdict(list))
    spoiled: dict[Workload, list[SickPlain]] = field(default_factory=lambda: defaultdict(list))


def plain_traffic(space: Space, qp_type: QpType, opcode: Opcode, message_bytes: int) -> Workload | None:
    """Return the plain workload with another transport, opcode and message size, or None if constraints forbid it.

    It keeps its queues full: a ceiling is what plain traffic can carry, not what it is offered.

    Chains (posts) and queues of long messages are shorter. They hold no more bytes than plain ones. A window must hold
    many chains, because delivered bytes are counted per chain. Bytes queued longer than the ACK timeout are
    retransmitted. READ responses come in one burst, and Soft-RoCE loses bytes beyond the ring of the Ethernet device.
    """
    base = space.base

    def fitting(work_requests: int) -> int:
        return max(1, min(work_requests, int(work_requests * base.mean_message_bytes) // message_bytes))

    started = base.qps * base.max_rd_atomic * base.mean_message_bytes
    read = fitting(base.max_rd_atomic)
    workload = base.with_(
        qp_type=qp_type,
        opcode=opcode,
        messages=(message_bytes,),
        offered_bps=0,
        mr_bytes=max(base.mr_bytes, message_bytes),
        wqe_batch=fitting(base.wqe_batch),
        send_wq_depth=fitting(base.send_wq_depth),
        max_rd_atomic=read,
        qps=max(1, min(base.qps, int(started) // (read * message_bytes))) if opcode.fetches else base.qps,
    )
    return workload if space.allows(workload) else None


def plan(space: Space, sizes: Sequence[int] = SIZES, opcodes: Sequence[Opcode] = ()) -> Iterator[Workload]:
    """Yield the plain workload of each opcode and transport at each size that it can carry."""
    for qp_type in _values(space, "qp_type"):
        for opcode in _values(space, "opcode"):
            if opcode not in OPCODES_BY_QP_TYPE[QpType(qp_type)] or (opcodes and opcode not in opcodes):
                continue
            for size in sizes if not Opcode(opcode).is_atomic else (ATOMIC_BYTES,):
                workload = plain_traffic(space.whole, QpType(qp_type), Opcode(opcode), size)
                if workload is not None:
                    yield workload


def plain_load(space: Space) -> Workload | None:
    """Return the plain traffic that tells the latency of the links, or None if the space offers no load.

    It posts one packet at a time, because messages of one post wait for each other, and goes to as many receivers as
    the space has. A completion takes both directions of a link.
    """
    base, receivers = space.whole.base, space.dimensions.get("responders")
    responders = receivers.high if isinstance(receivers, Ordered) else base.responders
    load = base.with_(messages=(base.mtu,), wqe_batch=1, responders=responders)
    return load if base.offered_bps and space.allows(load) else None


def calibrate(
    measurer: Measurer, workloads: Iterable[Workload], repeats: int, load: Workload | None = None
) -> Calibration:
    """Run every calibration workload `repeats` times and take medians. Several pairs share the work.

    Each round runs every workload once, so a short disturbance affects one repeat of each. Disturbed and unstable runs
    are repeated, because a ceiling that is too low hides anomalies. A workload that cannot run or never settles is left
    out: its verdicts need plain siblings. Plain traffic that is anomalous in every try is suspected, once for each
    transport and opcode.
    """
    work = _Work(deque([*workloads] * repeats))
    while work.left:  # a lost pair can return its work after the others have finished
        measurer.scheduler.drive({lane: _calibrating(measurer, lane, work) for lane in measurer.lanes})
    for sick in _sick(work):
        measurer.suspect(sick)
    points = tuple(_point(workload, found) for workload, found in work.rates.items() if found)
    return Calibration(points, links=_links(measurer, load, repeats) if load is not None else ())


def _links(measurer: Measurer, load: Workload, repeats: int) -> tuple[LinkLatency, ...]:
    """Return the latency of the links. Several pairs have none, because each has links of its own."""
    if len(measurer.lanes) > 1:
        return ()
    (lane,) = measurer.lanes
    runs = measurer.scheduler.drive({lane: _timing(measurer, lane, load, repeats)})[lane]
    return tuple(link_latencies(load, runs)) if len(runs) == repeats else ()


async def _timing(measurer: Measurer, lane: Lane, load: Workload, repeats: int) -> list[Measurement]:
    """Run plain traffic at an offered load. Disturbed and unstable runs are repeated, as for a ceiling."""
    runs: list[Measurement] = []
    for _ in range(repeats + _MAX_SPOILED):
        result = (await measurer.running(lane, load, "calibrate")).result
        if isinstance(result, Unsupported | HostLost):
            break
        if isinstance(result, Measured) and measurer.judgement.tells_links(load, result.measurement):
            runs.append(result.measurement)
        if len(runs) == repeats:
            break
    return runs


async def _calibrating(measurer: Measurer, lane: Lane, work: _Work) -> None:
    def is_refused(workload: Workload) -> bool:
        return workload in measurer.refused or measurer.lost_to(workload) is not None

    while work.left:
        workload = work.left.popleft()
        if is_refused(workload):
            continue
        try:
            record = await measurer.running(lane, workload, "calibrate")
        except LaneLost:
            work.left.append(workload)
            raise
        result = record.result
        if isinstance(result, Unsupported | HostLost):
            work.rates.pop(workload, None)
        elif isinstance(result, Measured) and not is_refused(workload):
            best = best_rate(workload, result.measurement)
            if best is not None and measurer.judgement.is_yardstick(workload, result.measurement):
                work.rates[workload].append(best)
                continue
            verdict = measurer.judgement.unbounded(workload, result.measurement)
            spoiled = work.spoiled[workload]
            spoiled.append(SickPlain(record, result.measurement, verdict, lane))
            if len(spoiled) <= _MAX_SPOILED:
                work.left.append(workload)


def _sick(work: _Work) -> Iterator[SickPlain]:
    """Yield the worst run of each transport and opcode whose plain traffic was anomalous in every try at some size."""
    worst: dict[tuple[QpType, Opcode], SickPlain] = {}
    for workload, runs in work.spoiled.items():
        every_try = workload not in work.rates and len(runs) > _MAX_SPOILED
        if every_try and all(run.verdict.is_anomalous for run in runs):
            kind = workload.qp_type, workload.opcode
            candidates = [*runs, worst[kind]] if kind in worst else runs
            worst[kind] = max(candidates, key=lambda run: run.verdict.severity)
    yield from worst.values()


def _point(workload: Workload, rates: Sequence[float]) -> CalibrationPoint:
    middle = median(rates)
    spread = (max(rates) - min(rates)) / middle
    return CalibrationPoint(workload.qp_type, workload.opcode, workload.payloads[0], middle, spread)


def _values(space: Space, name: str) -> tuple[str, ...]:
    dimension = space.dimensions.get(name)
    return dimension.values if isinstance(dimension, Choice) else (space.base.get(name),)
