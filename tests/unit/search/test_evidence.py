"""Evidence of runs on an anomaly."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from collie.content.spaces import load_space
from collie.detect.noise import Noise
from collie.detect.signature import Signature
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.search.candidates import Candidates
from collie.search.evidence import Evidence, weigh
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload

SPACE = load_space("nsdi22")

CAUSE = Signature((("misses", 5.0),))
NORMAL = Verdict(Outcome.NORMAL, "fine")


def evidence_of(finding: Workload, measured: list[tuple[Workload, Verdict]]) -> Evidence:
    return Evidence(finding, Symptom.PAUSE, SPACE, lambda _workload: False, measured, Noise())


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


def test_another_anomaly_is_expected_where_it_was_observed() -> None:
    finding = SPACE.base.with_(qps=512)
    hidden = finding.with_(loopback=True)
    measured = [
        (finding, anomalous(Symptom.PAUSE, ("misses", 5.0))),
        (hidden, anomalous(Symptom.PAUSE, ("drops", 8.0))),
    ]
    evidence = evidence_of(finding, measured)
    left = evidence.hypotheses(1)
    around = Candidates(SPACE, evidence.limits, Random(1), lambda _workload: True).around(finding, left)
    chances = evidence.chance_hidden(around)
    by_workload = {candidate.workload: chance for candidate, chance in zip(around, chances, strict=True)}
    assert by_workload[hidden] > 0.8
    assert float(np.median(chances)) < 0.1


@pytest.mark.parametrize(
    ("earlier", "probes", "everything"),
    [
        ([], [True, True], True),
        ([], [True], False),  # two workloads are not every workload
        ([], [True, True, False], False),
        ([True, True], [True], False),  # runs of the search may show another anomaly
        ([False], [True, True, True], False),  # a healthy run of the search
    ],
)
def test_everything_shows_only_if_several_probes_do_and_no_run_was_healthy(
    earlier: list[bool], probes: list[bool], everything: bool
) -> None:
    shows = anomalous(Symptom.PAUSE, ("misses", 5.0))
    finding, *others = (SPACE.base.with_(qps=qps) for qps in (512, 256, 128, 64, 32, 16))
    told = [
        (finding, shows),
        *((other, shows if each else NORMAL) for other, each in zip(others, earlier, strict=False)),
    ]
    evidence = evidence_of(finding, told)
    for other, each in zip(others[len(earlier) :], probes, strict=False):
        evidence.add(other, shows if each else NORMAL)
    assert evidence.all_reproduce is everything


@pytest.mark.parametrize(("symptom", "bare"), [(Symptom.LATENCY, 1.15), (Symptom.LOW_THROUGHPUT, 1.05)])
def test_a_workload_beyond_the_threshold_by_no_more_than_errors_is_not_the_simplest(
    symptom: Symptom, bare: float
) -> None:
    finding, simpler = SPACE.base.with_(qps=512, sge_count=3), SPACE.base.with_(qps=512)

    def simplest(margin: float) -> Workload:
        shows = Verdict(Outcome.ANOMALOUS, "bad", symptom, 0.8, "b", margin=margin)
        evidence = Evidence(finding, symptom, SPACE, lambda _workload: False, [], Noise())
        for _ in range(4):
            evidence.add(simpler, shows)
        return evidence.simplest()

    assert simplest(bare) == finding
    assert simplest(bare + 0.1) == simpler


def test_the_runs_inside_a_set_count_with_those_that_were_healthy_before_the_first_probe() -> None:
    finding = SPACE.base.with_(qps=512)
    evidence = evidence_of(finding, [(finding.with_(qps=256), NORMAL), (finding.with_(qps=8), NORMAL)])
    evidence.add(finding, anomalous(Symptom.PAUSE, ("misses", 5.0)))
    assert evidence.trials(Mfs((Condition("qps", Op.AT_LEAST, 64),))) == (1, 2)
