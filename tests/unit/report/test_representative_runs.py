"""Which run of plain traffic a victim's loss is shown beside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.content.spaces import load_space
from collie.detect.measurement import Victim
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.ports import Measured, RunRecord
from collie.report.representative_runs import number_of, sibling_run, siblings
from collie.workloads.workload import Workload
from tests.support.measurements import measurement

SPACE = load_space("control-verbs")
BUSY = SPACE.base.with_(qps=64, new_mrs_per_second=1000)
PLAIN, IMITATING = siblings(BUSY, SPACE)


def ran(run: int, workload: Workload, kept_bps: float, received_bps: float = 10e9) -> RunRecord:
    found = replace(measurement(received_bps), victim=Victim(100e9, kept_bps))
    return RunRecord(run, "sibling", workload, Measured(found, 1.0), run)


def displayed(symptom: Symptom) -> RunRecord:
    return replace(ran(9, BUSY, 1e9), verdict=Verdict(Outcome.ANOMALOUS, "held up", symptom, 0.9))


@pytest.mark.parametrize(("imitated", "shown"), [((), 2), ((60e9, 70e9, 65e9), 2), ((30e9, 40e9, 35e9), 6)])
def test_it_is_the_one_that_the_verdict_compares_with(imitated: tuple[float, ...], shown: int) -> None:
    plain = [ran(1, PLAIN, 40e9), ran(2, PLAIN, 50e9), ran(3, PLAIN, 60e9, received_bps=90e9)]
    records = [*plain, *(ran(4 + number, IMITATING, kept) for number, kept in enumerate(imitated))]
    assert number_of(sibling_run(displayed(Symptom.VICTIM_LOSS), records, SPACE)) == shown


def test_beside_a_loss_of_the_workload_it_is_the_one_with_the_highest_throughput() -> None:
    records = [ran(1, PLAIN, 60e9), ran(2, PLAIN, 50e9, received_bps=20e9), ran(3, IMITATING, 10e9, received_bps=90e9)]
    assert number_of(sibling_run(displayed(Symptom.LOW_THROUGHPUT), records, SPACE)) == 2


def test_a_workload_without_control_verbs_has_no_imitation() -> None:
    assert siblings(SPACE.base.with_(qps=64), SPACE) == (PLAIN.with_(new_mrs_per_second=0),)
