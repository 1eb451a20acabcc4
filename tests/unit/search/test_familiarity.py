"""How likely an explained anomaly is the cause of one outside its set."""

from __future__ import annotations

import pytest

from collie.detect.signature import Signature
from collie.search.familiarity import chance_of_same_cause
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Memory, Opcode, Workload
from tests.support.extractions import SPACE

MISSES = Signature((("context_misses", 4.0),))
STALLS = Signature((("late_receives", 4.0),))
SET = Mfs((
    Condition("memory", Op.EQUAL, Memory.GPU),
    Condition("opcode", Op.ONE_OF, (Opcode.SEND, Opcode.WRITE)),
    Condition("qps", Op.AT_LEAST, 1024),
    Condition("wqe_batch", Op.AT_MOST, 4),
))  # fmt: skip
INSIDE = SPACE.base.with_(memory=Memory.GPU, qps=2048, wqe_batch=1)


def chance(workload: Workload, signature: Signature = MISSES) -> float:
    return chance_of_same_cause(workload, signature, SET, MISSES)


def test_the_farther_beyond_a_limit_the_less_familiar() -> None:
    chances = [chance(INSIDE.with_(qps=qps)) for qps in (2048, 1024, 512, 64, 1)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] == chances[1]
    assert len(set(chances)) == 4


@pytest.mark.parametrize("other", [{"memory": Memory.DRAM}, {"opcode": Opcode.READ}])
def test_another_choice_counts_more_than_the_next_step_beyond_a_limit(other: dict[str, object]) -> None:
    just_beyond, elsewhere = chance(INSIDE.with_(qps=512)), chance(INSIDE.with_(**other))
    assert elsewhere < 0.5 < just_beyond


def test_conditions_and_counters_add_up() -> None:
    both = INSIDE.with_(qps=512, wqe_batch=8)
    assert chance(both) < min(chance(INSIDE.with_(qps=512)), chance(INSIDE.with_(wqe_batch=8)))
    assert chance(both, STALLS) < chance(both)
    assert chance(INSIDE.with_(memory=Memory.DRAM, opcode=Opcode.READ)) < chance(INSIDE.with_(opcode=Opcode.READ))


def test_a_workload_inside_with_other_counters_is_more_likely_another_cause() -> None:
    assert chance(INSIDE, STALLS) < 0.5 < chance(INSIDE)
