"""Thresholds between two steps of a ladder."""

from __future__ import annotations

from collie.content.spaces import load_space
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import widen_to_untested

SPACE = load_space("nsdi22")


def test_a_workload_between_two_steps_of_the_ladder_is_the_same_anomaly() -> None:
    found = Mfs((
        Condition("sge_count", Op.AT_LEAST, 3),
        Condition("min_segment_bytes", Op.AT_MOST, 1024),
        Condition("max_segment_bytes", Op.AT_LEAST, 65536),
    ))  # fmt: skip
    between = SPACE.base.with_(sge_count=3, sge_split=(128,), messages=(128 + 2 * 50000,), mr_bytes=1 << 22)
    assert not found.covers(between)
    assert widen_to_untested(found, SPACE).covers(between)
    refuted = between.with_(messages=(128 + 2 * 32768,))
    assert not widen_to_untested(found, SPACE).covers(refuted)
