"""Explanations that agree with all runs."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, strategies as st

from collie.content.spaces import load_space
from collie.search.hypotheses import in_steps
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


@given(st.lists(st.floats(-8.0, 8.0), min_size=1, max_size=600), st.randoms(use_true_random=False))
def test_the_sum_of_the_evidence_does_not_depend_on_the_order_of_addition(gains: list[float], rng: Random) -> None:
    """The order depends on the CPU, and a seed gives the same campaign on each."""
    steps = in_steps(np.array(gains)).astype(np.float32)
    other = steps[rng.sample(range(len(steps)), len(steps))]
    assert np.abs(steps - gains).max() <= 1 / 512
    assert np.add.accumulate(steps)[-1] == np.add.accumulate(other)[-1]
