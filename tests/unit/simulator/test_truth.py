"""Ground truth: what is anomalous on F, and because of what."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from collie.content.anomalies import load_references
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.detect.symptom import Symptom
from collie.search.anomaly import Anomaly
from collie.simulator.cures import CURES, cured
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth, planted
from collie.workloads.feature import Mfs
from collie.workloads.reference import ReferenceAnomaly
from collie.workloads.workload import Memory, Workload
from tests.support.regions import inside

F = load_subsystem("F", SubsystemFile)
SPACE = load_space("nsdi22")
TRUTH = Truth(F, SPACE)
TRIGGERS = {witness.mechanism: witness.trigger for witness in F.witnesses}
REFERENCES = [reference for reference in load_references("nsdi22") if reference.subsystem == "F"]


def anomaly(name: str, workload: Workload, *, complete: bool = True, same_as: str | None = None) -> Anomaly:
    found = Anomaly(name, Symptom.PAUSE, 0.2, workload, workload, Mfs(()), "", "b", 1, 30.0, 0, complete)
    return replace(found, same_as=same_as)


def test_the_witnesses_are_the_papers_triggers() -> None:
    assert len(F.witnesses) == len(REFERENCES) == 13
    told_apart = Mechanism.PEER_TO_PEER_REDIRECT  # its trigger shows #9 first, unless ordering is relaxed
    for witness, reference in zip(F.witnesses, REFERENCES, strict=True):
        if witness.mechanism is not told_apart:
            assert witness.trigger.with_(mr_bytes=0) == reference.trigger.with_(mr_bytes=0)


@pytest.mark.parametrize("mechanism", planted(F))
def test_a_cure_heals_its_own_anomaly_and_no_other(mechanism: Mechanism) -> None:
    healed = Truth(cured(F, [mechanism]), SPACE)
    for other, trigger in TRIGGERS.items():
        assert healed.verdict(trigger).is_anomalous is (other is not mechanism)


def test_every_mechanism_has_a_cure() -> None:
    assert set(CURES) == set(Mechanism)


def test_many_at_once_are_judged_as_one_by_one() -> None:
    rng = Random(4)
    workloads = [SPACE.sample(rng) for _ in range(300)] + list(TRIGGERS.values())
    severities = TRUTH.severities(workloads)
    credited = TRUTH.mechanisms(workloads)
    for workload, severity, mechanism in zip(workloads, severities, credited, strict=True):
        verdict = TRUTH.verdict(workload)
        assert verdict.severity == pytest.approx(severity) if verdict.is_anomalous else severity == 0
        assert (mechanism is None) is verdict.is_normal


def test_an_anomaly_is_credited_to_what_costs_it_most() -> None:
    both = TRIGGERS[Mechanism.STRICT_ORDERING].with_(loopback=True)
    costs = TRUTH.costs(both)
    assert costs[Mechanism.STRICT_ORDERING] > costs[Mechanism.LOOPBACK_INCAST] > 0
    assert TRUTH.mechanism(both) is Mechanism.STRICT_ORDERING
    mixed = TRIGGERS[Mechanism.CONTEXT_CACHE].with_(mrs_per_qp=64, messages=(256,))
    costs = TRUTH.costs(mixed)
    assert set(costs) == {Mechanism.CONTEXT_CACHE, Mechanism.TRANSLATION_CACHE}
    assert TRUTH.mechanism(mixed) is max(costs, key=lambda name: costs[name])
    assert TRUTH.mechanism(SPACE.base) is None


def test_a_score_counts_found_missed_and_false() -> None:
    score = TRUTH.score(
        [
            anomaly("a1", TRIGGERS[Mechanism.CONTEXT_CACHE]),
            anomaly("a2", TRIGGERS[Mechanism.CONTEXT_CACHE].with_(qps=1024)),
            anomaly("a3", SPACE.base),
        ]
    )
    assert score.mechanisms == {"a1": "context_cache", "a2": "context_cache", "a3": None}
    assert score.found == score.explained == ("context_cache",)
    assert len(score.missed) == 12
    assert score.planted == tuple(mechanism.value for mechanism in planted(F))
    assert score.false == 1
    assert score.absent == ()


def test_a_joined_anomaly_finds_nothing_and_explains_nothing() -> None:
    score = TRUTH.score(
        [
            anomaly("a1", TRIGGERS[Mechanism.CONTEXT_CACHE], complete=False),
            anomaly("a2", TRIGGERS[Mechanism.STRICT_ORDERING]),
            anomaly("a3", TRIGGERS[Mechanism.CONTEXT_CACHE].with_(qps=1024), same_as="a1"),
            anomaly("a4", TRIGGERS[Mechanism.TRANSLATION_CACHE], same_as="a1"),
            anomaly("a5", TRIGGERS[Mechanism.STRICT_ORDERING], same_as="a1"),
        ]
    )
    assert score.found == ("context_cache", "strict_ordering")
    assert score.explained == ("strict_ordering",)
    assert score.joined == 3
    assert score.hidden == ("translation_cache",)
    assert "translation_cache" in score.missed
    assert "strict_ordering" not in score.missed
    assert score.merged_wrong == {
        "a4": ("translation_cache", "context_cache"),
        "a5": ("strict_ordering", "context_cache"),
    }


def test_a_right_join_and_one_to_an_unknown_anomaly_are_not_wrong() -> None:
    own = anomaly("a1", TRIGGERS[Mechanism.CONTEXT_CACHE])
    right = anomaly("a2", TRIGGERS[Mechanism.CONTEXT_CACHE].with_(qps=1024), same_as="a1")
    earlier = anomaly("a3", TRIGGERS[Mechanism.STRICT_ORDERING], same_as="known")
    score = TRUTH.score([own, right, earlier])
    assert (score.joined, dict(score.merged_wrong)) == (2, {})
    assert score.hidden == ("strict_ordering",)


def test_a_healthy_workload_joined_to_an_anomaly_is_false_and_wrong() -> None:
    own = anomaly("a1", TRIGGERS[Mechanism.CONTEXT_CACHE])
    score = TRUTH.score([own, anomaly("a2", SPACE.base, same_as="a1")])
    assert score.false == 1
    assert score.merged_wrong == {"a2": (None, "context_cache")}


def test_a_score_leaves_out_what_the_space_cannot_show() -> None:
    narrow = Truth(F, SPACE.narrowed({"loopback": False, "memory": Memory.DRAM, "peer_memory": Memory.DRAM}, {}))
    score = narrow.score([])
    assert set(score.absent) == {Mechanism.LOOPBACK_INCAST, Mechanism.PEER_TO_PEER_REDIRECT}
    assert score.planted == score.missed
    assert {*score.planted, *score.absent} == set(planted(F))


def test_what_shows_beside_its_witness_counts_as_planted() -> None:
    narrow = Truth(F, SPACE.narrowed({"sge_count": 4}, {}))
    assert narrow.outside(TRIGGERS[Mechanism.STRICT_ORDERING]) is not None
    assert Mechanism.STRICT_ORDERING in narrow.score([]).missed


def test_what_a_search_finds_is_planted_however_rare_it_is() -> None:
    narrow = Truth(F, SPACE.narrowed({}, {"qps": 8}))
    assert Mechanism.CONTEXT_CACHE in narrow.score([]).absent
    score = narrow.score([anomaly("a1", TRIGGERS[Mechanism.CONTEXT_CACHE])])
    assert score.found == (Mechanism.CONTEXT_CACHE,)
    assert Mechanism.CONTEXT_CACHE not in score.absent


def test_a_cured_mechanism_is_not_missed() -> None:
    cured_by_setting = Truth(F.with_settings({"firmware": "22.31"}), SPACE)
    assert cured_by_setting.score([]).absent == (Mechanism.ACKNOWLEDGEMENT_BLOCKING,)


@pytest.mark.slow
def test_random_points_are_anomalous_only_through_planted_mechanisms() -> None:
    rng = Random(11)
    workloads = [SPACE.sample(rng) for _ in range(5000)]
    credited = TRUTH.mechanisms(workloads)
    anomalous = TRUTH.severities(workloads) > 0
    by_mechanism = Counter(credited)
    regions = [[region for region in REFERENCES if region.conditions.covers(workload)] for workload in workloads]
    outside = [index for index, covering in enumerate(regions) if not covering]
    assert by_mechanism[None] == len(workloads) - anomalous.sum()
    assert set(by_mechanism) - {None} <= set(planted(F))
    assert sum(anomalous[index] for index in outside) < 0.25 * len(outside)
    rare = (Mechanism.SOCKET_LINK, Mechanism.PEER_TO_PEER_REDIRECT, Mechanism.LOOPBACK_INCAST)
    assert sum(by_mechanism[mechanism] for mechanism in rare) < 0.15 * len(workloads)


@pytest.mark.parametrize("reference", load_references("nsdi22"), ids=lambda reference: reference.id)
def test_most_of_a_region_is_anomalous(reference: ReferenceAnomaly) -> None:
    subsystem = load_subsystem(reference.subsystem, SubsystemFile).with_settings(reference.settings)
    rng = Random(3)
    workloads = [inside(SPACE, reference.conditions, reference.trigger, rng) for _ in range(100)]
    assert all(reference.conditions.covers(workload) and SPACE.allows(workload) for workload in workloads)
    assert sum(Truth(subsystem, SPACE).severities(workloads) > 0) >= 70
