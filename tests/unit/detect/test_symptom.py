"""Symptoms and verdicts."""

from __future__ import annotations

import pytest

from collie.detect.symptom import Symptom, inconclusive


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
