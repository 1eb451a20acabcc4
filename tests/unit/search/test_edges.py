"""What tests a condition, and what has to run because nothing does."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from collie.search.candidates import Candidates
from collie.search.edges import untested
from collie.search.hypotheses import Hypotheses
from collie.search.limits import CandidateLimits
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Opcode, Workload
from tests.support.extractions import SPACE, never

FOUND = SPACE.base.with_(loopback=True, messages=(262144,), mr_bytes=262144)
SET = Mfs((Condition("loopback", Op.EQUAL, True), Condition("min_message_bytes", Op.AT_LEAST, 131072)))
NO_LOOPBACK, NEXT_STEP = FOUND.with_(loopback=False), FOUND.with_(messages=(65536,))


def asked(healthy: Sequence[Workload]) -> set[Workload]:
    """Return the workloads that test the conditions of `SET` which these healthy runs leave untested."""
    limits = CandidateLimits(SPACE, FOUND)
    thresholds = np.array([limit.thresholds[0] for limit in limits.limits])
    for place, limit in enumerate(limits.limits):
        if limit.feature == "loopback":
            thresholds[place] = limit.thresholds[1]
        if (limit.feature, limit.op) == ("min_message_bytes", Op.AT_LEAST):
            thresholds[place] = 131072.0
    points = np.array([limits.coordinates(each) for each in (FOUND, *healthy)])
    weights = np.array([1.0, *[-1.0] * len(healthy)])
    hypotheses = Hypotheses(limits.limits, 0.98, 0.02, 1, points, weights)
    near = Candidates(SPACE, limits, Random(1), lambda workload: not never(workload)).near(FOUND)
    return {each.workload for breaking in untested(thresholds, near, hypotheses) for each in breaking}


def test_each_condition_needs_a_healthy_run_one_step_outside() -> None:
    assert {NO_LOOPBACK, NEXT_STEP} <= asked([])
    assert all(sum(condition.holds(each) for condition in SET.conditions) == 1 for each in asked([]))
    assert {min(each.messages) for each in asked([]) if each.loopback} == {65536}
    assert NO_LOOPBACK not in asked([NO_LOOPBACK])
    assert asked([NO_LOOPBACK, NEXT_STEP]) == set()


def test_a_run_that_breaks_more_or_breaks_it_by_more_tests_nothing() -> None:
    farther, both = FOUND.with_(messages=(16384,)), NEXT_STEP.with_(loopback=False)
    assert asked([farther, both]) == asked([])


def test_a_run_elsewhere_inside_the_other_conditions_tests_as_well() -> None:
    elsewhere = NEXT_STEP.with_(opcode=Opcode.SEND, qps=512)
    assert all(not each.loopback for each in asked([elsewhere]))
