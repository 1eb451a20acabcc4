"""The sequential confirmation and its arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from collie.detect.confirm import (
    Confirmation,
    Confirmed,
    Reliability,
    Rule,
    confirm,
    false_chance,
    miss_chance,
    odds,
    rule,
)
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.workloads.workload import Workload

WORKLOAD = Workload()
POLICY = Confirmation()
BARELY = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.005, "b", margin=5.0)
CLEARLY = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.2, "b", margin=200.0)
SLOW = Verdict(Outcome.ANOMALOUS, "slow", Symptom.LOW_THROUGHPUT, 0.5, "b", margin=2.5)
NORMAL = Verdict(Outcome.NORMAL, "fine")
VOID = inconclusive("noise")


def drive(
    answers: Iterable[Verdict | None], until: Rule, void_runs: int = 3, symptom: Symptom = Symptom.PAUSE
) -> tuple[Confirmed, int]:
    probes = confirm(WORKLOAD, symptom, until, void_runs)
    assert next(probes) == WORKLOAD
    for asked, answer in enumerate(answers, start=1):
        try:
            probes.send(answer)
        except StopIteration as stop:
            return stop.value, asked
    raise AssertionError("the confirmation wanted more runs")


@pytest.mark.parametrize(
    ("answers", "confirmed"),
    [
        ([CLEARLY, CLEARLY], True),
        ([BARELY, BARELY], True),
        ([CLEARLY, NORMAL, CLEARLY], True),
        ([VOID, None, CLEARLY, CLEARLY], True),
        ([NORMAL, NORMAL, CLEARLY, CLEARLY, CLEARLY], True),
        ([NORMAL, NORMAL, NORMAL, NORMAL], False),
        ([SLOW, SLOW, SLOW, SLOW], False),
    ],
)
def test_enough_runs_reproduce_the_symptom_however_strongly(answers: list[Verdict | None], confirmed: bool) -> None:
    result, asked = drive(answers, rule(POLICY, 0.01))
    assert (result.confirmed, asked, result.deferred) == (confirmed, len(answers), False)
    assert result.runs == sum(answer is not None and not answer.is_inconclusive for answer in answers)


@pytest.mark.parametrize("symptom", [Symptom.LATENCY, Symptom.VICTIM_LATENCY])
def test_runs_that_are_barely_late_do_not_confirm(symptom: Symptom) -> None:
    """All runs share the error of the plain sibling's tail, so that repeats do not make a bare margin sure."""
    barely, clearly = (Verdict(Outcome.ANOMALOUS, "late", symptom, 0.8, "b", margin=margin) for margin in (1.19, 1.2))
    assert drive([barely] * 4, rule(POLICY, 0.01), symptom=symptom)[0] == Confirmed(False, (), 4)
    assert drive([clearly, clearly], rule(POLICY, 0.01), symptom=symptom)[0].confirmed


def test_a_related_symptom_reproduces_and_one_that_hides_it_tells_nothing() -> None:
    """One cause drops packets in one run and is only slow in the next. Pause is judged before throughput."""
    lossy = Verdict(Outcome.ANOMALOUS, "loss", Symptom.LOSS, 0.3, "b", margin=3.0)
    result, _ = drive([SLOW, lossy], rule(POLICY, 0.01), symptom=Symptom.LOSS)
    assert (result.confirmed, result.reproduced) == (True, (SLOW, lossy))
    result, _ = drive([CLEARLY] * 4, rule(POLICY, 0.01), symptom=Symptom.LOW_THROUGHPUT)
    assert (result.confirmed, result.deferred, result.runs) == (False, True, 0)


def test_the_typical_run_is_of_middle_severity_and_has_the_symptom_that_showed_most_often() -> None:
    lossy = [Verdict(Outcome.ANOMALOUS, "loss", Symptom.LOSS, severity, "b") for severity in (0.9, 0.1, 0.4)]
    result = Confirmed(True, (SLOW, *lossy, SLOW), 5)
    assert result.typical == lossy[2]


def test_a_suspicion_that_no_run_decides_is_deferred() -> None:
    result, asked = drive([VOID, None, VOID, VOID], rule(POLICY, 0.01))
    assert (result.confirmed, result.deferred, result.runs, asked) == (False, True, 0, 4)


