"""Bounds, verdicts and confirmation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from collie.content.spaces import load_space
from collie.detect.bounds import UNBOUNDED, Bound, Bounds, Calibration, CalibrationPoint, at_sink, plain_sibling
from collie.detect.confirm import Confirmation, Confirmed, confirm
from collie.detect.judge import Thresholds, judge
from collie.detect.measurement import GeneratorHealth, HostMeasurement, Measurement
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.workloads.workload import Direction, Opcode, QpType, Workload

SPACE = load_space("nsdi22")
LINE = Bound(100e9, 10e6, "specification")
ONE_WAY = Workload()


def measurement(
    bps: float | None = 95e9,
    pps: float | None = 9.5e6,
    *,
    tx_pause: float | None = 0.0,
    rx_pause: float | None = 0.0,
    loss: float | None = None,
    stable: bool = True,
    health: GeneratorHealth | None = None,
    problems: tuple[str, ...] = (),
    rnr: float | None = None,
    repeats: float | None = None,
    wrong_bytes: int | None = None,
    peak: float | None = None,
) -> Measurement:
    sender = HostMeasurement("a", tx_pause_ratio=tx_pause and 0.0, rx_pause_ratio=rx_pause)
    receiver = HostMeasurement(
        "b", bps, pps, tx_pause, tx_pause and 0.0, loss, rnr_ratio=rnr, repeat_ratio=repeats, peak_bps=peak
    )
    made = health or GeneratorHealth()
    return Measurement((sender, receiver), 4.0, stable, made, problems, wrong_bytes=wrong_bytes)


def verdict(found: Measurement, bound: Bound = LINE) -> Verdict:
    return judge(ONE_WAY, found, bound, Thresholds())


def test_full_throughput_is_normal() -> None:
    assert verdict(measurement()).is_normal


def test_pause_that_a_host_sends_is_an_anomaly() -> None:
    found = verdict(measurement(tx_pause=0.25))
    assert (found.symptom, found.severity, found.host) == (Symptom.PAUSE, 0.25, "b")


def test_pause_frames_are_pause_where_no_time_is_told() -> None:
    def sent(frames: float, ratio: float | None) -> Verdict:
        found = measurement(tx_pause=ratio)
        return verdict(replace(found, hosts=(found.hosts[0], replace(found.hosts[1], tx_pause_frames=frames))))

    assert (sent(40, None).symptom, sent(40, None).host) == (Symptom.PAUSE, "b")
    assert sent(2, None).is_normal
    assert sent(40, 0.0005).is_normal  # the time is known, and short


def test_pause_frames_that_nobody_sends_are_congestion() -> None:
    found = measurement(tx_pause=None)
    received = replace(
        found, hosts=(replace(found.hosts[0], rx_pause_frames=40.0, tx_pause_frames=0.0), found.hosts[1])
    )
    assert verdict(received).is_inconclusive


def test_severity_is_the_worse_of_pause_and_missing_throughput() -> None:
    assert verdict(measurement(40e9, 4e6, tx_pause=0.25)).severity == pytest.approx(0.6)


def test_a_little_pause_is_normal() -> None:
    assert verdict(measurement(tx_pause=0.0009)).is_normal


def test_pause_that_nobody_sends_is_network_congestion() -> None:
    found = verdict(measurement(rx_pause=0.2))
    assert found.is_inconclusive
    assert "congested" in found.reason


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
        (measurement(40e9, 4e6, rnr=0.4, loss=0.1, tx_pause=None, rx_pause=None), Symptom.RNR_STORM, "60% of the"),
        (measurement(40e9, 4e6, repeats=0.3), Symptom.RETRANSMISSION, "30.0% of the packets"),
        (measurement(40e9, 4e6, health=STARVED_QP), Symptom.UNFAIRNESS, "does 2.0% of what"),
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


def test_symptoms_of_one_cause_are_kin_but_for_pause_and_wrong_payload() -> None:
    assert Symptom.RNR_STORM.is_related(Symptom.LOW_THROUGHPUT)
    assert Symptom.UNFAIRNESS.is_related(Symptom.COMPLETION_ERRORS)
    for alone in (Symptom.PAUSE, Symptom.WRONG_PAYLOAD):
        assert [related for related in Symptom if alone.is_related(related)] == [alone]
        assert [related for related in Symptom if related.is_related(alone)] == [alone]
    assert Symptom.PAUSE.is_looked_for_before(Symptom.RNR_STORM)
    assert not Symptom.PAUSE.is_looked_for_before(Symptom.WRONG_PAYLOAD)


def test_the_worst_receiving_host_decides() -> None:
    both = Workload(direction=Direction.BIDIRECTIONAL)
    hosts = (HostMeasurement("a", 95e9, 9.5e6), HostMeasurement("b", 30e9, 3e6))
    found = judge(both, Measurement(hosts, 4.0), LINE, Thresholds())
    assert (found.symptom, found.host) == (Symptom.LOW_THROUGHPUT, "b")


def test_a_verdict_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="three values"):
        bool(inconclusive("nothing"))


# --- bounds -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32))
def test_a_sibling_keeps_what_it_must_and_is_plain_otherwise(seed: int) -> None:
    from random import Random

    workload = SPACE.sample(Random(seed))
    sibling = plain_sibling(workload, SPACE)
    assert (sibling.qp_type, sibling.opcode, sibling.messages) == (workload.qp_type, workload.opcode, workload.messages)
    assert sibling.qps <= 16
    assert SPACE.allows(sibling)
    assert plain_sibling(sibling, SPACE) == sibling
    for name in ("loopback", "numa_node", "mrs_per_qp", "sge_count", "sge_split"):
        assert sibling.get(name) == SPACE.base.get(name)


def test_a_sibling_has_the_same_bytes_outstanding() -> None:
    workload = Workload(qps=480, send_wq_depth=16, messages=(512,))
    sibling = plain_sibling(workload, SPACE)
    assert (sibling.qps, sibling.send_wq_depth) == (16, 480)
    assert sibling.bytes_outstanding == workload.bytes_outstanding


def test_a_sibling_keeps_what_its_space_says() -> None:
    space = load_space("soft-roce")
    workload = space.base.with_(direction=Direction.BIDIRECTIONAL, loopback=True, sge_count=4)
    sibling = plain_sibling(workload, space)
    assert (sibling.direction, sibling.loopback, sibling.sge_count) == (Direction.BIDIRECTIONAL, True, 1)


def test_bounds_tighten_when_siblings_are_known() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    workload = Workload(send_wq_depth=1, messages=(64,))
    assert bounds.tightest(workload) == LINE
    for bps in (1e9, 3e9, 2e9):
        bounds.learn(bounds.sibling(workload), {"b": Bound(bps, 1e6, "plain sibling")})
    assert bounds.known(workload)
    assert bounds.tightest(workload).bps == 2e9


def test_a_sibling_never_raises_the_bound_above_the_specification() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    bounds.learn(bounds.sibling(ONE_WAY), {"b": Bound(120e9, 20e6, "plain sibling")})
    assert bounds.tightest(ONE_WAY).bps == LINE.bps


def test_calibration_adds_the_costs_of_a_mix() -> None:
    def point(size: int, seconds: float) -> CalibrationPoint:
        return CalibrationPoint(QpType.RC, Opcode.WRITE, size, size * 8 / seconds)

    calibration = Calibration((point(1000, 1e-3), point(11000, 2e-3)))
    bound = calibration.bound(Workload(messages=(1000, 6000), mr_bytes=65536))
    assert bound is not None
    assert bound.bps == pytest.approx(7000 * 8 / 2.5e-3)
    assert bound.source == "calibration"
    beyond = calibration.bound(Workload(messages=(21000,)))
    assert beyond is not None
    assert beyond.bps == pytest.approx(21000 * 8 / 3e-3)
    below = calibration.bound(Workload(messages=(10,)))
    assert below is not None
    assert below.bps == pytest.approx(10 * 8 / 1e-3)
    assert calibration.bound(Workload(qp_type=QpType.UC)) is None


def test_a_verdict_says_which_bound_decided() -> None:
    point = CalibrationPoint(QpType.RC, Opcode.WRITE, 65536, 90e9, spread=0.07)
    bounds = Bounds(lambda _workload: LINE, Calibration((point,), "2026-11-21"), SPACE)
    assert (
        "the calibration (2026-11-21, repeats within 7%) gives 90 Gbit/s"
        in verdict(measurement(), bounds.tightest(ONE_WAY)).reason
    )
    slower = Bounds(lambda _workload: Bound(50e9, 10e6, "specification"), Calibration((point,)), SPACE)
    assert "the specification gives" in verdict(measurement(), slower.tightest(ONE_WAY)).reason


def test_without_any_ceiling_everything_has_to_be_compared_with_its_sibling() -> None:
    assert verdict(measurement(), UNBOUNDED).symptom is Symptom.LOW_THROUGHPUT


# --- confirmation -----------------------------------------------------------------------------------------------------

SHOWN = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.2, "b")
OTHER = Verdict(Outcome.ANOMALOUS, "slow", Symptom.LOW_THROUGHPUT, 0.5, "b")
NORMAL = Verdict(Outcome.NORMAL, "fine")
VOID = inconclusive("noise")


def drive(answers: Iterable[Verdict | None], policy: Confirmation) -> tuple[Confirmed, int]:
    probes = confirm(ONE_WAY, Symptom.PAUSE, policy)
    assert next(probes) == ONE_WAY
    asked = 1
    try:
        for answer in answers:
            probes.send(answer)
            asked += 1
    except StopIteration as stop:
        return stop.value, asked
    raise AssertionError("the confirmation wanted more runs")


@pytest.mark.parametrize(
    ("answers", "confirmed", "asked"),
    [
        ([SHOWN, SHOWN], True, 2),
        ([SHOWN, NORMAL, SHOWN], True, 3),
        ([NORMAL, NORMAL], False, 2),
        ([OTHER, OTHER], False, 2),
        ([VOID, None, SHOWN, SHOWN], True, 4),
        ([VOID, VOID, None, None], False, 4),
    ],
)
def test_confirmation_is_k_of_n_and_void_runs_count_for_neither(
    answers: list[Verdict | None], confirmed: bool, asked: int
) -> None:
    result, runs = drive(answers, Confirmation(needed=2, runs=3, void_runs=3))
    assert (result.confirmed, runs) == (confirmed, asked)


def test_a_mix_of_opcodes_costs_the_sum_of_its_messages() -> None:
    write = CalibrationPoint(QpType.RC, Opcode.WRITE, 1000, 8e6)  # 1 ms
    read = CalibrationPoint(QpType.RC, Opcode.READ, 1000, 2e6)  # 4 ms
    mix = Workload(opcode=Opcode.WRITE, more_opcodes=(Opcode.READ,), messages=(1000,))
    bound = Calibration((write, read)).bound(mix)
    assert bound is not None
    assert bound.bps == pytest.approx(8 * 1000 / 0.005)  # each way
    assert Calibration((write,)).bound(mix) is None


def test_a_host_that_receives_less_by_plan_is_judged_by_its_share() -> None:
    mix = Workload(opcode=Opcode.WRITE, more_opcodes=(Opcode.READ,), messages=(3000, 1000), mtu=1024)
    bound = Bound(90e6, 1e9, "plain sibling")
    assert at_sink(mix, "b", bound).bps == 90e6
    assert at_sink(mix, "a", bound) == Bound(30e6, 30e6 / 8 / 1000, "plain sibling")
    hosts = (HostMeasurement("a", 28e6, 3500.0, 0.0, 0.0), HostMeasurement("b", 88e6, 11000.0, 0.0, 0.0))
    assert judge(mix, Measurement(hosts, 4.0), bound, Thresholds()).is_normal


def test_a_plain_sibling_keeps_the_mix_of_opcodes() -> None:
    mix = Workload(opcode=Opcode.SEND, more_opcodes=(Opcode.READ,), qps=64, signal_every=4)
    sibling = plain_sibling(mix, load_space("soft-roce"))
    assert (sibling.opcodes, sibling.signal_every) == (mix.opcodes, 1)
