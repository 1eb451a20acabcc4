"""Extraction of anomalies that show another symptom in some workloads, as lost packets and failed requests."""

from __future__ import annotations

from dataclasses import replace

from collie.detect.symptom import Symptom, Verdict
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Opcode, Workload
from tests.support.extractions import NORMAL, SHOWS, SPACE, run

MANY = Mfs((Condition("qps", Op.AT_LEAST, 320),))
FAILS = replace(SHOWS, symptom=Symptom.COMPLETION_ERRORS, reason="work requests complete with errors", margin=9.0)
LOSES = replace(FAILS, symptom=Symptom.LOSS, reason="host b discards packets")


def errors_of_sends(workload: Workload) -> Verdict:
    """Return errors where a receive is consumed, and else the loss that is behind them."""
    if not MANY.covers(workload):
        return NORMAL
    return FAILS if workload.opcode is Opcode.SEND else LOSES


def test_the_simplest_workload_shows_the_symptom_of_the_anomaly() -> None:
    start = SPACE.base.with_(qps=1024, opcode=Opcode.SEND, sge_count=4)
    found, _ = run(start, errors_of_sends, symptom=Symptom.COMPLETION_ERRORS)
    assert found.mfs == MANY, "what loses packets reproduces it, too"
    assert found.complete
    assert errors_of_sends(found.workload) is FAILS
