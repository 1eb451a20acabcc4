"""Ground truth: what is anomalous on F, and because of what."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from collie.content.anomalies import load_reference
from collie.content.locate import Kind, find
from collie.content.model import load_model
from collie.content.spaces import load_space
from collie.detect.symptom import Symptom
from collie.search.anomaly import Anomaly
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import CURES, Truth, cured, planted
from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload

F = load_model(find(Kind.SUBSYSTEM, "F"), SubsystemFile)
SPACE = load_space("nsdi22")
TRUTH = Truth(F, SPACE)
HEALTHY = Truth(cured(F, Mechanism), SPACE)
TRIGGERS = {witness.mechanism: witness.trigger for witness in F.witnesses}
ROWS = {
    Mechanism.RECEIVE_WQE_PREFETCH: "nsdi22-01",
    Mechanism.READ_SLOW_PATH: "nsdi22-03",
    Mechanism.TRANSLATION_CACHE: "nsdi22-07",
    Mechanism.CONTEXT_CACHE: "nsdi22-08",
    Mechanism.STRICT_ORDERING: "nsdi22-09",
    Mechanism.LOOPBACK_INCAST: "nsdi22-13",
}


def anomaly(name: str, workload: Workload) -> Anomaly:
    return Anomaly(name, Symptom.PAUSE, 0.2, workload, workload, Mfs(()), "", "b", 1, 30.0, 0, True)


def test_the_witnesses_are_the_papers_triggers() -> None:
    assert planted(F) == tuple(ROWS)
    for mechanism, row in ROWS.items():
        assert TRIGGERS[mechanism].with_(mr_bytes=0) == load_reference(row).trigger.with_(mr_bytes=0)


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_a_cure_heals_its_own_anomaly_and_no_other(mechanism: Mechanism) -> None:
    truth = Truth(cured(F, [mechanism]), SPACE)
    for other, trigger in TRIGGERS.items():
        assert truth.verdict(trigger).is_anomalous is (other is not mechanism)
    assert set(CURES) == set(Mechanism)


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
    assert score.found == ("context_cache",)
    assert len(score.missed) == 5
    assert score.planted == tuple(mechanism.value for mechanism in planted(F))
    assert score.false == 1


@pytest.mark.slow
def test_random_points_are_anomalous_only_through_planted_mechanisms() -> None:
    rng = Random(11)
    conditions = {mechanism: load_reference(row).conditions for mechanism, row in ROWS.items()}
    by_mechanism: Counter[Mechanism | None] = Counter()
    inside: Counter[Mechanism] = Counter()
    hit: Counter[Mechanism] = Counter()
    outside = astray = 0
    points = 5000
    for _ in range(points):
        workload = SPACE.sample(rng)
        anomalous = TRUTH.verdict(workload).is_anomalous
        regions = [mechanism for mechanism, region in conditions.items() if region.covers(workload)]
        inside.update(regions)
        hit.update(regions if anomalous else [])
        outside += not regions
        astray += anomalous and not regions
        if anomalous:
            by_mechanism[TRUTH.mechanism(workload)] += 1
        assert HEALTHY.verdict(workload).is_normal, HEALTHY.verdict(workload).reason
    assert None not in by_mechanism
    assert 0.1 * points < by_mechanism.total() < 0.4 * points
    assert astray < 0.05 * outside
    assert by_mechanism[Mechanism.LOOPBACK_INCAST] < 0.05 * points
    for mechanism in inside:
        assert hit[mechanism] >= 0.6 * inside[mechanism]
