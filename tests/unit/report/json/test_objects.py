"""JSON output of commands."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum

import pytest

from collie.campaign.reproduce import CountersAtDiscovery, Reproduction, Trial
from collie.campaign.single_run import JudgedRun, Phase
from collie.campaign.summary import Summary, Unconfirmed
from collie.detect.bounds import UNBOUNDED
from collie.detect.measurement import GeneratorHealth, Latency, Victim
from collie.detect.reading import RunReading
from collie.detect.signature import Levels, Signature
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.ports import Measured, SetupFailed, Unsupported
from collie.report.json.objects import plain, render_measure, render_measures, render_reproduction, render_search
from collie.report.terminal.summary import render_measurement, render_trials
from collie.testing.fakes import FAKE_CATALOG
from collie.workloads.setup import SetUp
from collie.workloads.workload import Opcode, Workload, render
from tests.support.campaigns import HEADER
from tests.support.strict_json import through_json
from tests.support.summaries import SCORE

SEARCH_KEYS = [
    "schema_version",
    "campaign",
    "testbed",
    "recipe",
    "seed",
    "dropped",
    "runs",
    "set_ups",
    "ended_by",
    "failed_runs",
    "elapsed_seconds",
    "wall_seconds",
    "next_hour_chance",
    "trust",
    "lost_machines",
    "path_killers",
    "pairs",
    "pairs_set_aside",
    "repeated_phases",
    "changed_phases",
    "known_elsewhere_not_confirmed",
    "unconfirmed",
    "anomalies",
]
ANOMALY_KEYS = [
    "id",
    "symptom",
    "severity",
    "workload",
    "features",
    "sentence",
    "found_severity",
    "found_reason",
    "found_at_run",
    "found_at_seconds",
    "extraction_runs",
    "complete",
    "confidence",
    "fresh_runs",
    "fresh_shows",
    "least_severity",
    "most_received",
    "shown_ratio_interval",
    "revised",
    "same_as",
    "likely_same_as",
    "set_up",
    "telling",
    "hint",
    "is_plain",
    "known_as",
]


def test_search_prints_the_documented_keys_in_order(summary: Summary) -> None:
    document = through_json(render_search(HEADER, summary, 12.3))
    assert list(document) == SEARCH_KEYS
    assert [list(anomaly) for anomaly in document["anomalies"]] == [ANOMALY_KEYS] * 2
    assert document["schema_version"] == 1
    assert document["campaign"] == "example"
    assert document["testbed"] == {"kind": "simulated", "subsystem": "F"}
    assert (document["runs"], document["set_ups"], document["failed_runs"]) == (71, 71, 3)
    assert (document["elapsed_seconds"], document["wall_seconds"]) == (1800.25, 12.3)
    first = document["anomalies"][0]
    assert first["features"] == [
        {"dimension": "qps", "op": ">=", "value": 64},
        {"dimension": "opcode", "op": "==", "value": "SEND"},
    ]
    assert first["workload"] == render(summary.anomalies[0].workload)
    assert first["sentence"] == summary.anomalies[0].sentence


def test_search_prints_the_claim_of_fresh_runs(summary: Summary) -> None:
    first, second = summary.anomalies
    fresh = replace(first, fresh_runs=15, fresh_shows=9)
    document = through_json(render_search(HEADER, replace(summary, anomalies=(fresh, second)), 1.0))
    claimed, unclaimed = document["anomalies"]
    assert (claimed["fresh_shows"], claimed["fresh_runs"]) == (9, 15)
    interval = claimed["shown_ratio_interval"]
    assert (interval["method"], interval["confidence"]) == ("wilson", 0.95)
    assert (interval["low"], interval["high"]) == (pytest.approx(0.357, abs=1e-3), pytest.approx(0.802, abs=1e-3))
    assert (unclaimed["fresh_runs"], unclaimed["shown_ratio_interval"]) == (0, None)


def test_search_lists_suspicions_that_show_too_rarely(summary: Summary) -> None:
    verdict = Verdict(Outcome.ANOMALOUS, "host b sends pause", Symptom.PAUSE, 0.02, "b")
    rare = Unconfirmed(7, Workload(qps=64), verdict, 2, 9)
    document = through_json(render_search(HEADER, replace(summary, unconfirmed=(rare,)), 1.0))
    assert document["unconfirmed"] == [
        {
            "run": 7,
            "workload": render(Workload(qps=64)),
            "symptom": "pause",
            "severity": 0.02,
            "reason": "host b sends pause",
            "shows": 2,
            "runs": 9,
        }
    ]


def test_a_score_adds_mechanisms_and_itself(summary: Summary) -> None:
    document = through_json(render_search(HEADER, summary, 12.3, SCORE))
    assert list(document) == [*SEARCH_KEYS, "score"]
    assert list(document["anomalies"][0]) == [*ANOMALY_KEYS, "mechanism"]
    assert [anomaly["mechanism"] for anomaly in document["anomalies"]] == ["receive_wqe_cache", "loopback"]
    assert document["score"] == {
        "planted": ["receive_wqe_cache", "loopback"],
        "found": ["receive_wqe_cache"],
        "explained": ["receive_wqe_cache"],
        "missed": ["loopback"],
        "false": 1,
        "absent": ["context_cache"],
        "joined": 1,
        "hidden": ["loopback"],
        "merged_wrong": {"a2": ["loopback", "receive_wqe_cache"]},
    }


def test_real_hosts_are_described_as_recorded(summary: Summary) -> None:
    testbed = {"kind": "hosts", "name": "alice and bob", "nic": None}
    assert render_search(replace(HEADER, testbed=testbed), summary, 1.0)["testbed"] == testbed


def test_measure_prints_the_whole_measurement(judged: JudgedRun) -> None:
    document = through_json(render_measure(judged))
    assert list(document) == [
        "schema_version",
        "workload",
        "outcome",
        "problem",
        "elapsed_seconds",
        "measurement",
        "plain_sibling",
        "bound",
        "host_bounds",
        "verdict",
    ]
    a, b = document["measurement"]["hosts"]
    assert (a["host"], a["delivered_bps"]) == ("a", None)
    assert b["tx_pause_ratio"] == 0.182
    assert b["counters"]["level"] == 50.0
    assert len(document["measurement"]["series"]) == 10
    assert document["bound"] == {
        "bps": 1e11,
        "pps": 3e6,
        "source": "plain sibling",
        "detail": "",
        "latency": None,
        "victim_bps": None,
        "victim_latency": None,
    }
    assert document["host_bounds"] == {"b": document["bound"]}
    assert document["verdict"]["symptom"] == "pause"
    assert document["plain_sibling"]["qps"] == 16


def test_the_bound_of_a_host_is_its_share_of_a_port(judged: JudgedRun) -> None:
    document = through_json(render_measure(replace(judged, workload=Workload(responders=2))))
    assert {host: bound["bps"] for host, bound in document["host_bounds"].items()} == {"b": 5e10, "c": 5e10}
    assert document["bound"]["bps"] == 1e11


def test_several_measured_workloads_name_their_set_ups(judged: JudgedRun) -> None:
    assert render_measures([judged]) == render_measure(judged), "one workload prints what it always did"
    made_for = judged.workload.with_(qps=64)
    runs = [replace(judged, phase=phase) for phase in (Phase(1, 1, made_for), Phase(2, 1, made_for, "mtu differs"))]
    document = through_json(render_measures(runs))
    assert list(document) == ["schema_version", "measurements"]
    first, second = document["measurements"]
    assert list(first)[:5] == ["set_up", "phase", "made_for", "new_set_up_because", "workload"]
    assert (first["set_up"], first["phase"], first["made_for"]["qps"]) == (1, 1, 64)
    assert (first["new_set_up_because"], second["new_set_up_because"]) == (None, "mtu differs")
    assert second["verdict"]["symptom"] == "pause"
    assert render_measurement(runs[1], FAKE_CATALOG).startswith("set-up 2, phase 1: mtu differs\n")
    assert render_measurement(replace(runs[0], phase=Phase(1, 2, made_for)), FAKE_CATALOG).startswith(
        "set-up 1, phase 2\n"
    )


def test_a_victim_is_shown_with_what_it_lost(judged: JudgedRun) -> None:
    assert isinstance(judged.result, Measured)
    assert through_json(render_measure(judged))["measurement"]["victim"] is None
    beside = replace(judged.result.measurement, victim=Victim(27e6, 3.1e6))
    displayed = replace(judged, result=replace(judged.result, measurement=beside))
    victim = through_json(render_measure(displayed))["measurement"]["victim"]
    lost = pytest.approx(0.885, abs=0.001)
    assert victim == {"alone_bps": 27e6, "beside_bps": 3.1e6, "offered_bps": 0, "latency": None, "lost_ratio": lost}
    assert "victim  keeps 3.1 Mbit/s of 27 Mbit/s alone: 89% lost" in render_measurement(displayed, FAKE_CATALOG)
    late = replace(beside, victim=Victim(27e6, 27e6, 27 * 10**6, Latency(3e-6, 9e-6)))
    text = render_measurement(replace(judged, result=replace(judged.result, measurement=late)), FAKE_CATALOG)
    assert "victim  offers 27 Mbit/s, keeps 27 Mbit/s of 27 Mbit/s alone: 0% lost" in text
    assert "latency victim  3 us median, 9 us for 99%\n" in text
    stamped = replace(late, victim=Victim(27e6, 27e6, 27 * 10**6, Latency(3e-6, 9e-6, clock="nic")))
    displayed = replace(judged, result=replace(judged.result, measurement=stamped))
    assert through_json(render_measure(displayed))["measurement"]["victim"]["latency"]["clock"] == "nic"
    text = render_measurement(displayed, FAKE_CATALOG)
    assert "latency victim  3 us median, 9 us for 99%, by the NIC's clock\n" in text
    unknown = replace(judged, result=replace(judged.result, measurement=replace(beside, victim=Victim(27e6))))
    assert "victim  keeps unknown of 27 Mbit/s alone\n" in render_measurement(unknown, FAKE_CATALOG)


def test_what_was_not_measured_is_null(judged: JudgedRun) -> None:
    failed = replace(judged, result=SetupFailed("qp timeout", "qp 3", 9.0), verdict=None, bound=UNBOUNDED)
    document = through_json(render_measure(failed))
    assert (document["outcome"], document["problem"]) == ("setup_failed", "qp timeout: qp 3")
    assert document["measurement"] is None
    assert document["verdict"] is None
    assert document["bound"] == {
        "bps": None,
        "pps": None,
        "source": "specification",
        "detail": "",
        "latency": None,
        "victim_bps": None,
        "victim_latency": None,
    }
    refused = through_json(render_measure(replace(failed, result=Unsupported("no GPU", 0.5))))
    assert (refused["outcome"], refused["problem"]) == ("unsupported", "no GPU")


def with_signature(trial: Trial, signature: Signature) -> Trial:
    def signed(verdict: Verdict) -> Verdict:
        return replace(verdict, signature=signature) if verdict.symptom else verdict

    return replace(trial, readings=tuple(replace(each, verdict=signed(each.verdict)) for each in trial.readings))


def test_reproduce_prints_the_answer_and_its_controls(reproduction: Reproduction) -> None:
    document = through_json(render_reproduction("nsdi22-01", reproduction))
    assert document["reproduced"] == "yes"
    assert (document["runs"], document["shown"], document["normal"], document["inconclusive"]) == (3, 2, 0, 1)
    (control,) = document["controls"]
    assert control["broken"] == {"dimension": "qps", "op": ">=", "value": 64}
    assert (control["runs"], control["shown"], control["normal"]) == (3, 0, 3)
    assert control["explains"] is True
    assert document["uncontrolled"] == [{"dimension": "opcode", "op": "==", "value": "SEND"}]
    assert (document["symptoms"], document["signature"]) == ({"pause": 2}, None)
    interval = document["shown_ratio_interval"]
    assert (interval["method"], interval["confidence"], interval["high"]) == ("wilson", 0.95, 1.0)
    assert interval["low"] == pytest.approx(0.342, abs=1e-3)  # of the two runs that said anything
    assert (document["delivered_bps"], control["delivered_bps"]) == ([60e6, 40e6, None], [1e9, 1e9, 1e9])


def test_reproduce_says_what_ran_before_and_whether_it_matters(reproduction: Reproduction) -> None:
    before, large = Workload(qps=8), Workload(opcode=Opcode.SEND, qps=64, mrs_per_qp=2)
    document = through_json(render_reproduction("nsdi22-01", reproduction))
    assert (document["set_up"], document["alone"]) == (None, None)
    alone = replace(reproduction.controls[0], broken=None)
    found = replace(reproduction, on=SetUp(large, (before, large)), alone=alone)
    document = through_json(render_reproduction("nsdi22-01", found))
    assert document["set_up"] == {"made_for": render(large), "before": [render(before), render(large)]}
    assert (document["alone"]["shown"], document["alone"]["explains"]) == (0, True)
    lines = render_trials("nsdi22-01", found).splitlines()
    assert lines[2] == (
        "    each run on one set-up, after a phase with opcode WRITE and qps 8 and then a phase with mrs_per_qp 2"
    )
    assert "on a set-up of its own: pause in 0 of 3 runs, normal in 3" in lines
    assert "    it shows there, too: it needs no other set-up and no phase before it" not in lines
    needless = replace(found, on=SetUp(large), alone=replace(alone, readings=reproduction.trial.readings))
    lines = render_trials("nsdi22-01", needless).splitlines()
    assert lines[2] == "    each run on a set-up for mrs_per_qp 2"
    assert "    it shows there, too: it needs no other set-up and no phase before it" in lines


SCALE = "against the 95th percentile of healthy runs"


@pytest.mark.parametrize(
    ("now", "same", "reported"),
    [
        ({"misses": 4.0}, True, f"the same counters are raised as when it was found, {SCALE}: misses x16"),
        (
            {"stalls": 5.0, "misses": 0.5},
            False,
            f"other counters are raised, {SCALE}: stalls x32, misses x1.4; when it was found: misses x8",
        ),
        ({}, False, "no counter is raised; when it was found: misses x8"),
    ],
)
def test_reproduce_says_whether_the_counters_moved_as_they_did(
    reproduction: Reproduction, now: dict[str, float], same: bool, reported: str
) -> None:
    trial = with_signature(reproduction.trial, Signature(tuple(now.items())))
    at_discovery = CountersAtDiscovery(Signature((("misses", 3.0),)), Levels({"misses": 0.01, "stalls": 0.01}))
    found = replace(reproduction, trial=trial, at_discovery=at_discovery)
    document = through_json(render_reproduction("nsdi22-01", found))["signature"]
    assert document["same"] is same
    assert document["then"] == [{"counter": "misses", "times_ordinary": 8.0}]
    assert [each["counter"] for each in document["now"]] == list(now)
    assert reported in render_trials("nsdi22-01", found).splitlines()


def test_counters_that_never_moved_do_not_discriminate(reproduction: Reproduction) -> None:
    silent = with_signature(reproduction.trial, Signature())
    at_discovery = CountersAtDiscovery(Signature(), Levels({"misses": 0.01}))
    found = replace(reproduction, trial=silent, at_discovery=at_discovery)
    assert render_reproduction("nsdi22-01", found)["signature"] == {"same": None, "then": [], "now": []}
    unshown = replace(found, symptom=Symptom.LOSS)
    assert render_reproduction("nsdi22-01", unshown)["signature"]["now"] is None
    assert "not the same symptom: pause in 2" in render_trials("nsdi22-01", unshown).splitlines()


def test_a_control_that_still_shows_is_said_to_explain_nothing(reproduction: Reproduction) -> None:
    still = replace(reproduction.controls[0], readings=reproduction.trial.readings)
    found = replace(reproduction, controls=(still,), uncontrolled=())
    assert through_json(render_reproduction("nsdi22-01", found))["controls"][0]["explains"] is False
    assert render_trials("nsdi22-01", found, ()).splitlines()[0] == (
        "reproduced: yes, but it still shows in 1 of 1 control: see below"
    )
    assert render_trials("nsdi22-01", found, ()).splitlines()[-4:-2] == [
        "without qps >= 64 (opcode WRITE and qps 8): pause in 2 of 3 runs, normal in 0, inconclusive in 1",
        "    still shows without qps >= 64: that condition does not explain it",
    ]
    void = replace(still, readings=(RunReading(inconclusive("link changed")),) * 3)
    silent = replace(reproduction, controls=(void,))
    assert through_json(render_reproduction("nsdi22-01", silent))["controls"][0]["explains"] is None


class Colour(StrEnum):
    RED = "red"


def test_models_become_plain_values() -> None:
    assert plain({"a": (1, True, None, math.inf, math.nan, 0.1, Colour.RED, GeneratorHealth(reason="x"))}) == {
        "a": [
            1,
            True,
            None,
            None,
            None,
            0.1,
            "red",
            {
                "driven": True,
                "reason": "x",
                "idle_poll_ratio": None,
                "empty_queue_ratio": None,
                "completion_errors": {},
                "qp_rate_ratio": None,
                "slowest_qp_share": None,
                "slowest_flow_share": None,
                "cpu_wait_ratio": None,
                "data_path": None,
                "queue_fill_ratio": None,
                "pacing_error_ratio": None,
                "starved": None,
            },
        ]
    }
    with pytest.raises(TypeError, match="cannot be recorded"):
        plain(object())


def test_counters_and_expectations_are_in_the_json(full: Summary, summary: Summary) -> None:
    document = through_json(render_search(HEADER, full, 12.3))
    assert document["next_hour_chance"] == 0.12
    assert document["trust"] == {
        "judged_runs": 60,
        "dropped_suspicions": 1,
        "disturbed_ratio": 0.025,
        "false_chance": 0.0004,
        "miss_chance": 0.28,
    }
    assert document["anomalies"][0]["telling"] == [
        {"counter": "pressure", "component": "receive WQE cache", "factor": 1234.5, "plain": 2.0, "plain_runs": 4}
    ]
    assert document["anomalies"][0]["hint"] == "receives are late"
    unknown = through_json(render_search(HEADER, summary, 12.3))
    assert (unknown["next_hour_chance"], unknown["trust"]) == (None, None)
