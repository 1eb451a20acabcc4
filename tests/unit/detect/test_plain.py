"""Curves of plain traffic."""

from __future__ import annotations

from random import Random

import pytest

from collie.content.spaces import load_space
from collie.detect.plain import MAX_SIBLING_QPS, curve_of, plain_sibling
from collie.workloads.setup import made_for_all, misfit
from collie.workloads.workload import Opcode, QpType, Workload


@pytest.mark.parametrize("name", ["nsdi22", "soft-roce"])
@pytest.mark.parametrize("seed", range(10))
def test_the_points_of_a_curve_are_plain_traffic_that_one_set_up_serves(name: str, seed: int) -> None:
    space = load_space(name)
    rng = Random(seed)
    workload = next(each for each in iter(lambda: space.sample(rng), None) if not each.more_opcodes)
    curve = curve_of(plain_sibling(workload, space), space)
    assert len(curve) > 4
    assert len(set(curve)) == len(curve)
    made_for = made_for_all(curve)
    assert space.allows(made_for)
    for point in curve:
        assert (point.qp_type, point.opcode) == (workload.qp_type, workload.opcode)
        assert plain_sibling(point, space) == point
        assert space.allows(point)
        assert misfit(point, made_for) is None
        assert len(point.messages) == 1


def test_a_curve_has_little_and_much_in_flight_for_each_size() -> None:
    space = load_space("nsdi22")
    curve = curve_of(space.base.with_(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(64,)), space)
    few, many = curve[::2], curve[1::2]
    assert [each.messages for each in few] == [each.messages for each in many] == [(64,), (256,), (1024,), (4096,)]
    assert {each.qps for each in few} == {space.base.qps}
    assert {each.qps for each in many} == {MAX_SIBLING_QPS}
    assert min(each.send_wq_depth for each in many) > space.base.send_wq_depth


@pytest.mark.parametrize(
    "workload",
    [Workload(more_opcodes=(Opcode.SEND,), messages=(64, 64)), Workload(messages=(64,), offered_bps=10**9)],
)
def test_a_mix_of_opcodes_and_an_offered_load_have_no_curve(workload: Workload) -> None:
    assert curve_of(workload, load_space("offered-load")) == ()
