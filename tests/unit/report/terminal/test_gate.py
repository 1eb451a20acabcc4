"""Words of a gate's answer."""

from __future__ import annotations

import pytest

from collie.campaign.gate.cases import CaseOrigin, GateCase
from collie.campaign.gate.summary import CaseResult
from collie.detect.compare import Change, Comparison, RunPair
from collie.detect.reading import RunReading, Sign
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.report.terminal.gate import GateContext
from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload

HEALTHY = RunReading(Verdict(Outcome.NORMAL, "fine"), 100e9, 0.0)


def command(kind: CaseOrigin, symptom: Symptom | None) -> str:
    """Return what reproduces a case that shows low throughput on the candidate."""
    slow = RunReading(Verdict(Outcome.ANOMALOUS, "slow", Symptom.LOW_THROUGHPUT, 0.5, "b", 2.5), 50e9, 0.0)
    case = GateCase("nsdi22-17", kind, "a title", Workload(), Mfs(()), "nsdi22-17", symptom)
    comparison = Comparison(Change.NEW, "slower", (RunPair(HEALTHY, slow, Sign.WORSE),) * 3)
    context = GateContext("c", "F", ("--subsystem", "F"), (), (), "gates/one", "2026-01-01T00:00:00Z", 1)
    return context.reproduce(CaseResult(case, comparison, 0.01, 60.0))


@pytest.mark.parametrize(
    ("kind", "symptom", "reproduced"),
    [
        (CaseOrigin.KNOWN, Symptom.LOW_THROUGHPUT, "nsdi22-17"),
        (CaseOrigin.KNOWN, Symptom.PAUSE, "gates/one/nsdi22-17"),
        (CaseOrigin.BASELINE, Symptom.PAUSE, "gates/one/nsdi22-17"),
        (CaseOrigin.NEIGHBOUR, None, "nsdi22-17 --controls"),
    ],
)
def test_an_anomaly_with_another_symptom_is_reproduced_as_the_gate_recorded_it(
    kind: CaseOrigin, symptom: Symptom | None, reproduced: str
) -> None:
    assert command(kind, symptom) == f"collie reproduce {reproduced} --subsystem F"
