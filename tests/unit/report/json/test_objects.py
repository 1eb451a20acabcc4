"""What commands print for programs, and for people without a terminal."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pytest

from collie.campaign.reproduce import CountersAtDiscovery, Reproduction, Trial
from collie.campaign.single_run import Case, JudgedRun
from collie.campaign.summary import Summary
from collie.detect.bounds import UNBOUNDED, Bound, plain_sibling
from collie.detect.confirm import Reliability
from collie.detect.measurement import GeneratorHealth, Victim
from collie.detect.reading import RunReading
from collie.detect.signature import Levels, Signature
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.ports import Measured, SetupFailed, Unsupported
from collie.report.json.objects import plain, render_measure, render_reproduction, render_search
from collie.report.quantities import name_testbed, packet_rate, percent, rate as bit_rate, show
from collie.report.terminal.summary import render_measurement, render_summary, render_trials
from collie.search.discovery import DiscoveryEstimate
from collie.search.discriminating_counters import DiscriminatingCounter
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.workload import Opcode, Workload, render
from tests.support.campaigns import HEADER, PAUSING, SPACE, fill


@dataclass(frozen=True)
class FixedScore:
    mechanisms: dict[str, str | None] = field(default_factory=lambda: {"a1": "receive_wqe_cache", "a2": None})
    planted: tuple[str, ...] = ("receive_wqe_cache", "loopback")
    found: tuple[str, ...] = ("receive_wqe_cache",)
    missed: tuple[str, ...] = ("loopback",)
    false: int = 1


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


SEARCH_KEYS = [
    "schema_version",
    "campaign",
    "testbed",
    "recipe",
    "seed",
    "dropped",
    "runs",
    "failed_runs",
    "elapsed_seconds",
    "wall_seconds",
    "next_hour_chance",
    "trust",
    "lost_machines",
    "path_killers",
    "pairs",
    "pairs_set_aside",
    "anomalies",
]
ANOMALY_KEYS = [
    "id",
    "symptom",
    "severity",
    "workload",
    "features",
    "sentence",
    "found_at_run",
    "found_at_seconds",
    "extraction_runs",
    "complete",
    "confidence",
    "revised",
    "same_as",
    "telling",
    "hint",
]


def through_json(document: dict[str, Any]) -> Any:
    """What a strict parser makes of it."""
    return json.loads(json.dumps(document, allow_nan=False))


def test_search_prints_the_documented_keys_in_order(summary: Summary) -> None:
    document = through_json(render_search(HEADER, summary, 12.3))
    assert list(document) == SEARCH_KEYS
    assert [list(anomaly) for anomaly in document["anomalies"]] == [ANOMALY_KEYS] * 2
    assert document["schema_version"] == 1
    assert document["campaign"] == "example"
    assert document["testbed"] == {"kind": "simulated", "subsystem": "F"}
    assert (document["runs"], document["failed_runs"]) == (71, 3)
    assert (document["elapsed_seconds"], document["wall_seconds"]) == (1800.25, 12.3)
    first = document["anomalies"][0]
    assert first["features"] == [
        {"dimension": "qps", "op": ">=", "value": 64},
        {"dimension": "opcode", "op": "==", "value": "SEND"},
    ]
    assert first["workload"] == render(summary.anomalies[0].workload)
    assert first["sentence"] == summary.anomalies[0].sentence


def test_a_score_adds_mechanisms_and_itself(summary: Summary) -> None:
    document = through_json(render_search(HEADER, summary, 12.3, FixedScore()))
    assert list(document) == [*SEARCH_KEYS, "score"]
    assert list(document["anomalies"][0]) == [*ANOMALY_KEYS, "mechanism"]
    assert [anomaly["mechanism"] for anomaly in document["anomalies"]] == ["receive_wqe_cache", None]
    assert document["score"] == {
        "planted": ["receive_wqe_cache", "loopback"],
        "found": ["receive_wqe_cache"],
        "missed": ["loopback"],
        "false": 1,
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
        "verdict",
    ]
    a, b = document["measurement"]["hosts"]
    assert (a["host"], a["delivered_bps"]) == ("a", None)
    assert b["tx_pause_ratio"] == 0.182
    assert b["counters"]["level"] == 50.0
    assert len(document["measurement"]["series"]) == 10
    assert document["bound"] == {"bps": 1e11, "pps": 3e6, "source": "plain sibling", "detail": ""}
    assert document["verdict"]["symptom"] == "pause"
    assert document["plain_sibling"]["qps"] == 16


def test_a_victim_is_shown_with_what_it_lost(judged: JudgedRun) -> None:
    assert isinstance(judged.result, Measured)
    assert through_json(render_measure(judged))["measurement"]["victim"] is None
    beside = replace(judged.result.measurement, victim=Victim(27e6, 3.1e6))
    displayed = replace(judged, result=replace(judged.result, measurement=beside))
    victim = through_json(render_measure(displayed))["measurement"]["victim"]
    assert victim == {"alone_bps": 27e6, "beside_bps": 3.1e6, "lost_ratio": pytest.approx(0.885, abs=0.001)}
    assert "victim  keeps 3.1 Mbit/s of 27 Mbit/s alone: 89% lost" in render_measurement(displayed)
    unknown = replace(judged, result=replace(judged.result, measurement=replace(beside, victim=Victim(27e6))))
    assert "victim  keeps unknown of 27 Mbit/s alone\n" in render_measurement(unknown)


def test_what_was_not_measured_is_null(judged: JudgedRun) -> None:
    failed = replace(judged, result=SetupFailed("qp timeout", "qp 3", 9.0), verdict=None, bound=UNBOUNDED)
    document = through_json(render_measure(failed))
    assert (document["outcome"], document["problem"]) == ("setup_failed", "qp timeout: qp 3")
    assert document["measurement"] is None
    assert document["verdict"] is None
    assert document["bound"] == {"bps": None, "pps": None, "source": "specification", "detail": ""}
    refused = through_json(render_measure(replace(failed, result=Unsupported("no GPU", 0.5))))
    assert (refused["outcome"], refused["problem"]) == ("unsupported", "no GPU")


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


@pytest.mark.parametrize(
    ("now", "same", "reported"),
    [
        ({"misses": 4.0}, True, "the same counters are raised as when it was found: misses x16"),
        (
            {"stalls": 5.0, "misses": 0.5},
            False,
            "other counters are raised: stalls x32, misses x1; when it was found: misses x8",
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


def test_counters_that_never_moved_tell_nothing(reproduction: Reproduction) -> None:
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
    assert render_trials("nsdi22-01", found, ()).splitlines()[-4:-2] == [
        "without qps >= 64: pause in 2 of 3 runs, normal in 0, inconclusive in 1",
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
                "cpu_wait_ratio": None,
                "data_path": None,
                "queue_fill_ratio": None,
            },
        ]
    }
    with pytest.raises(TypeError, match="cannot be recorded"):
        plain(object())


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (None, "unknown"),
        (math.inf, "unbounded"),
        (2.5e8, "250 Mpps"),
        (12_345.0, "12.3 kpps"),
        (7.0, "7 pps"),
    ],
)
def test_packet_rates_are_worded(rate: float | None, text: str) -> None:
    assert packet_rate(rate) == text


def test_values_are_worded_as_in_workload_files() -> None:
    assert show("messages", (64, 65536)) == "[64 B, 64 KiB]"
    assert show("mr_bytes", 2 << 20) == "2 MiB"
    assert show("srq", True) == "true"
    assert show("qps", 8) == "8"
    assert bit_rate(None) == percent(None) == "unknown"
    assert bit_rate(1e9) == "1 Gbit/s"
    assert name_testbed({"kind": "fake"}) == "fake"
    assert name_testbed({"kind": "hosts", "name": "alice and bob"}) == "hosts alice and bob"
    assert name_testbed({"kind": "hosts", "name": "a,b", "pairs": ["a,b", "c,d"]}) == "hosts a,b; c,d"
    across = {"kind": "hosts", "name": "s/a,s/b", "loopback_across_ports": {"s": ["s/a", "s/b"]}}
    assert name_testbed(across) == "hosts s/a,s/b (loopback across ports of s)"


# --- Text ------------------------------------------------------------------------------------------------------------


def test_the_summary_is_sentences_without_colour_codes(summary: Summary) -> None:
    text = render_summary(HEADER, summary, 12.3, FixedScore())
    lines = text.splitlines()
    assert lines[0] == "2 anomalies on simulated subsystem F in 71 runs: 30 min of testbed time, 12.3 s of yours"
    for anomaly in summary.anomalies:
        assert f"    {anomaly.sentence}" in lines
        assert f"    {anomaly.mfs}" in lines
    assert "a2  low throughput, severity 62%, found in run 5, after 3 min, not explained to the end" in lines
    assert "3 runs could not be set up: 1 x agent gone, 2 x qp timeout." in lines
    assert "10 runs asked for what the device cannot do." in lines
    assert "Ended early: what was found explains all that could still be proposed." in lines
    assert "Score: 1 of 2 planted mechanisms found, 1 false; missed: loopback." in lines
    assert "\x1b" not in text


def test_the_summary_of_nothing_says_so(summary: Summary) -> None:
    empty = replace(summary, anomalies=(), failed_runs={}, unsupported_runs=0, ended_by="budget", runs=1)
    text = render_summary(HEADER, empty, 0.5)
    assert text == "No anomaly on simulated subsystem F in 1 run: 30 min of testbed time, 0.5 s of yours"


def test_brackets_of_hosts_are_no_markup(summary: Summary) -> None:
    strange = replace(summary, failed_runs={"[red]ib_uverbs[/red] :smile:": 1})
    assert "1 x [red]ib_uverbs[/red] :smile:." in render_summary(HEADER, strange, 1.0)


def test_a_measurement_is_told_with_its_verdict_and_counters(judged: JudgedRun) -> None:
    lines = render_measurement(judged).splitlines()
    assert lines[0] == "RC SEND: qps 64 (plain 16)"
    assert lines[1] == "anomalous: pause, severity 18%"
    assert "host a  sends pause 0%, receives pause 0%" in lines
    assert any(line.startswith("host b  receives 100 Gbit/s, 3.05 Mpps (bound 100 Gbit/s") for line in lines)
    assert any(line.split() == ["level", "50", "50"] for line in lines)


def test_a_measurement_tells_what_went_wrong(judged: JudgedRun) -> None:
    assert isinstance(judged.result, Measured)
    measurement = judged.result.measurement
    weak = replace(
        measurement,
        stable=False,
        health=GeneratorHealth(driven=False, reason="one CPU"),
        hosts=(
            replace(
                measurement.hosts[0],
                tx_pause_ratio=None,
                tx_pause_frames=1234.0,
                loss_ratio=0.02,
                counters={"level": None},
            ),
            measurement.hosts[1],
        ),
        notes=("host a: PFC is off",),
    )
    reported = render_measurement(replace(judged, result=replace(judged.result, measurement=weak), bound=UNBOUNDED))
    assert "not stable; the generator could not drive the workload: one CPU" in reported
    assert "sends 1,234 pause frames/s; loses 2.0% of its packets" in reported
    assert "note: host a: PFC is off" in reported
    assert "bound unbounded, unbounded by the specification" in reported
    assert "unknown" in reported
    failed = render_measurement(replace(judged, result=SetupFailed("qp timeout", "qp 3", 9.0), verdict=None))
    assert failed.splitlines()[1:] == ["could not be set up: qp timeout", "    qp 3"]
    refused = render_measurement(replace(judged, result=Unsupported("no GPU", 0.5), verdict=None))
    assert refused.splitlines()[1:] == ["unsupported: no GPU"]


def test_a_reproduction_is_told_with_its_controls(reproduction: Reproduction) -> None:
    assert render_trials("nsdi22-01", reproduction).splitlines() == [
        "reproduced: yes",
        "nsdi22-01: pause in 2 of 3 runs, normal in 0, inconclusive in 1 (34 % to 100 % of its runs, 95 % confidence)",
        "    anomalous: host b sends pause",
        "    anomalous: host b sends pause",
        "    inconclusive: link changed",
        "    delivered: 50 Mbit/s (40 Mbit/s to 60 Mbit/s); severity: 30% (20% to 40%)",
        "too little is on record of which counters it raised when it was found, so they are not compared",
        "without qps >= 64: pause in 0 of 3 runs, normal in 3",
        "    delivered: 1 Gbit/s",
        "no value of the space breaks opcode == SEND alone",
        "what it was found on is not on record, so nothing can be said of what differs",
    ]


def test_colour_is_left_out_on_request_and_put_in_for_a_terminal(
    summary: Summary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in render_summary(HEADER, summary, 1.0)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in render_summary(HEADER, summary, 1.0)
    assert "\x1b[1;31m" not in render_summary(HEADER, summary, 1.0)


# --- telling counters, trust, prospects -------------------------------------------------------------------------------


TELLING = DiscriminatingCounter("pressure", "receive WQE cache", 1234.5, "receives that had to be fetched")


@pytest.fixture(name="full")
def make_full(summary: Summary) -> Summary:
    first = replace(summary.anomalies[0], telling=(TELLING,), hint="receives are late")
    return replace(
        summary,
        anomalies=(first, *summary.anomalies[1:]),
        trust=Reliability(60, 1, 0.025, 0.0004, 0.28),
        discovery_estimate=DiscoveryEstimate(0.12, 9, 3, 1, 7560.0, 36000.0),
    )


def test_what_tells_and_what_to_expect_is_in_the_json(full: Summary, summary: Summary) -> None:
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
        {"counter": "pressure", "component": "receive WQE cache", "factor": 1234.5}
    ]
    assert document["anomalies"][0]["hint"] == "receives are late"
    unknown = through_json(render_search(HEADER, summary, 12.3))
    assert (unknown["next_hour_chance"], unknown["trust"]) == (None, None)


def test_what_tells_and_what_to_expect_is_in_the_text(full: Summary) -> None:
    text = render_summary(HEADER, full, 12.3)
    assert "moved most against plain traffic: pressure (receive WQE cache, over 1000 times)" in text
    assert "likely: receives are late" in text
    why = "3 of 9 kinds were seen once, 1 came in the second half; the last 2.1 h ago"
    assert f"Another find in the next hour: 12 % ({why})." in text
    assert "1 of 60 runs looked anomalous and did not show again; chance of a false anomaly: under 0.1 %" in text
