"""Workloads drawn inside a minimal feature set."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from scipy.stats import chisquare

from collie.search.draws import draw_inside
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import Condition, Mfs, Op, sources
from collie.workloads.workload import QpType, Workload
from tests.support.extractions import SPACE, planted_at

PLANTED = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32), Condition("mtu", Op.AT_MOST, 1024)))
START = SPACE.base.with_(wqe_batch=128, mtu=512)


def drawn(mfs: Mfs, start: Workload, draws: int, *, rest_plain: bool = False, seed: int = 1) -> list[Workload]:
    rng = Random(seed)
    workloads = [start]
    for _ in range(draws):
        workloads.append(draw_inside(SPACE, mfs, workloads[-1], rng, rest_plain=rest_plain))
    return workloads[1:]


def steps(name: str) -> list[object]:
    dimension = SPACE.dimensions[name]
    assert isinstance(dimension, Choice | Ordered)
    return list(dimension.values if isinstance(dimension, Choice) else dimension.ladder)


@pytest.mark.parametrize("rest_plain", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_draws_lie_inside_the_set_and_the_space(seed: int, rest_plain: bool) -> None:
    mfs, start = planted_at(seed)
    for workload in drawn(mfs, start, 20, rest_plain=rest_plain):
        assert mfs.covers(workload)
        assert SPACE.allows(workload)


@pytest.mark.parametrize("name", ["sge_count", "loopback", "mtu"])
def test_each_step_of_a_ladder_is_drawn_as_often_as_another(name: str) -> None:
    """A dimension that the set names, too: `mtu` over the steps that the set admits."""
    admitted = [step for step in steps(name) if all(c.admits(step) for c in PLANTED.conditions if c.dimension == name)]
    counts = Counter(workload.get(name) for workload in drawn(PLANTED, START, 800))
    assert set(counts) == set(admitted)
    assert chisquare([counts[step] for step in admitted]).pvalue > 1e-4


def test_every_dimension_is_drawn_anew() -> None:
    workloads = drawn(PLANTED, START, 200)
    for name in SPACE.dimensions:
        assert len({workload.get(name) for workload in workloads}) > 1, name


def test_messages_have_every_length_and_fit_their_region() -> None:
    dimension = SPACE.dimensions["messages"]
    assert isinstance(dimension, Vector)
    workloads = drawn(PLANTED, START, 400)
    assert {len(workload.messages) for workload in workloads} == set(range(1, dimension.max_length + 1))
    assert all(max(workload.messages) <= workload.mr_bytes for workload in workloads)
    assert all(max(w.messages) <= w.mtu for w in workloads if w.qp_type is QpType.UD)


def test_the_rest_is_plain_where_the_set_leaves_it_free() -> None:
    named = {name for condition in PLANTED.conditions for name in sources(condition.dimension)}
    held = {"sge_count", "mr_bytes"}  # a split and messages can hold them, which are made plain after them
    workloads = drawn(PLANTED, START, 60, rest_plain=True)
    for name in set(SPACE.dimensions) - named - held:
        assert {workload.get(name) for workload in workloads} == {SPACE.base.get(name)}, name
    assert len({workload.get("wqe_batch") for workload in workloads}) > 1
    assert len({workload.get("mtu") for workload in workloads}) > 1


def test_a_derived_feature_keeps_its_dimensions_from_being_plain() -> None:
    mfs = Mfs((Condition("total_mrs", Op.AT_LEAST, 12288),))
    workloads = drawn(mfs, SPACE.base.with_(qps=24, mrs_per_qp=1024), 60, rest_plain=True)
    assert all(mfs.covers(workload) for workload in workloads)
    assert len({(workload.qps, workload.mrs_per_qp) for workload in workloads}) > 3


def test_a_seed_gives_its_draws() -> None:
    assert drawn(PLANTED, START, 20, seed=4) == drawn(PLANTED, START, 20, seed=4)
    assert drawn(PLANTED, START, 20, seed=4) != drawn(PLANTED, START, 20, seed=5)
