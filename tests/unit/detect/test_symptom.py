"""Symptoms and verdicts."""

from __future__ import annotations

import pytest

from collie.detect.symptom import Received, Symptom, inconclusive, severity_is_of


def test_symptoms_of_one_cause_are_related_but_for_pause_and_wrong_payload() -> None:
    assert Symptom.RNR_STORM.is_related(Symptom.LOW_THROUGHPUT)
    assert Symptom.UNFAIRNESS.is_related(Symptom.COMPLETION_ERRORS)
    for alone in (Symptom.PAUSE, Symptom.WRONG_PAYLOAD):
        assert [related for related in Symptom if alone.is_related(related)] == [alone]
        assert [related for related in Symptom if related.is_related(alone)] == [alone]
    assert Symptom.PAUSE.is_looked_for_before(Symptom.RNR_STORM)
    assert not Symptom.PAUSE.is_looked_for_before(Symptom.WRONG_PAYLOAD)


def test_a_verdict_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="three values"):
        bool(inconclusive("nothing"))


@pytest.mark.parametrize(
    ("symptom", "reason", "of"),
    [
        (Symptom.PAUSE, "host b sends pause for 40.0% of the time", Symptom.PAUSE),
        (Symptom.PAUSE, "pause for 9.0% of the time and 40% of the throughput is missing", Symptom.LOW_THROUGHPUT),
        (
            Symptom.PAUSE,
            "pause for 9.0% of the time and throughput is 40% below the specification",
            Symptom.LOW_THROUGHPUT,
        ),
        (Symptom.PAUSE, "pause for 40.0% of the time and 30% of the throughput is missing", Symptom.PAUSE),
        (Symptom.LOW_THROUGHPUT, "host b receives 60 Gbit/s", Symptom.LOW_THROUGHPUT),
        (Symptom.STALL, "nothing completes on flow a-b for 1 s, 40% of the window", Symptom.STALL),
    ],
)
def test_a_severity_is_that_of_the_throughput_where_the_reason_says_so(
    symptom: Symptom, reason: str, of: Symptom
) -> None:
    assert severity_is_of(symptom, 0.4, reason) is of


@pytest.mark.parametrize(
    ("slow", "fast", "times"),
    [
        (Received(40e9, 4e6), Received(120e9, 8e6), 2.0),
        (Received(400e9, 4e6), Received(200e9, 12e6), 3.0),
        (Received(40e9, 4e6), Received(40e9, 4e6), 1.0),
        (Received(40e9, 4e6), Received(20e9, 2e6), 1.0),
        (Received(1e9, 4e6), Received(4e9, 12e6), 3.0),
    ],
    ids=["in both", "in packets alone", "alike", "faster", "than small packets"],
)
def test_a_host_is_slower_by_the_smaller_factor_and_never_by_less_than_one(
    slow: Received, fast: Received, times: float
) -> None:
    assert slow.times_slower_than(fast) == pytest.approx(times)
