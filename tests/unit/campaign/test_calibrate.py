"""Calibration with plain traffic."""

from __future__ import annotations

from collie.campaign.budget import Budget
from collie.campaign.calibrate import DENSE_SIZES, SIZES, plain_traffic
from collie.campaign.single_run import SingleRunSession
from collie.content.spaces import load_space
from collie.detect.bounds import Calibration
from collie.detect.thresholds import Thresholds
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink
from collie.workloads.workload import Opcode, QpType
from tests.support.planted import HEADER, SPACE
from tests.support.searches import search


def test_plain_traffic_of_any_size_keeps_the_plain_bytes_in_flight() -> None:
    space = load_space("soft-roce")
    for size in DENSE_SIZES:
        workload = plain_traffic(space, QpType.RC, Opcode.READ, size)
        assert workload is not None
        assert workload.bytes_outstanding <= max(space.base.bytes_outstanding, workload.qps * size)
        assert workload.qps * workload.max_rd_atomic * size <= max(4 * 16 * 16384, size)  # the plain READs in flight
        assert (workload.opcode, workload.payloads) == (Opcode.READ, (size,))
        assert space.allows(workload)
    assert plain_traffic(space, QpType.UD, Opcode.SEND, 65536) is None


def test_repeats_of_a_calibration_are_interleaved_and_keep_their_spread() -> None:
    testbed = FakeTestbed(noise=0.1)
    bench = SingleRunSession(testbed, MemoryStore(HEADER), SPACE, Thresholds(), Calibration(), ListSink())
    calibration = bench.calibrate(3, sizes=(64, 4096), opcodes=(Opcode.SEND,))
    kinds = len(calibration.points)
    assert kinds > 2
    assert testbed.measured[:kinds] == testbed.measured[kinds : 2 * kinds] == testbed.measured[2 * kinds :]
    assert {point.opcode for point in calibration.points} == {Opcode.SEND}
    assert all(point.spread > 0 for point in calibration.points)


def test_a_testbed_without_data_sheet_is_calibrated_first() -> None:
    store = MemoryStore(HEADER)
    search(FakeTestbed(), store=store, calibration=None, budget=Budget(runs=120))
    points = store.calibration().points
    assert {point.message_bytes for point in points} == set(SIZES)
    assert {(point.qp_type, point.opcode) for point in points} >= {(QpType.RC, Opcode.READ), (QpType.UD, Opcode.SEND)}
    purposes = [record.purpose for record in store.runs()]
    assert purposes[: len(points)] == ["calibrate"] * len(points)
