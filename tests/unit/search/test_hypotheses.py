"""Explanations that agree with all runs."""

from __future__ import annotations

from random import Random

from collie.content.spaces import load_space
from collie.workloads.feature import Condition, Mfs, Op
from tests.support.extractions import hypotheses

SPACE = load_space("nsdi22")


def test_what_is_left_agrees_with_the_runs() -> None:
    mfs = Mfs((Condition("qps", Op.AT_LEAST, 320), Condition("wqe_batch", Op.AT_MOST, 8)))
    rng = Random(2)
    finding = next(w for w in iter(lambda: SPACE.sample(rng), None) if mfs.covers(w))
    limits, left = hypotheses(finding, mfs, [SPACE.sample(rng) for _ in range(60)])
    for _ in range(300):
        workload = SPACE.mutate(finding, rng)
        left.learn(limits.coordinates(workload), 1.0 if mfs.covers(workload) else -1.0)
    best = Mfs(tuple(limits.conditions(left.best(), limits.coordinates(finding)[None])))
    drawn = [SPACE.mutate(finding, rng) for _ in range(200)]
    assert sum(best.covers(workload) == mfs.covers(workload) for workload in drawn) >= 190


def test_without_any_healthy_run_nothing_is_a_condition() -> None:
    finding = SPACE.base.with_(qps=512)
    limits, left = hypotheses(finding, Mfs((Condition("qps", Op.AT_LEAST, 1),)), [])
    assert limits.conditions(left.best(), limits.coordinates(finding)[None]) == []
