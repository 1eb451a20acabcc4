"""Verdicts on measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.detect.bounds import NOTHING_EXPECTED, UNBOUNDED, Bound
from collie.detect.judge import is_sound, judge
from collie.detect.measurement import GeneratorHealth, HostMeasurement, Measurement
from collie.detect.symptom import Received, Symptom, Verdict, severity_in_brief
from collie.detect.thresholds import Loss, Thresholds
from collie.workloads.workload import Direction, Workload
from tests.support.measurements import LINE, measurement, verdict


def test_full_throughput_is_normal() -> None:
    assert verdict(measurement()).is_normal


def test_a_specification_is_an_expectation_which_a_healthy_run_can_exceed() -> None:
    assert verdict(measurement(101e9)).reason == (
        "host b receives 101 Gbit/s, about 100 Gbit/s is expected by the specification"
    )
    sibling = replace(LINE, source="plain sibling")
    assert verdict(measurement(), sibling).reason == "host b receives 95 Gbit/s, the plain sibling gives 100 Gbit/s"


def test_a_verdict_keeps_the_bound_that_it_used() -> None:
    assert verdict(measurement()).bound_bps == verdict(measurement(tx_pause=0.25)).bound_bps == LINE.bps
    assert verdict(measurement(10e9, 1e6)).bound_bps == LINE.bps
    assert [verdict(measurement(), none).bound_bps for none in (NOTHING_EXPECTED, UNBOUNDED)] == [None, None]
    of_victim = Thresholds(loss_of=Loss.OF_VICTIM)
    assert judge(Workload(), measurement(), LINE, of_victim).bound_bps is None


def test_pause_that_a_host_sends_is_an_anomaly() -> None:
    found = verdict(measurement(tx_pause=0.25))
    assert (found.symptom, found.severity, found.host) == (Symptom.PAUSE, 0.25, "b")


def test_pause_frames_are_pause_where_no_duration_is_counted() -> None:
    def sent(frames: float, ratio: float | None) -> Verdict:
        found = measurement(tx_pause=ratio)
        return verdict(replace(found, hosts=(found.hosts[0], replace(found.hosts[1], tx_pause_frames=frames))))

    assert (sent(40, None).symptom, sent(40, None).host) == (Symptom.PAUSE, "b")
    assert sent(2, None).is_normal
    assert sent(40, 0.0005).is_normal  # the time is known, and short


def test_pause_frames_that_no_host_sends_are_congestion() -> None:
    found = measurement(tx_pause=None)
    received = replace(
        found, hosts=(replace(found.hosts[0], rx_pause_frames=40.0, tx_pause_frames=0.0), found.hosts[1])
    )
    assert verdict(received).is_inconclusive


def test_severity_is_the_worse_of_pause_and_missing_throughput() -> None:
    assert verdict(measurement(40e9, 4e6, tx_pause=0.25)).severity == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("found", "received"),
    [
        (measurement(40e9, 4e6), Received(40e9, 4e6)),
        (measurement(40e9, 4e6, tx_pause=0.25), Received(40e9, 4e6)),
        (measurement(80e9, 8e6, tx_pause=0.38), Received(80e9, 8e6)),
        (measurement(80e9, 8e6, tx_pause=0.42), None),  # not all of the pause costs throughput
        (measurement(tx_pause=0.25), None),
        (measurement(0.0, 0.0), None),
        (measurement(88e9, 8.8e6, wrong_bytes=7), None),
        (measurement(rnr=0.5), None),
    ],
)
def test_a_severity_that_is_a_matter_of_a_rate_comes_with_the_rate(
    found: Measurement, received: Received | None
) -> None:
    assert verdict(found).received == received


def test_a_host_that_discards_more_than_it_receives_has_a_severity_of_one() -> None:
    found = verdict(measurement(tx_pause=None, rx_pause=None, loss=1.5))
    assert (found.symptom, found.severity) == (Symptom.LOSS, 1.0)


@pytest.mark.parametrize(
    ("found", "figure", "brief"),
    [
        (measurement(tx_pause=0.099), "9.9% of the time", "9.9% of time"),
        (measurement(91e9, 9.1e6, tx_pause=0.029), "9.0% below the specification", "9.0% missing"),
        (measurement(70e9, 7e6, tx_pause=0.4), "40.0% of the time", "40% of time"),
        (measurement(40e9, 4e6, tx_pause=0.25), "60% below the specification", "60% missing"),
        (measurement(40e9, 4e6), "60% of the throughput is missing", "60% missing"),
        (measurement(88e9, 8.8e6, wrong_bytes=7), "12% below the specification", "12% missing"),
        (measurement(rnr=0.5), "50% of the messages", "50% of messages"),
        (measurement(tx_pause=None, loss=0.0731), "7.31% of its packets", "7.3% of packets"),
        (measurement(repeats=0.08), "8.0% of the packets", "8.0% of packets"),
        (measurement(health=GeneratorHealth(slowest_qp_share=0.05)), "95.0% less than the mean", "95% below mean"),
        (measurement(health=GeneratorHealth(slowest_flow_share=0.04)), "96.0% less than the mean", "96% below mean"),
    ],
)
def test_the_severity_is_a_named_figure_of_the_reason(found: Measurement, figure: str, brief: str) -> None:
    judged = verdict(found)
    assert judged.figure == figure
    assert judged.symptom is not None
    assert severity_in_brief(judged.symptom, judged.severity, judged.reason) == brief
    assert severity_in_brief(judged.symptom, 0.5, "another figure") in {"50%", "50% missing"}
    assert figure in judged.reason or judged.symptom is Symptom.LOW_THROUGHPUT


def test_a_deficit_that_is_neither_anomalous_nor_the_severity_is_not_stated() -> None:
    assert "throughput" not in verdict(measurement(91e9, 9.1e6, tx_pause=0.2)).reason
    assert "throughput is 30% below the specification" in verdict(measurement(70e9, 7e6, tx_pause=0.4)).reason


@pytest.mark.parametrize(
    ("source", "says", "figure"),
    [
        ("plain sibling", "60% of the throughput is missing", "60% of the throughput is missing"),
        ("specification", "throughput is 60% below the specification", "60% below the specification"),
        ("offered load", "throughput is 60% below the offered load", "60% below the offered load"),
        ("calibration", "throughput is 60% below the calibration", "60% below the calibration"),
    ],
)
def test_throughput_is_missing_against_the_sibling_or_a_bound_that_is_named(
    source: str, says: str, figure: str
) -> None:
    judged = verdict(measurement(40e9, 4e6, tx_pause=0.25), Bound(100e9, 10e6, source, "2026-11-21"))
    assert judged.reason == f"host b sends pause for 25.0% of the time and {says}"
    assert judged.figure == figure


def test_a_severity_that_the_reason_does_not_state_is_called_so() -> None:
    found = measurement(tx_pause=None)
    frames = replace(found, hosts=(found.hosts[0], replace(found.hosts[1], tx_pause_frames=40.0)))
    healthy = replace(frames, hosts=tuple(replace(host, delivered_bps=100e9) for host in frames.hosts))
    assert verdict(healthy).figure == "severity 0.1%"


def test_an_error_that_costs_no_throughput_says_so() -> None:
    judged = verdict(measurement(LINE.bps, LINE.pps, health=GeneratorHealth(completion_errors={"RNR retry": 15})))
    assert judged.symptom is Symptom.COMPLETION_ERRORS
    assert (judged.severity, judged.figure) == (0.0, "no throughput is missing")
    assert severity_in_brief(judged.symptom, judged.severity, judged.reason) == "0% missing"


def test_a_little_pause_is_normal() -> None:
    assert verdict(measurement(tx_pause=0.0009)).is_normal


def test_pause_that_no_host_sends_is_network_congestion() -> None:
    found = verdict(measurement(rx_pause=0.2))
    assert found.is_inconclusive
    assert "congested" in found.reason


def test_a_run_that_was_stopped_early_is_judged_by_the_pause_that_it_sent_for_some_time() -> None:
    """Its throughput may still have been growing, and frames may come from the start-up."""
    stopped = replace(measurement(10e9, 1e6, tx_pause=0.25), stopped="host b sends pause for 0.5 s")
    assert (verdict(stopped).symptom, verdict(stopped).severity) == (Symptom.PAUSE, 0.25)
    assert "missing" not in verdict(stopped).reason
    frames = replace(measurement(10e9, 1e6, tx_pause=None), stopped="host b sends 10 Gbit/s")
    sent = replace(frames, hosts=(frames.hosts[0], replace(frames.hosts[1], tx_pause_frames=40.0)))
    assert verdict(sent).is_inconclusive
    assert verdict(sent).reason == "stopped early: host b sends 10 Gbit/s"


@pytest.mark.parametrize(
    ("found", "sound"),
    [
        (measurement(1e9, 1e5), True),  # no bound is known
        (measurement(stable=False), False),
        (measurement(health=GeneratorHealth(False, "no CPU")), False),
        (measurement(tx_pause=0.25), False),
        (measurement(problems=("link went down",)), False),
    ],
)
def test_a_run_is_sound_if_it_was_stable_and_driven_and_shows_nothing(found: Measurement, sound: bool) -> None:
    assert is_sound(Workload(), found, Thresholds()) is sound


def test_low_throughput_needs_both_rates_low() -> None:
    assert verdict(measurement(50e9, 5e6)).symptom is Symptom.LOW_THROUGHPUT
    assert verdict(measurement(50e9, 9e6)).is_normal
    assert verdict(measurement(90e9, 1e6)).is_normal


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (measurement(None, None), "unknown"),
        (measurement(50e9, 5e6, stable=False), "not stable"),
        (measurement(50e9, 5e6, stable=False, peak=85e9), "not stable"),
        (measurement(50e9, 5e6, health=GeneratorHealth(False, "empty queues")), "could not drive"),
        (measurement(problems=("link went down",)), "link went down"),
    ],
)
def test_what_cannot_be_trusted_is_inconclusive(found: Measurement, why: str) -> None:
    assert verdict(found).is_inconclusive
    assert why in verdict(found).reason


def test_throughput_that_swings_far_below_the_bound_is_low_whatever_its_mean() -> None:
    found = verdict(measurement(50e9, 5e6, stable=False, peak=70e9))
    assert found.symptom is Symptom.LOW_THROUGHPUT
    assert found.margin == 1.0
    assert verdict(measurement(50e9, 7e6, stable=False, peak=70e9)).is_inconclusive, "packets come near their bound"


def test_a_slow_generator_does_not_excuse_pause() -> None:
    found = measurement(50e9, 5e6, tx_pause=0.1, health=GeneratorHealth(False, "empty queues"))
    assert verdict(found).symptom is Symptom.PAUSE


def test_loss_takes_the_place_of_pause_where_there_are_no_pause_counters() -> None:
    assert verdict(measurement(tx_pause=None, rx_pause=None, loss=0.01)).symptom is Symptom.LOSS
    assert verdict(measurement(tx_pause=0.0, loss=0.01)).is_normal


def test_completion_errors_are_named() -> None:
    found = verdict(measurement(health=GeneratorHealth(completion_errors={"transport retry exceeded": 3})))
    assert found.symptom is Symptom.COMPLETION_ERRORS
    assert "3 x transport retry exceeded" in found.reason


STARVED_QP = GeneratorHealth(slowest_qp_share=0.02)


@pytest.mark.parametrize(
    ("found", "symptom", "why"),
    [
        (measurement(40e9, 4e6, rnr=0.4), Symptom.RNR_STORM, "turns 40% of the messages away"),
        (measurement(40e9, 4e6, rnr=0.4, loss=0.1, tx_pause=None, rx_pause=None), Symptom.RNR_STORM, "60% below the"),
        (measurement(40e9, 4e6, repeats=0.3), Symptom.RETRANSMISSION, "30.0% of the packets"),
        (measurement(40e9, 4e6, health=STARVED_QP), Symptom.UNFAIRNESS, "does 98.0% less"),
        (measurement(health=STARVED_QP), Symptom.UNFAIRNESS, "slowest queue pair"),
        (measurement(wrong_bytes=17), Symptom.WRONG_PAYLOAD, "17 bytes"),
        (measurement(tx_pause=0.2, wrong_bytes=1, problems=("link went down",)), Symptom.WRONG_PAYLOAD, "1 bytes"),
        (measurement(tx_pause=0.2, rnr=0.4), Symptom.PAUSE, "pause"),
    ],
)
def test_a_run_is_called_by_the_gravest_symptom_and_not_low_throughput(
    found: Measurement, symptom: Symptom, why: str
) -> None:
    displayed = verdict(found)
    assert displayed.symptom is symptom
    assert why in displayed.reason
    assert displayed.margin >= 1.0


@pytest.mark.parametrize(
    "found",
    [
        measurement(rnr=0.05),
        measurement(repeats=0.01),
        measurement(health=GeneratorHealth(slowest_qp_share=0.11)),
        measurement(wrong_bytes=0),
    ],
)
def test_a_little_of_each_is_normal(found: Measurement) -> None:
    assert verdict(found).is_normal


@pytest.mark.parametrize(
    "readings", [{"rnr": 0.4}, {"repeats": 0.3}, {"loss": 0.1, "tx_pause": None, "rx_pause": None}]
)
def test_what_a_starved_host_causes_is_no_anomaly(readings: dict[str, float | None]) -> None:
    found = verdict(measurement(40e9, 4e6, health=GeneratorHealth(False, "no CPU", slowest_qp_share=0.0), **readings))  # type: ignore[arg-type]
    assert found.is_inconclusive
    assert "no CPU" in found.reason


def test_the_worst_receiving_host_decides() -> None:
    both = Workload(direction=Direction.BIDIRECTIONAL)
    hosts = (HostMeasurement("a", 95e9, 9.5e6), HostMeasurement("b", 30e9, 3e6))
    found = judge(both, Measurement(hosts, 4.0), LINE, Thresholds())
    assert (found.symptom, found.host) == (Symptom.LOW_THROUGHPUT, "b")
