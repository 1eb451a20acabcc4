"""What a known anomaly says of a workload."""

from __future__ import annotations

import pytest

from collie.advise.overlap import Known
from collie.detect.symptom import Symptom
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload

LOOPED = Mfs((Condition("loopback", Op.EQUAL, True),))


@pytest.mark.parametrize(
    ("known", "shown", "explains"),
    [
        (Symptom.PAUSE, Symptom.PAUSE, True),
        (Symptom.PAUSE, Symptom.LOW_THROUGHPUT, True),
        (Symptom.PAUSE, Symptom.VICTIM_LOSS, False),
        (Symptom.VICTIM_LOSS, Symptom.VICTIM_LATENCY, True),
        (Symptom.VICTIM_LOSS, Symptom.PAUSE, False),
        (None, Symptom.VICTIM_LOSS, True),
    ],
)
def test_what_harms_others_does_not_explain_what_the_traffic_itself_shows(
    known: Symptom | None, shown: Symptom, explains: bool
) -> None:
    anomaly = Known("a1", "It is slow.", LOOPED, Workload(loopback=True), symptom=known)
    assert anomaly.explains(Workload(loopback=True), shown) is explains
    assert not anomaly.explains(Workload(), shown)