def test_the_limit_of_runs_ends_a_confirmation() -> None:
    until = rule(replace(POLICY, runs=3), 0.01)
    result, asked = drive([NORMAL, CLEARLY, NORMAL], until)
    assert (result.confirmed, asked) == (False, 3)


def test_at_one_stray_in_a_hundred_two_of_three_confirm_then_three_of_eight_and_four_normal_runs_drop() -> None:
    until = rule(POLICY, 0.01)
    least = [next(shows for shows in range(1, 13) if until.decision(shows, normal)) for normal in range(8)]
    assert least == [2, 2, 3, 3, 3, 3, 4, 4]
    assert [until.decision(0, normal) for normal in range(5)] == [None, None, None, None, False]
    assert until.decision(1, 4) is None  # each show keeps the suspicion for further runs
    assert until.decision(3, 5) is True
    assert until.decision(3, 6) is None


def test_one_stray_in_thirty_runs_needs_three_of_three_or_four_of_seven() -> None:
    until = rule(POLICY, 1 / 30)
    assert [until.decision(3, 0), until.decision(3, 1), until.decision(4, 3)] == [True, None, True]
    assert until.decision(2, 0) is None


def test_low_throughput_that_is_not_clear_has_its_bound_measured_again() -> None:
    policy = replace(POLICY, fresh_siblings=1, borderline_siblings=2)
    assert policy.siblings(SLOW) == 1
    assert policy.siblings(replace(SLOW, margin=1.9)) == 3
    assert policy.siblings(CLEARLY) == 0


@given(st.floats(0.005, 0.1), st.sampled_from([0.005, 0.01, 0.1]))
def test_a_campaign_of_a_thousand_runs_keeps_the_declared_chance(stray: float, declared: float) -> None:
    until = rule(replace(POLICY, false_chance=declared, runs=30), stray)
    assert false_chance(stray, {until: 1000}) <= declared


@given(st.floats(0.01, 0.3), st.floats(0.01, 0.3))
def test_more_strays_demand_more_reproductions(one: float, other: float) -> None:
    fewer, more = rule(POLICY, min(one, other)), rule(POLICY, max(one, other))
    assert all(less <= much for less, much in zip(fewer.needed, more.needed, strict=True))


@pytest.mark.parametrize(("shows", "least"), [(0.6, 0.95), (0.8, 0.99), (1.0, 1.0)])
def test_what_shows_as_often_as_the_recipe_aims_at_is_confirmed(shows: float, least: float) -> None:
    until = rule(POLICY, 0.01)
    assert odds(until, shows).confirmed >= least
    assert miss_chance(until, shows) == pytest.approx(1.0 - shows * odds(until, shows).confirmed)


def test_the_odds_sum_over_all_courses() -> None:
    until = Rule(needed=(2, 2, 3), hopeless=(2, 2, 2), runs=3)  # two of three
    found = odds(until, 0.8)
    assert found.confirmed == pytest.approx(0.8**2 * (3 - 2 * 0.8))
    assert found.runs == pytest.approx(2 + 2 * 0.8 * 0.2)


@pytest.mark.parametrize("stray", [POLICY.show_rate, 0.9])
def test_strays_as_frequent_as_the_anomalies_confirm_nothing_and_a_normal_run_ends_the_attempt(stray: float) -> None:
    assert odds(rule(POLICY, stray), 1.0).confirmed == 0.0
    assert odds(rule(POLICY, stray), 0.0).runs == 1.0


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "under 0.1%"),
        (0.00099, "under 0.1%"),
        (0.001, "0.1%"),
        (0.025, "2.5%"),
        (0.28, "28%"),
        (0.996, "over 99%"),
        (1.0, "100%"),
    ],
)
def test_the_chances_of_a_campaign_are_stated_unless_they_are_tiny(share: float, words: str) -> None:
    assert Reliability(60, 1, 0.025, share, share).sentence == (
        f"1 of 60 runs looked anomalous and could not be confirmed; chance of a false anomaly: {words}, "
        f"of missing one that was visited once and shows in 80% of its runs: {words}"
    )


def test_a_campaign_without_a_dropped_suspicion_says_so() -> None:
    assert Reliability(26, 0, 0.01, 0.0, 0.0).sentence.startswith(
        "no suspicion went unconfirmed in 26 runs; chance of a "
    )
