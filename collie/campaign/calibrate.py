"""Measuring the ceilings of a testbed: plain traffic per opcode, transport and message size."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from collie.campaign.measure import Measurer, delivered
from collie.detect.bounds import Calibration, CalibrationPoint, at_best_port
from collie.ports import Measured, Unsupported
from collie.workloads.dimension import Choice
from collie.workloads.space import Space
from collie.workloads.workload import ATOMIC_BYTES, OPCODES_BY_QP_TYPE, Opcode, QpType, Workload

SIZES = (64, 1024, 4096, 16384, 65536)
"""Five message sizes: header-bound, one small packet, one full packet, four packets, bandwidth-bound."""


def plan(space: Space) -> Iterator[Workload]:
    """Yield the plain workloads that calibrate a space: each opcode and transport at each size that it can carry."""
    for qp_type in _values(space, "qp_type"):
        for opcode in _values(space, "opcode"):
            if opcode not in OPCODES_BY_QP_TYPE[QpType(qp_type)]:
                continue
            for size in SIZES if not Opcode(opcode).is_atomic else (ATOMIC_BYTES,):
                workload = space.base.with_(qp_type=qp_type, opcode=Opcode(opcode), messages=(size,))
                workload = workload.with_(mr_bytes=max(space.base.mr_bytes, size))
                if space.allows(workload):
                    yield workload


def calibrate(measurer: Measurer, space: Space, repeats: int) -> Calibration:
    """Run every calibration workload `repeats` times and take medians.

    A workload that the device cannot run, or that fails to set up every time, is left out.

    Raises:
        TestbedError: the testbed is gone.
    """
    points = []
    for workload in plan(space):
        rates = _rates(measurer, workload, repeats)
        if rates:
            middle = median(rates)
            spread = (max(rates) - min(rates)) / middle
            points.append(CalibrationPoint(workload.qp_type, workload.opcode, workload.payloads[0], middle, spread))
    return Calibration(tuple(points))


def _rates(measurer: Measurer, workload: Workload, repeats: int) -> list[float]:
    rates = []
    for _ in range(repeats):
        result = measurer.run(workload, "calibrate")
        if isinstance(result, Unsupported):
            break
        if isinstance(result, Measured):
            received = delivered(workload, result.measurement)
            if received and (best := at_best_port(workload, received).bps) > 0:
                rates.append(best)
    return rates


def _values(space: Space, name: str) -> tuple[str, ...]:
    dimension = space.dimensions.get(name)
    return dimension.values if isinstance(dimension, Choice) else (space.base.get(name),)
