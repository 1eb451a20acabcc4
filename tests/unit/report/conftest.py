"""Results of commands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.campaign.reproduce import Reproduction, Trial
from collie.campaign.single_run import Case, JudgedRun
from collie.campaign.summary import Summary
from collie.detect.bounds import Bound
from collie.detect.confirm import Reliability
from collie.detect.plain import plain_sibling
from collie.detect.reading import RunReading
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.search.discovery import DiscoveryEstimate
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.workload import Opcode, Workload
from tests.support.campaigns import HEADER, PAUSING, SPACE, fill
from tests.support.summaries import TELLING


@pytest.fixture(name="summary")
def make_summary() -> Summary:
    store = MemoryStore(HEADER)
    fill(store)
    return Summary(71, {"qp timeout": 2, "agent gone": 1}, 10, 5, 1800.25, store.anomalies(), "coverage")


@pytest.fixture(name="judged")
def make_judged() -> JudgedRun:
    workload = Workload(opcode=Opcode.SEND, qps=64)
    result = FakeTestbed([Planted(PAUSING, Symptom.PAUSE, 0.182)]).measure(workload, 1)
    verdict = Verdict(Outcome.ANOMALOUS, "host b sends pause for 18.2% of the time", Symptom.PAUSE, 0.182, "b")
    return JudgedRun(workload, plain_sibling(workload, SPACE), Bound(1e11, 3e6, "plain sibling"), result, verdict)


@pytest.fixture(name="reproduction")
def make_reproduction() -> Reproduction:
    case = Case("nsdi22-01", Workload(qps=64, opcode=Opcode.SEND), Symptom.PAUSE, PAUSING)
    displayed = Verdict(Outcome.ANOMALOUS, "host b sends pause", Symptom.PAUSE, 0.2, "b")
    normal = Verdict(Outcome.NORMAL, "all well")
    runs = (
        RunReading(displayed, 60e6),
        RunReading(replace(displayed, severity=0.4), 40e6),
        RunReading(inconclusive("link changed")),
    )
    return Reproduction(
        case.symptom,
        Trial(case.workload, None, runs),
        (Trial(Workload(qps=8), PAUSING.conditions[0], (RunReading(normal, 1e9),) * 3),),
        (PAUSING.conditions[1],),
    )


@pytest.fixture(name="full")
def make_full(summary: Summary) -> Summary:
    first = replace(summary.anomalies[0], telling=(TELLING,), hint="receives are late")
    return replace(
        summary,
        anomalies=(first, *summary.anomalies[1:]),
        trust=Reliability(60, 1, 0.025, 0.0004, 0.28),
        discovery_estimate=DiscoveryEstimate(0.12, 9, 3, 1, 7560.0, 36000.0),
    )
