"""Calibration of a testbed: ceilings of plain traffic per opcode, transport and message size."""

from __future__ import annotations

from collections import Counter as Tally, deque
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Final

from collie.campaign.lanes import Lane, LaneLost
from collie.campaign.measure import Measurer
from collie.campaign.siblings import best_rate
from collie.detect.bounds import Calibration, CalibrationPoint
from collie.ports import HostLost, Measured, Unsupported
from collie.workloads.dimension import Choice
from collie.workloads.space import Space
from collie.workloads.workload import ATOMIC_BYTES, OPCODES_BY_QP_TYPE, Opcode, QpType, Workload

_MAX_SPOILED: Final = 2
"""Limit on repeated runs of a workload that never settles."""

SIZES = (64, 1024, 4096, 16384, 65536)
"""Message sizes in bytes: header-bound, one small packet, one full packet, four packets, bandwidth-bound."""

DENSE_SIZES = (64, 256, 1024, 2048, 4096, 16384, 65536, 262144, 1048576)
"""Sizes of `collie hosts calibrate`. They are denser where the cost of a message hardly depends on its size."""


def plain_traffic(space: Space, qp_type: QpType, opcode: Opcode, message_bytes: int) -> Workload | None:
    """Return the plain workload with another transport, opcode and message size, or None if constraints forbid it.

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


def calibrate(measurer: Measurer, workloads: Iterable[Workload], repeats: int) -> Calibration:
    """Run every calibration workload `repeats` times and take medians. Several pairs share the work.

    Each round runs every workload once, so a short disturbance affects one repeat of each. Disturbed and unstable runs
    are repeated, because a ceiling that is too low hides anomalies. A workload that cannot run or never settles is left
    out: its verdicts need plain siblings.
    """
    rates: dict[Workload, list[float]] = {workload: [] for workload in workloads}
    left = deque([*rates] * repeats)
    spoiled: Tally[Workload] = Tally()
    while left:  # a lost pair can return its work after the others have finished
        measurer.scheduler.drive({lane: _calibrating(measurer, lane, left, rates, spoiled) for lane in measurer.lanes})
    return Calibration(tuple(_point(workload, found) for workload, found in rates.items() if found))


async def _calibrating(
    measurer: Measurer, lane: Lane, left: deque[Workload], rates: dict[Workload, list[float]], spoiled: Tally[Workload]
) -> None:
    while left:
        workload = left.popleft()
        if workload not in rates:
            continue
        try:
            result = await measurer.running(lane, workload, "calibrate")
        except LaneLost:
            left.append(workload)
            raise
        if isinstance(result, Unsupported | HostLost):
            rates.pop(workload, None)
        elif isinstance(result, Measured) and workload in rates:
            best = best_rate(workload, result.measurement)
            if best is not None and measurer.judgement.is_yardstick(workload, result.measurement):
                rates[workload].append(best)
            elif spoiled[workload] < _MAX_SPOILED:
                spoiled[workload] += 1
                left.append(workload)


def _point(workload: Workload, rates: Sequence[float]) -> CalibrationPoint:
    middle = median(rates)
    spread = (max(rates) - min(rates)) / middle
    return CalibrationPoint(workload.qp_type, workload.opcode, workload.payloads[0], middle, spread)


def _values(space: Space, name: str) -> tuple[str, ...]:
    dimension = space.dimensions.get(name)
    return dimension.values if isinstance(dimension, Choice) else (space.base.get(name),)
