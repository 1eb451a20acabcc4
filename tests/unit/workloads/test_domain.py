"""What a smaller space has of a larger one."""

from __future__ import annotations

from random import Random

import pytest

from collie.content.spaces import load_space
from collie.workloads.domain import domain
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import Space
from collie.workloads.workload import Opcode, QpType

NSDI22 = load_space("nsdi22")
READS = NSDI22.narrowed(
    {"qp_type": QpType.RC, "opcode": Opcode.READ}, {"messages": 1 << 20}, {"qps": 64, "messages": 16384}
)


def test_what_is_fixed_and_limited_are_conditions() -> None:
    assert domain(READS, NSDI22) == (
        Condition("qp_type", Op.EQUAL, QpType.RC),
        Condition("opcode", Op.EQUAL, Opcode.READ),
        Condition("qps", Op.AT_LEAST, 64),
        Condition("min_message_bytes", Op.AT_LEAST, 16384),
        Condition("max_message_bytes", Op.AT_MOST, 1 << 20),
    )
    one_size = NSDI22.narrowed({"messages": (512, 4096)}, {})
    assert Mfs(domain(one_size, NSDI22)).covers(NSDI22.base.with_(messages=(512, 4096)))
    assert not Mfs(domain(one_size, NSDI22)).covers(NSDI22.base.with_(messages=(64, 4096)))


@pytest.mark.parametrize("space", [NSDI22, READS])
def test_a_space_is_no_narrower_than_itself_or_than_a_part_of_it(space: Space) -> None:
    assert domain(space, space) == ()
    assert domain(NSDI22, space) == ()


def test_the_conditions_hold_for_the_smaller_space_and_not_outside() -> None:
    inside, rng = Mfs(domain(READS, NSDI22)), Random(1)
    assert all(inside.covers(READS.sample(rng)) for _ in range(100))
    drawn = [NSDI22.sample(rng) for _ in range(400)]
    assert all(not READS.complaints(each) for each in drawn if inside.covers(each))
