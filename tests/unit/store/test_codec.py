"""What is recorded comes back as it was."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from collie.campaign.phases import Place
from collie.detect.bounds import Calibration
from collie.detect.measurement import HostMeasurement, Measurement, Sample
from collie.detect.symptom import Received, Verdict
from collie.plain import CODEC
from collie.ports import CampaignHeader, Measured, RunRecord, SetupFailed, is_anew
from collie.search.anomaly import Anomaly
from collie.search.second_cause import Floor
from collie.store import codec, schema
from collie.store.exports import run_line
from collie.store.records import from_row, to_row
from collie.store.series import decode_series, encode_series
from collie.testing.store_suite import ANOMALY, VERDICT, measured, phase
from collie.workloads.workload import Opcode, Workload
from tests.support.strategies import anomalies, calibrations, headers, run_records, verdicts


def through_json(value: Any) -> Any:
    return json.loads(codec.dumps(value))


@given(run_records())
def test_a_run_survives_its_row(record: RunRecord) -> None:
    row = to_row(record)
    assert from_row((*row, schema.digest(*row))) == record
    with pytest.raises(ValueError, match="checksum"):
        from_row((*row, schema.digest(*row) ^ 1))


@given(anomalies())
def test_an_anomaly_survives(anomaly: Anomaly) -> None:
    decoded = codec.decode_anomaly(through_json(codec.encode_anomaly(anomaly)))
    assert decoded == anomaly
    assert decoded.sentence, "what can be read can be put into words"


@given(verdicts())
def test_a_verdict_survives(verdict: Verdict) -> None:
    assert codec.decode(Verdict, through_json(codec.encode(verdict))) == verdict


@given(calibrations())
def test_a_calibration_survives(calibration: Calibration) -> None:
    assert codec.decode_calibration(through_json(codec.encode(calibration))) == calibration


@given(headers())
def test_a_header_survives(header: CampaignHeader) -> None:
    assert codec.decode(CampaignHeader, through_json(codec.encode(header))) == header


@given(run_records())
def test_a_line_of_results_is_json_of_one_line(record: RunRecord) -> None:
    text = codec.dumps(run_line(record, Place(1, 2)))
    assert "\n" not in text
    assert json.loads(text)["schema_version"] == 1


def test_settings_come_back_as_json_has_them() -> None:
    header = CampaignHeader("c", {}, "s", "r", {"sizes": (1, 2), "opcode": Opcode.SEND}, 1, "now")
    assert codec.decode(CampaignHeader, codec.encode(header)).settings == {"sizes": [1, 2], "opcode": "SEND"}


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}])
def test_settings_that_json_cannot_hold_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be recorded"):
        CODEC.write({"key": value})


@pytest.mark.parametrize("undefined", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_a_reading_that_is_no_number_becomes_unknown(undefined: float) -> None:
    series = (Sample(0.0, "a", {"x": undefined, "y": 1.0}),)
    host = HostMeasurement("a", delivered_bps=undefined, counters={"x": undefined})
    result = Measured(Measurement((host,), 4.0, series=series), 20.0)
    back = codec.decode_result(through_json(codec.encode_result(result)))
    assert isinstance(back, Measured)
    assert back.measurement.hosts == (HostMeasurement("a", delivered_bps=None, counters={"x": None}),)
    assert decode_series(encode_series(series)) == (Sample(0.0, "a", {"x": None, "y": 1.0}),)


def test_numbers_of_numpy_are_numbers() -> None:
    host = HostMeasurement("a", counters={"float": np.float64(0.1), "int": np.int64(7)})  # type: ignore[dict-item]
    back = codec.decode_result(through_json(codec.encode_result(Measured(Measurement((host,), 4.0), 20.0))))
    assert isinstance(back, Measured)
    assert back.measurement.hosts[0].counters == {"float": 0.1, "int": 7}


def test_a_number_that_has_to_be_known_is_refused_when_it_is_not() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_row(RunRecord(1, "search", Workload(), SetupFailed("cause", "detail", math.nan), 1.0))
    with pytest.raises(ValueError, match="finished at nan s"):
        to_row(RunRecord(1, "search", Workload(), SetupFailed("cause", "detail", 1.0), math.nan))


def test_output_that_is_no_text_survives_without_what_steers_a_terminal() -> None:
    record = RunRecord(1, "search", Workload(), SetupFailed("cause", "caf\udce9 \x1b[2J", 1.0), 1.0)
    row = to_row(record)
    back = from_row((*row, schema.digest(*row))).result
    assert isinstance(back, SetupFailed)
    assert back.detail == "caf\ufffd \ufffd[2J"


def test_a_workload_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown key 'qsp'"):
        codec.decode_workload({"qsp": 3})
    with pytest.raises(ValueError, match="outcome 'lost'"):
        codec.decode_result({"outcome": "lost", "elapsed_seconds": 1.0})


def test_a_line_holds_inputs_and_outputs_with_units_and_no_samples() -> None:
    line = run_line(phase(7, 5), Place(5, 3))
    assert (line["run"], line["set_up"], line["phase"], line["made_for"]["qps"]) == (7, 5, 3, 9)
    assert line["stands"]
    assert run_line(measured(1), Place(1, 1))["made_for"] is None
    assert line["workload"]["messages"] == [64, 2048]
    assert line["outcome"] == "measured"
    assert line["elapsed_seconds"] == 20.1
    assert line["hosts"][1]["delivered_bps"] == 1e11 / 3
    assert line["hosts"][0]["counters"]["absent"] is None
    assert line["verdict"] is None
    assert "series" not in line


def test_a_finding_of_an_earlier_collie_has_no_discriminating_counters() -> None:
    raw = codec.encode_anomaly(ANOMALY)
    del raw["telling"], raw["hint"]
    assert codec.decode_anomaly(raw) == replace(ANOMALY, telling=(), hint="")


NONSENSE = (
    {"dimension": "min_message_bytes", "op": "==", "value": "abc"},
    {"dimension": "mr_bytes", "op": ">=", "value": 1e300},
    {"dimension": "mr_bytes", "op": "<=", "value": -1},
    {"dimension": "offered_bps", "op": "==", "value": [1, 2]},
    {"dimension": "loopback", "op": "==", "value": 3},
    {"dimension": "qps", "op": "in", "value": [1, "x"]},
    {"dimension": "qp_type", "op": "==", "value": 7},
)


@pytest.mark.parametrize("condition", NONSENSE, ids=lambda each: f"{each['dimension']} {each['op']}")
def test_a_condition_that_no_sentence_can_state_is_refused_when_it_is_read(condition: dict[str, object]) -> None:
    document = {**codec.encode_anomaly(ANOMALY), "features": [condition]}
    with pytest.raises(ValueError, match=f"{condition['dimension']} cannot be compared by {condition['op']} "):
        codec.decode_anomaly(document)


def test_a_finding_of_an_earlier_collie_has_no_fresh_runs() -> None:
    raw = codec.encode_anomaly(replace(ANOMALY, fresh_runs=9, fresh_shows=8))
    del raw["fresh_runs"], raw["fresh_shows"]
    assert codec.decode_anomaly(raw) == ANOMALY


@pytest.mark.parametrize(
    ("bps", "pps", "slower"), [(0.0, 1.0, 2.0), (1.0, -1.0, 2.0), (1.0, 1.0, 0.0), (1.0, 1.0, 0.9)]
)
def test_a_floor_that_cannot_be_is_refused(bps: float, pps: float, slower: float) -> None:
    raw = codec.encode_anomaly(replace(ANOMALY, floor=Floor(0.5, Received(bps, pps), slower)))
    with pytest.raises(ValueError, match="faster than another"):
        codec.decode_anomaly(raw)


@pytest.mark.parametrize(("shows", "fresh"), [(2, 1), (-1, 1)])
def test_fresh_runs_that_cannot_be_are_refused(shows: int, fresh: int) -> None:
    raw = {**codec.encode_anomaly(ANOMALY), "fresh_shows": shows, "fresh_runs": fresh}
    with pytest.raises(ValueError, match="fresh runs"):
        codec.decode_anomaly(raw)


def test_a_finding_of_an_earlier_collie_has_no_history() -> None:
    raw = codec.encode_anomaly(ANOMALY)
    del raw["made_for"], raw["history"]
    assert codec.decode_anomaly(raw) == ANOMALY


def test_a_history_that_no_set_up_can_have_is_refused() -> None:
    phase = ANOMALY.workload.with_(qps=2 * ANOMALY.workload.qps)
    with pytest.raises(ValueError, match="no set-up"):
        codec.decode_anomaly(codec.encode_anomaly(replace(ANOMALY, history=(phase,))))
    with pytest.raises(ValueError, match="does not fit its set-up: qps"):
        codec.decode_anomaly(codec.encode_anomaly(replace(ANOMALY, made_for=ANOMALY.workload, history=(phase,))))


def test_a_verdict_of_an_earlier_collie_has_neither_margin_nor_bound() -> None:
    raw = codec.encode(replace(VERDICT, bound_bps=1e11))
    del raw["margin"], raw["bound_bps"]
    assert codec.decode(Verdict, raw) == replace(VERDICT, margin=0.0)


def test_a_run_of_an_earlier_collie_names_no_data_path() -> None:
    result = measured(1).result
    raw = codec.encode_result(result)
    del raw["health"]["data_path"], raw["health"]["queue_fill_ratio"]
    decoded = codec.decode_result(raw)
    assert isinstance(decoded, Measured)
    assert (decoded.measurement.health.data_path, decoded.measurement.health.queue_fill_ratio) == (None, None)


def test_a_set_up_of_an_earlier_collie_ended_with_its_run() -> None:
    written = codec.encode_result(phase(1, 1).result)
    assert written.pop("stands") is True
    assert written.pop("anew") is False
    earlier = codec.decode_result(written)
    assert isinstance(earlier, Measured)
    assert not earlier.stands
    assert not earlier.anew


def test_a_set_up_that_was_made_anew_is_remembered() -> None:
    result = phase(1, 1).result
    assert isinstance(result, Measured)
    assert is_anew(codec.decode_result(codec.encode_result(replace(result, anew=True))))


def test_a_run_of_an_earlier_collie_had_no_victim() -> None:
    written = codec.encode_result(measured(1).result)
    assert written.pop("victim") == {"alone_bps": 27e6, "beside_bps": None, "offered_bps": 0, "latency": None}
    earlier = codec.decode_result(written)
    assert isinstance(earlier, Measured)
    assert earlier.measurement.victim is None
