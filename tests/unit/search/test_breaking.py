"""Workloads that break one condition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.content.spaces import load_space
from collie.search.breaking import breakings, broken
from collie.workloads.dimension import Vector
from collie.workloads.feature import Condition, Mfs, Op, feature_value
from collie.workloads.space import Space
from collie.workloads.workload import EVEN, Direction, Opcode, QpType, Workload

SPACE = load_space("nsdi22")


@pytest.mark.parametrize(
    ("workload", "conditions"),
    [
        (
            Workload(qps=480, send_wq_depth=16, messages=(512,)),
            [("qps", ">=", 320), ("send_wq_depth", "<=", 16), ("max_message_bytes", "<=", 1024)],
        ),
        (
            Workload(qps=24, mrs_per_qp=1024, messages=(512,)),
            [("total_mrs", ">=", 12288), ("wqe_batch", "<=", 1), ("max_message_bytes", "<=", 1024)],
        ),
        (
            Workload(messages=(128, 65536), sge_count=4, mtu=4096),
            [("min_message_bytes", "<=", 1024), ("max_message_bytes", ">=", 65536), ("sge_count", ">=", 3)],
        ),
        (
            Workload(
                direction=Direction.BIDIRECTIONAL,
                sge_count=3,
                sge_split=(128, 65536),
                messages=(66688,),
                mr_bytes=1 << 22,
            ),
            [
                ("direction", "==", Direction.BIDIRECTIONAL),
                ("sge_count", ">=", 3),
                ("min_segment_bytes", "<=", 1024),
                ("max_segment_bytes", ">=", 65536),
            ],
        ),
        # One host alone needs twice the queue pairs; a UD message can be longer only where the MTU is.
        (
            Workload(direction=Direction.BIDIRECTIONAL, qps=80),
            [("direction", "==", Direction.BIDIRECTIONAL), ("total_qps", ">=", 160)],
        ),
        (
            Workload(qp_type=QpType.UD, opcode=Opcode.SEND, mtu=1024, messages=(512,)),
            [("max_message_bytes", "<=", 1024)],
        ),
        (Workload(qp_type=QpType.RC, loopback=True), [("loopback", "==", True), ("qp_type", "in", ("RC", "UC"))]),
    ],
)
def test_breaking_a_condition_keeps_all_others(workload: Workload, conditions: list[tuple[str, str, object]]) -> None:
    mfs = Mfs(tuple(Condition(name, Op(op), value) for name, op, value in conditions))
    assert mfs.covers(workload)
    for condition in mfs.conditions:
        control = broken(workload, mfs, condition, SPACE)
        if condition.dimension == "qp_type":
            assert control is None  # a WRITE cannot go over UD, so nothing of the space breaks it alone
            continue
        assert control is not None, condition
        assert SPACE.allows(control)
        assert [c.holds(control) for c in mfs.conditions] == [c is not condition for c in mfs.conditions]


def test_the_bytes_of_a_post_break_alone() -> None:
    loads = load_space("offered-load")
    workload = loads.base.with_(wqe_batch=64, messages=(65536,), mr_bytes=1 << 22, offered_bps=20 * 10**9)
    mfs = Mfs((
        Condition("post_bytes", Op.AT_LEAST, 512 << 10),
        Condition("wqe_batch", Op.AT_LEAST, 16),
        Condition("nic_offered_bps", Op.AT_LEAST, 10**10),
    ))  # fmt: skip
    for condition in mfs.conditions:
        control = broken(workload, mfs, condition, loads)
        assert control is not None, condition
        assert [c.holds(control) for c in mfs.conditions] == [c is not condition for c in mfs.conditions]


@pytest.mark.parametrize(
    ("broken_condition", "factor"),
    [(Condition("min_segment_bytes", Op.AT_MOST, 1024), 64), (Condition("max_segment_bytes", Op.AT_LEAST, 65536), 64)],
)
def test_a_control_stands_well_clear_of_the_threshold(broken_condition: Condition, factor: int) -> None:
    workload = Workload(sge_count=3, sge_split=(128, 65536), messages=(66688,), mr_bytes=1 << 22)
    mfs = Mfs((
        Condition("sge_count", Op.AT_LEAST, 3),
        Condition("min_segment_bytes", Op.AT_MOST, 1024),
        Condition("max_segment_bytes", Op.AT_LEAST, 65536),
    ))  # fmt: skip
    control = broken(workload, mfs, broken_condition, SPACE)
    assert control is not None
    value = feature_value(control, broken_condition.dimension)
    assert max(value / broken_condition.value, broken_condition.value / value) > factor


def test_messages_that_do_not_vary_give_no_control() -> None:
    fixed = SPACE.narrowed({"messages": (65536,)}, {})
    condition = Condition("min_message_bytes", Op.AT_LEAST, 1024)
    assert broken(fixed.base, Mfs((condition,)), condition, fixed) is None


def test_messages_of_one_size_are_never_paired() -> None:
    dimension = SPACE.dimensions["messages"]
    assert isinstance(dimension, Vector)
    single = Space("single", {"messages": replace(dimension, max_length=1)})
    condition = Condition("max_message_bytes", Op.AT_LEAST, 65536)
    control = broken(single.base, Mfs((condition,)), condition, single)
    assert control is not None
    assert control.messages == (64,)


def test_where_messages_do_not_vary_more_entries_make_segments_shorter() -> None:
    fixed = SPACE.narrowed({"messages": (65536,), "sge_split": EVEN}, {})
    condition = Condition("max_segment_bytes", Op.AT_LEAST, 32768)
    control = broken(fixed.base, Mfs((condition,)), condition, fixed)
    assert control == fixed.base.with_(sge_count=max(fixed.dimensions["sge_count"].candidates()))


def test_no_control_has_sizes_that_are_not_in_the_space() -> None:
    narrow = SPACE.narrowed({}, {"messages": 1 << 20}, {"messages": 98304})
    workload = narrow.base.with_(messages=(98304, 1 << 20), sge_count=4, sge_split=(128,), mr_bytes=1 << 22)
    condition = Condition("min_segment_bytes", Op.AT_MOST, 1024)
    controls = list(breakings(workload, Mfs((condition,)), condition, narrow))
    assert controls
    assert {size for each in controls for size in each.messages} <= set(range(98304, (1 << 20) + 1))
    shorter = Condition("max_message_bytes", Op.AT_LEAST, 98304)
    assert broken(workload, Mfs((shorter,)), shorter, narrow) is None
