"""What a run says about an anomaly, and which explanations are left given all runs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from collie.content.spaces import load_space
from collie.detect.signature import Signature
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.search.candidates import Candidates
from collie.search.evidence import Evidence, weigh
from collie.search.hypotheses import Hypotheses
from collie.search.limits import CandidateLimits
from collie.search.plainness import Plainness
from collie.search.recipe import Extraction
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import QpType, Workload

SPACE = load_space("nsdi22")
CAUSE = Signature((("misses", 5.0),))
NORMAL = Verdict(Outcome.NORMAL, "fine")


def anomalous(symptom: Symptom, *raised: tuple[str, float]) -> Verdict:
    return Verdict(Outcome.ANOMALOUS, "bad", symptom, 0.3, "b", signature=Signature(raised))


@pytest.mark.parametrize(
    ("verdict", "low", "high"),
    [
        (anomalous(Symptom.PAUSE, ("misses", 4.0)), 0.9, 1.0),
        (anomalous(Symptom.PAUSE, ("misses", 4.0), ("stalls", 4.0)), 0.3, 0.9),
        (anomalous(Symptom.PAUSE, ("stalls", 6.0)), 0.0, 0.0),
        (NORMAL, -1.0, -1.0),
        (inconclusive("the generator was slow"), 0.0, 0.0),
        (anomalous(Symptom.LOW_THROUGHPUT, ("misses", 5.0)), -1.0, -1.0),
    ],
)
def test_a_run_speaks_for_an_anomaly_as_far_as_symptom_and_counters_agree(
    verdict: Verdict, low: float, high: float
) -> None:
    assert low <= weigh(verdict, Symptom.PAUSE, CAUSE) <= high


def test_a_host_that_pauses_hides_whether_throughput_would_fall() -> None:
    assert weigh(anomalous(Symptom.PAUSE, ("misses", 5.0)), Symptom.LOW_THROUGHPUT, CAUSE) == 0.0


def test_every_limit_is_met_by_the_finding_and_says_what_it_excludes() -> None:
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


def test_a_set_of_values_holds_those_that_showed() -> None:
    limits = CandidateLimits(SPACE, SPACE.base)
    chosen = [int(limit.feature == "qp_type" and limit.values == (QpType.UD,)) for limit in limits.limits]
    looping = SPACE.base.with_(loopback=True)
    assert limits.conditions(chosen, [SPACE.base]) == [Condition("qp_type", Op.EQUAL, QpType.RC)]
    both = limits.conditions(chosen, [SPACE.base, looping.with_(qp_type=QpType.UC)])
    assert both == [Condition("qp_type", Op.ONE_OF, (QpType.RC, QpType.UC))]
    assert limits.conditions([0] * len(limits.limits), [SPACE.base]) == []


def hypotheses(finding: Workload, mfs: Mfs, tried: list[Workload]) -> tuple[CandidateLimits, Hypotheses]:
    limits = CandidateLimits(SPACE, finding)
    workloads = [finding, *tried]
    weights = np.array([1.0 if mfs.covers(workload) else -1.0 for workload in workloads])
    points = np.array([limits.coordinates(workload) for workload in workloads])
    return limits, Hypotheses(limits.limits, 0.01, 0.01, 7, points, weights)


def test_what_is_left_agrees_with_the_runs() -> None:
    mfs = Mfs((Condition("qps", Op.AT_LEAST, 320), Condition("wqe_batch", Op.AT_MOST, 8)))
    rng = Random(2)
    finding = next(w for w in iter(lambda: SPACE.sample(rng), None) if mfs.covers(w))
    limits, left = hypotheses(finding, mfs, [SPACE.sample(rng) for _ in range(60)])
    for _ in range(300):
        workload = SPACE.mutate(finding, rng)
        left.learn(limits.coordinates(workload), 1.0 if mfs.covers(workload) else -1.0)
    best = Mfs(tuple(limits.conditions(left.best(), [finding])))
    drawn = [SPACE.mutate(finding, rng) for _ in range(200)]
    assert sum(best.covers(workload) == mfs.covers(workload) for workload in drawn) >= 190


def test_without_any_healthy_run_nothing_is_a_condition() -> None:
    limits, left = hypotheses(SPACE.base.with_(qps=512), Mfs((Condition("qps", Op.AT_LEAST, 1),)), [])
    assert limits.conditions(left.best(), [SPACE.base]) == []


def test_candidates_are_valid_possible_and_new() -> None:
    rng = Random(3)
    forbidden = Mfs((Condition("loopback", Op.EQUAL, True),))
    finding = next(w for w in iter(lambda: SPACE.sample(rng), None) if not w.loopback)
    limits, left = hypotheses(finding, Mfs((Condition("qps", Op.AT_LEAST, 1),)), [])
    around = Candidates(SPACE, limits, rng, lambda workload: not forbidden.covers(workload)).around(finding, left)
    assert len(around) > 100
    assert len({candidate.workload for candidate in around}) == len(around)
    assert all(SPACE.allows(c.workload) and not c.workload.loopback and c.workload != finding for c in around)


def test_where_another_anomaly_was_met_it_is_expected_again() -> None:
    finding = SPACE.base.with_(qps=512)
    hidden = finding.with_(loopback=True)
    measured = [
        (finding, anomalous(Symptom.PAUSE, ("misses", 5.0))),
        (hidden, anomalous(Symptom.PAUSE, ("drops", 8.0))),
    ]
    evidence = Evidence(finding, Symptom.PAUSE, SPACE, lambda _workload: False, measured)
    left = evidence.hypotheses(Extraction(), 1)
    around = Candidates(SPACE, evidence.limits, Random(1), lambda _workload: True).around(finding, left)
    chances = evidence.chance_hidden(around)
    by_workload = {candidate.workload: chance for candidate, chance in zip(around, chances, strict=True)}
    assert by_workload[hidden] > 0.8
    assert float(np.median(chances)) < 0.1


def test_oddity_and_distance() -> None:
    base, plainness = SPACE.plainest(), Plainness(SPACE)
    assert plainness.complexity(base) == 0.0
    assert 1.0 < plainness.complexity(base.with_(qps=16)) < plainness.complexity(base.with_(qps=512)) < 2.0
    assert plainness.complexity(base.with_(qps=16, mtu=1024)) > 2.0
    assert np.abs(plainness.place(base) - plainness.place(base.with_(loopback=True))).sum() == 1.0
    assert np.abs(plainness.place(base.with_(qps=1)) - plainness.place(base.with_(qps=20_000))).sum() == 1.0
