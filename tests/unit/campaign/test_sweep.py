"""Sweeps over planted anomalies: every point, the cliffs and their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from collie.campaign.single_run import JudgedRun, SingleRunSession
from collie.campaign.sweep import Point, Sweep, cliffs, point_of, settled, sweep
from collie.content.spaces import load_space
from collie.detect.bounds import Bound, Calibration
from collie.detect.judge import judge
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.ports import Measured
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.sweep import Axis, middle, parsed_axis
from collie.workloads.workload import Direction, Opcode, Workload
from tests.support.planted import HEADER, SPACE

MANY = Mfs((Condition("qps", Op.AT_LEAST, 100),))


def axis(text: str) -> Axis:
    return parsed_axis(SPACE, text, SPACE.base, "--x")


def swept(x: Axis, y: Axis | None = None, *, halvings: int = 0, planted: Sequence[Planted] = ()) -> tuple[Sweep, Any]:
    """Return the sweep, and the batches of workloads in order."""
    session = SingleRunSession(
        FakeTestbed(planted), MemoryStore(HEADER), SPACE, Thresholds(), Calibration(), ListSink()
    )
    batches = sweep(SPACE.base, x, y, SPACE, (), halvings)
    asked: list[list[Workload]] = []
    batch = next(batches)
    try:
        while True:
            asked.append([workload for _, _, workload in batch])
            runs = session.measure_together(asked[-1])
            batch = batches.send([point_of(a, b, run) for (a, b, _), run in zip(batch, runs, strict=True)])
    except StopIteration as stop:
        found: Sweep = stop.value
        return found, asked


def test_every_point_of_both_axes_is_measured_once_by_row() -> None:
    found, asked = swept(axis("qps=1..4"), axis("opcode=WRITE,READ"))
    assert len(asked) == 1
    steps = axis("qps=1..4").values
    assert [(point.y, point.x) for point in found.points] == [
        (opcode, qps) for opcode in (Opcode.WRITE, Opcode.READ) for qps in steps
    ]
    assert [(value, len(points)) for value, points in found.curves()] == [(Opcode.WRITE, 3), (Opcode.READ, 3)]
    assert all(point.outcome == "normal" and point.delivered_bps for point in found.points)


def test_a_cliff_is_halved_until_its_place_is_known() -> None:
    slow = Planted(MANY, symptom=Symptom.LOW_THROUGHPUT, severity=0.5)
    coarse, _ = swept(axis("qps=1..4096"), planted=[slow])
    fine, asked = swept(axis("qps=1..4096"), halvings=6, planted=[slow])
    (before,), (after,) = coarse.cliffs(), fine.cliffs()
    assert before.before.x < 100 <= before.after.x
    assert after.before.x < 100 <= after.after.x
    assert after.after.x <= 1.1 * after.before.x < before.after.x
    assert round(after.lost, 2) == 0.5
    assert len(asked) > 1
    assert [point.x for point in fine.points] == sorted(point.x for point in fine.points)


def measured_as(readings: Mapping[int, Sequence[float]], halvings: int = 0) -> tuple[Sweep, int]:
    """Return the sweep over qps if its runs deliver so many Gbit/s, and its number of runs."""
    batches = sweep(SPACE.base, axis(f"qps={','.join(map(str, readings))}"), None, SPACE, (), halvings)
    left = {qps: list(gbps) for qps, gbps in readings.items()}
    runs = 0
    batch = next(batches)
    try:
        while True:
            runs += len(batch)
            batch = batches.send([Point(x, y, "normal", delivered_bps=left[x].pop(0) * 1e9) for x, y, _ in batch])
    except StopIteration as stop:
        return stop.value, runs


def test_an_outlier_is_no_cliff_and_the_middle_run_of_both_ends_counts() -> None:
    found, runs = measured_as({1: [100], 2: [99, 101, 98], 4: [20, 99, 97], 8: [100]})
    assert found.cliffs() == []
    assert [(point.delivered_bps, point.runs) for point in found.points] == [
        (100e9, 1),
        (99e9, 3),
        (97e9, 3),
        (100e9, 1),
    ]
    assert runs == 8
    found, runs = measured_as({1: [100], 2: [99, 40, 98], 4: [50, 99, 45], 8: [48]})
    ((before, after),) = [(cliff.before, cliff.after) for cliff in found.cliffs()]
    assert (before.x, after.x) == (2, 4)
    assert (before.delivered_bps, after.delivered_bps) == (98e9, 50e9)


def test_a_record_has_the_middle_run_once_enough_were_made() -> None:
    first, low, high = (Point(8, None, "normal", delivered_bps=bps) for bps in (99e9, 20e9, 101e9))
    assert settled([first, low]) == [first], "of two runs neither is the middle one"
    assert settled([first, low, high]) == [replace(first, runs=3)]
    assert settled(settled([first, low, high])) == [replace(first, runs=3)]


def test_an_outlier_that_hides_a_cliff_moves_it_to_where_it_is() -> None:
    found, _ = measured_as({1: [100, 100, 100], 2: [50, 101, 99], 4: [48, 50, 47]})
    ((before, after),) = [(cliff.before.x, cliff.after.x) for cliff in found.cliffs()]
    assert (before, after) == (2, 4)
    assert all(point.runs == 3 for point in found.points)


def test_a_rate_is_halved_at_one_that_a_reader_can_type() -> None:
    space = load_space("offered-load")
    offered = parsed_axis(space, "offered_bps=20Gbit/s..98Gbit/s", space.base, "--x")
    assert middle(space, offered, 20_000_000_000, 98_000_000_000) == 44_300_000_000
    assert middle(SPACE, axis("qps=1..4096"), 1000, 4096) == 2024


def test_a_fall_without_another_verdict_is_a_cliff_and_a_small_one_is_none() -> None:
    one, less, much_less = (Point(x, None, "normal", delivered_bps=bps) for x, bps in ((1, 10e9), (2, 8.1e9), (4, 6e9)))
    (only,) = cliffs([one, less, much_less])
    assert (only.before, only.after) == (less, much_less)
    rising = [one, Point(2, None, "normal", delivered_bps=20e9)]
    assert cliffs(rising) == []
    begins = Point(2, None, "anomalous", Symptom.PAUSE, 0.3, delivered_bps=10e9)
    assert [each.after for each in cliffs([one, begins])] == [begins]
    assert [each.before for each in cliffs([begins, one])] == [begins]
    unknown = Point(2, None, "could not be set up")
    assert cliffs([one, unknown, less]) == []
    undecided = Point(3, None, "inconclusive", delivered_bps=2e9)
    later = replace(begins, x=4)
    assert cliffs([begins, undecided, later]) == []
    assert [(each.before, each.after) for each in cliffs([one, undecided, later])] == [(one, later)]


def test_points_that_cannot_run_are_named_with_the_reason() -> None:
    ud = parsed_axis(SPACE, "qp_type=RC,UD", SPACE.base, "--y")
    found, _ = swept(axis("message_bytes=1KiB,64KiB"), ud)
    assert [(x, y.value) for x, y in found.refused] == [(1024, "UD"), (65536, "UD")]
    assert all(found.refused.values())
    assert {point.y.value for point in found.points} == {"RC"}


def test_the_share_of_the_bound_is_that_of_the_host_farthest_below() -> None:
    both = axis("direction=bidirectional")
    found, _ = swept(axis("qps=8,512"), both, planted=[Planted(MANY, Symptom.LOW_THROUGHPUT, 0.4)])
    healthy, slow = found.points
    assert healthy.bound_ratio is not None
    assert round(healthy.bound_ratio, 2) == 1.0
    assert slow.bound_ratio is not None
    assert round(slow.bound_ratio, 2) == 0.6
    assert slow.healthy_bps is not None
    assert round(slow.healthy_bps / (healthy.delivered_bps or 1.0), 2) == 1.0


BOTH_WAYS = Direction.BIDIRECTIONAL
MIXED = Workload(more_opcodes=(Opcode.READ,), messages=(65536, 1024))


def received_by(workload: Workload, gbps: Mapping[str, float]) -> JudgedRun:
    """Return a run judged by a port of 100 Gbit/s. Its hosts receive so much."""
    hosts = tuple(HostMeasurement(role, value * 1e9, value * 1e9 / 8 / 4096, 0.0) for role, value in gbps.items())
    bound, measurement = Bound(100e9, 100e9 / 8 / 4096, "specification"), Measurement(hosts, 1.0)
    verdict = judge(workload, measurement, bound, Thresholds())
    return JudgedRun(workload, SPACE.base, bound, Measured(measurement, 30.0), verdict)


@pytest.mark.parametrize(
    ("workload", "gbps", "ratio", "healthy_gbps"),
    [
        (Workload(responders=3), {"b": 33.0, "c": 33.0, "d": 33.0}, 0.99, 100.0),
        (Workload(responders=3), {"b": 33.0, "c": 33.0, "d": 11.0}, 0.33, 100.0),
        (MIXED, {"a": 1.5, "b": 96.0}, 0.96, 101.5625),
        (Workload(direction=BOTH_WAYS), {"a": 95.0, "b": 0.0}, 0.0, 200.0),
    ],
)
def test_a_host_is_compared_with_what_the_verdict_expects_of_it(
    workload: Workload, gbps: Mapping[str, float], ratio: float, healthy_gbps: float
) -> None:
    run = received_by(workload, gbps)
    assert run.verdict is not None
    point = point_of(1, None, run)
    assert point.bound_ratio == pytest.approx(ratio)
    assert point.healthy_bps == pytest.approx(healthy_gbps * 1e9)
    assert point.is_anomalous is (ratio < 0.8)
    assert point.severity == pytest.approx(1.0 - ratio if point.is_anomalous else 0.0)
