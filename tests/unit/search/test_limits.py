"""Limits that an explanation can set."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from collie.content.spaces import load_space
from collie.search.limits import CandidateLimits
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Memory, Opcode, QpType
from tests.support.extractions import SHOWS, planted, run

SPACE = load_space("nsdi22")


def test_the_finding_satisfies_every_limit_and_each_names_its_exclusions() -> None:
    rng = Random(1)
    for _ in range(50):
        finding, other = SPACE.sample(rng), SPACE.sample(rng)
        limits = CandidateLimits(SPACE, finding)
        here, there = limits.coordinates(finding), limits.coordinates(other)
        for index, limit in enumerate(limits.limits):
            assert (here[index] >= limit.thresholds).all()
            assert np.exp(limit.log_prior).sum() == pytest.approx(1.0)
            if limit.op is Op.EQUAL:
                continue
            for value, threshold in zip(limit.values, limit.thresholds[1:], strict=True):
                condition = Condition(limit.feature, limit.op, value)
                assert condition.holds(other) == (there[index] >= threshold), condition


def test_a_set_of_values_holds_all_that_are_not_excluded() -> None:
    limits = CandidateLimits(SPACE, SPACE.base)

    def left(*excluded: QpType) -> list[Condition]:
        chosen = [int(limit.feature == "qp_type" and limit.values[0] in excluded) for limit in limits.limits]
        return limits.conditions(chosen, limits.coordinates(SPACE.base)[None])

    assert left(QpType.UD) == [Condition("qp_type", Op.ONE_OF, (QpType.RC, QpType.UC))]
    assert left(QpType.UD, QpType.UC) == [Condition("qp_type", Op.EQUAL, QpType.RC)]
    assert left() == []


def test_a_limit_on_a_product_reaches_no_farther_than_the_runs_that_show_the_anomaly() -> None:
    finding = SPACE.base.with_(qps=24, mrs_per_qp=1024)
    limits = CandidateLimits(SPACE, finding)
    (at_least,) = [each for each in limits.limits if (each.feature, each.op) == ("nic_mrs", Op.AT_LEAST)]
    chosen = [at_least.values.index(10240) + 1 if each is at_least else 0 for each in limits.limits]
    ran = [finding, finding.with_(qps=12), finding.with_(qps=8)]
    shown = np.array([limits.coordinates(workload) for workload in ran])
    assert limits.conditions(chosen, shown) == [Condition("nic_mrs", Op.AT_LEAST, 12288)]


def test_what_a_nic_is_offered_can_explain_only_where_loads_vary() -> None:
    of_load = {"nic_offered_bps", "offered_messages_per_second", "post_bytes"}
    loads = load_space("offered-load")
    assert of_load <= {limit.feature for limit in CandidateLimits(loads, loads.base).limits}
    assert not of_load & {limit.feature for limit in CandidateLimits(SPACE, SPACE.base).limits}


@pytest.mark.parametrize(
    ("here", "peer", "least", "most"), [(1, 1, (1, 2), ()), (1, 0, (1,), (1,)), (0, 0, (), (1, 0))]
)
def test_an_explanation_can_need_the_memory_of_both_hosts_of_one_or_of_none(
    here: int, peer: int, least: tuple[int, ...], most: tuple[int, ...]
) -> None:
    kinds = (Memory.DRAM, Memory.GPU)
    finding = SPACE.base.with_(memory=kinds[here], peer_memory=kinds[peer], numa_node=here, peer_numa_node=peer)
    limits = CandidateLimits(SPACE, finding).limits
    for feature in ("gpu_hosts", "far_hosts"):
        found = {limit.op: limit.values for limit in limits if limit.feature == feature}
        assert (found.get(Op.AT_LEAST, ()), found.get(Op.AT_MOST, ())) == (least, most)


def test_the_transport_of_a_space_that_has_only_one_is_part_of_a_set() -> None:
    reads = SPACE.narrowed({"qp_type": QpType.RC, "opcode": Opcode.READ}, {})
    slow = Mfs((Condition("mtu", Op.AT_MOST, 1024),))
    found, _ = run(reads.base.with_(mtu=512, qps=64), planted(slow), space=reads)
    assert str(found.mfs) == "qp_type == RC and opcode == READ and mtu <= 1024"
    everywhere, _ = run(reads.base, lambda _workload: SHOWS, space=reads)
    assert everywhere.mfs.conditions == (), "no run tells them from others"
