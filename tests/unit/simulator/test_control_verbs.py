"""Control verbs and errors beside the traffic: firmware time, invalidated entries, and what they cost a neighbour."""

from __future__ import annotations

from random import Random

import pytest

from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.simulator.demand import WorkingSets, working_sets
from collie.simulator.model import evaluate, evaluate_many
from collie.simulator.numbers import ONE
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.tenants import kept_beside
from collie.simulator.traffic import traffic_of
from collie.workloads.workload import CONTROL_VERBS, Workload

F = load_subsystem("F", SubsystemFile).hardware
VERBS = load_subsystem("F-verbs", SubsystemFile).hardware
SPACE = load_space("control-verbs")
LIGHT = Workload(qps=8, offered_bps=10 * 10**9)
REGIONS, QUEUE_PAIRS = LIGHT.with_(new_mrs_per_second=20_000), LIGHT.with_(new_qps_per_second=400)


def sets_of(workload: Workload) -> WorkingSets:
    return working_sets(VERBS, traffic_of(VERBS, workload), ONE)[1]


def test_each_verb_invalidates_entries_of_its_own_cache() -> None:
    plain, regions, queue_pairs = map(sets_of, (LIGHT, REGIONS, QUEUE_PAIRS))
    assert regions.translation_misses == pytest.approx(20 / 52, abs=0.001)
    assert queue_pairs.context_misses == pytest.approx(0.4, abs=0.001)
    assert regions.context_misses == plain.context_misses
    assert queue_pairs.translation_misses == plain.translation_misses


def test_the_firmware_carries_out_no_more_than_it_has_time_for() -> None:
    most, more = (sets_of(LIGHT.with_(new_mrs_per_second=rate)) for rate in (50_000, 500_000))
    assert more.translation_misses == pytest.approx(most.translation_misses)
    assert more.held == pytest.approx(most.held)
    assert most.held == pytest.approx(VERBS.control_verbs.held_ratio)
    both = sets_of(LIGHT.with_(new_mrs_per_second=50_000, new_qps_per_second=1000))
    assert both.held == pytest.approx(most.held)
    assert both.translation_misses < most.translation_misses


def test_address_handles_and_errors_invalidate_nothing() -> None:
    plain = sets_of(LIGHT)
    for beside in (LIGHT.with_(new_ahs_per_second=10_000), LIGHT.with_(qp_errors_per_second=100)):
        sets = sets_of(beside)
        assert sets.held > 0
        assert (sets.context_misses, sets.translation_misses) == (plain.context_misses, plain.translation_misses)


def test_errors_come_on_top_of_control_verbs() -> None:
    assert sets_of(LIGHT.with_(qp_errors_per_second=250)).held == pytest.approx(0.5)
    both = LIGHT.with_(qp_errors_per_second=250, new_ahs_per_second=100_000)
    assert sets_of(both).held == pytest.approx(0.75)


def test_a_neighbour_keeps_little_beside_errors() -> None:
    """The flow beside it needs its part of the fifth that is left."""
    errors, offered = LIGHT.with_(qp_errors_per_second=1000), LIGHT.offered_bps
    both = kept_beside(VERBS, LIGHT).bps + offered
    assert kept_beside(VERBS, errors).bps + offered == pytest.approx(both / 5, rel=0.02)
    assert kept_beside(F, errors).bps == kept_beside(F, LIGHT).bps


def test_a_neighbour_keeps_half_as_with_husky() -> None:
    usual = kept_beside(VERBS, LIGHT).bps
    for verbs in ({"new_mrs_per_second": 50_000}, {"new_qps_per_second": 1000}, {"new_ahs_per_second": 50_000}):
        assert kept_beside(VERBS, LIGHT.with_(**verbs)).bps == pytest.approx(usual / 2, rel=0.1)
        assert kept_beside(F, LIGHT.with_(**verbs)).bps == kept_beside(F, LIGHT).bps, "F has no such quantities"


def test_without_control_verbs_both_subsystems_are_one() -> None:
    for seed in range(50):
        workload = SPACE.sample(Random(seed)).with_(**dict.fromkeys(CONTROL_VERBS, 0))
        assert evaluate(VERBS, workload).delivered_bps() == evaluate(F, workload).delivered_bps()


def test_many_points_at_once_are_those_one_by_one() -> None:
    workloads = [LIGHT, REGIONS.with_(offered_bps=0), QUEUE_PAIRS.with_(offered_bps=160 * 10**9)]
    _, together = evaluate_many(VERBS, workloads).delivered_bps()
    assert list(together) == pytest.approx([evaluate(VERBS, workload).delivered_bps()[1] for workload in workloads])


@pytest.mark.parametrize("name", CONTROL_VERBS)
def test_imitated_verbs_are_nothing_to_the_nic(name: str) -> None:
    making = LIGHT.with_(**{name: 500})
    assert kept_beside(VERBS, making) != kept_beside(VERBS, LIGHT)
    assert kept_beside(VERBS, making.with_(control_verbs_imitated=True)) == kept_beside(VERBS, LIGHT)
