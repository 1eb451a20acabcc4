"""The sequential confirmation and its arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from collie.detect.bounds import Bound
from collie.detect.confirm import (
    Confirmation,
    Confirmed,
    confirm,
    false_chance,
    miss_chance,
    odds,
    trust,
)
from collie.detect.judge import Thresholds, judge
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.workloads.workload import Workload

WORKLOAD = Workload()
POLICY = Confirmation()
BARELY = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.005, "b", margin=5.0)
CLEARLY = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.2, "b", margin=200.0)
SLOW = Verdict(Outcome.ANOMALOUS, "slow", Symptom.LOW_THROUGHPUT, 0.5, "b", margin=2.5)
ERRORS = Verdict(Outcome.ANOMALOUS, "errors", Symptom.COMPLETION_ERRORS, 0.5, "b", margin=1.0)
NORMAL = Verdict(Outcome.NORMAL, "fine")
VOID = inconclusive("noise")


def drive(
    answers: Iterable[Verdict | None], suspicion: Verdict, policy: Confirmation = POLICY
) -> tuple[Confirmed, int]:
    assert suspicion.symptom is not None
    probes = confirm(WORKLOAD, suspicion.symptom, policy, suspicion)
    next(probes)
    for asked, answer in enumerate(answers, start=1):
        try:
            probes.send(answer)
        except StopIteration as stop:
            return stop.value, asked
    raise AssertionError("the confirmation wanted more runs")


@pytest.mark.parametrize(
    ("suspicion", "answers", "confirmed"),
    [
        (CLEARLY, [CLEARLY], True),
        (CLEARLY, [VOID, None, CLEARLY], True),
        (CLEARLY, [BARELY, BARELY], True),
        (CLEARLY, [NORMAL, CLEARLY], True),
        (CLEARLY, [NORMAL, NORMAL], False),
        (CLEARLY, [SLOW, NORMAL], False),
        (BARELY, [CLEARLY, CLEARLY], True),
        (BARELY, [BARELY, NORMAL, NORMAL], False),
        (SLOW, [SLOW], True),
        (ERRORS, [ERRORS, ERRORS], True),
    ],
)
def test_what_is_clear_costs_one_run_and_all_else_is_k_of_n(
    suspicion: Verdict, answers: list[Verdict | None], confirmed: bool
) -> None:
    result, asked = drive(answers, suspicion)
    assert (result.confirmed, asked, result.deferred) == (confirmed, len(answers), False)


def test_an_inconclusive_suspicion_is_put_aside() -> None:
    result, asked = drive([VOID, None, VOID, VOID], CLEARLY)
    assert (result.confirmed, result.deferred, result.runs, asked) == (False, True, 0, 4)


def test_low_throughput_that_is_not_clear_has_its_bound_measured_again() -> None:
    policy = replace(POLICY, fresh_siblings=1, borderline_siblings=2)
    assert policy.siblings(SLOW) == 1
    assert policy.siblings(replace(SLOW, margin=1.9)) == 3
    assert policy.siblings(BARELY) == 0


# --- margins ----------------------------------------------------------------------------------------------------------


def verdict(host: HostMeasurement, *, stable: bool = True) -> Verdict:
    measurement = Measurement((HostMeasurement("a", tx_pause_ratio=host.tx_pause_ratio and 0.0), host), 5.0, stable)
    return judge(WORKLOAD, measurement, Bound(1e11, 1e7, "plain sibling"), Thresholds())


def test_the_margin_is_how_far_the_deciding_reading_is_beyond_its_threshold() -> None:
    assert verdict(HostMeasurement("b", 1e11, 1e7, 0.05)).margin == pytest.approx(50.0)
    assert verdict(HostMeasurement("b", 4e10, 4e6, 0.0)).margin == pytest.approx(3.0)
    assert verdict(HostMeasurement("b", 1e11, 1e7, None, None, 0.03)).margin == pytest.approx(30.0)
    assert verdict(HostMeasurement("b", 1e11, 1e7, 0.0)).margin == 0.0


def test_lost_throughput_does_not_make_a_little_pause_clear() -> None:
    reproduced = verdict(HostMeasurement("b", 4e10, 4e6, 0.002))
    assert reproduced.severity == pytest.approx(0.6)
    assert not POLICY.is_clear(reproduced)


def test_nothing_is_clear_in_an_unstable_window() -> None:
    assert verdict(HostMeasurement("b", 1e11, 1e7, 0.05), stable=False).margin == 1.0


# --- arithmetic -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shows", [0.0, 0.01, 0.2, 0.8, 1.0])
def test_two_of_three_by_hand(shows: float) -> None:
    assert odds(POLICY, shows).confirmed == pytest.approx(shows**2 * (3 - 2 * shows))
    # The third run is needed when the first two differ.
    assert odds(POLICY, shows).runs == pytest.approx(2 + 2 * shows * (1 - shows))


@pytest.mark.parametrize(("shows", "clear"), [(0.3, 0.0), (0.6, 0.2), (0.9, 0.7), (0.5, 0.5)])
def test_the_odds_are_those_of_the_test_itself(shows: float, clear: float) -> None:
    rng, policy = Random(7), Confirmation(needed=3, runs=5)
    confirmed = runs = 0
    for _ in range(4000):
        probes = confirm(WORKLOAD, Symptom.PAUSE, policy, CLEARLY)
        next(probes)
        while True:
            draw = rng.random()
            try:
                probes.send(CLEARLY if draw < clear else BARELY if draw < shows else NORMAL)
            except StopIteration as stop:
                confirmed += stop.value.confirmed
                runs += stop.value.runs
                break
    expected = odds(policy, shows, clear)
    assert confirmed / 4000 == pytest.approx(expected.confirmed, abs=0.03)
    assert runs / 4000 == pytest.approx(expected.runs, abs=0.06)


def test_clear_cases_cost_one_run() -> None:
    assert odds(POLICY, 1.0, 1.0).runs == 1.0
    assert odds(POLICY, 1.0).runs == 2.0


def test_chances_of_a_campaign() -> None:
    assert false_chance(POLICY, 0.005, 900) == pytest.approx(900 * 0.005 * 7.475e-5, rel=0.01)
    assert false_chance(POLICY, 0.0, 900) == 0.0
    assert false_chance(POLICY, 1.0, 900) == pytest.approx(1.0)
    assert false_chance(POLICY, 0.01, 900, 0.005) > false_chance(POLICY, 0.01, 900)
    assert miss_chance(POLICY, 0.8) == pytest.approx(1 - 0.8 * 0.896)
    assert miss_chance(POLICY, 1.0, 1.0) == 0.0


def test_a_campaign_learns_its_disturbances_from_what_did_not_repeat() -> None:
    assert trust(POLICY, 0, []) is None
    seen = trust(POLICY, 899, [BARELY] * 4)
    assert seen is not None
    assert seen.healthy_false_positive_rate == pytest.approx(4.5 / 900)
    assert 0.0003 < seen.false_chance < 0.02
    assert seen.sentence.startswith(
        "4 of 899 runs looked anomalous and did not show again; chance of a false anomaly: "
    )
