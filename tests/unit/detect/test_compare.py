"""Pairs of runs: what one says, when enough of them agree, and what that is worth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, strategies as st

from collie.detect.compare import Change, Comparison, Side, compare
from collie.detect.pair_rule import Chances, PairRule, Shares, rule_for
from collie.detect.reading import RunReading, Sign, resolution, sign_of, typical
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.detect.thresholds import Thresholds
from collie.errors import UsageError

LIMITS = resolution(Thresholds())
CHANCES = Chances(differ=0.02, false_negative_rate=0.02)
RULE = PairRule(needed=3, pairs=4)


def healthy(delivered: float = 100e9, pause: float = 1e-5) -> RunReading:
    return RunReading(Verdict(Outcome.NORMAL, "fine"), delivered, pause)


def pausing(ratio: float, delivered: float = 100e9) -> RunReading:
    return RunReading(
        Verdict(Outcome.ANOMALOUS, f"pause {ratio}", Symptom.PAUSE, ratio, "b", ratio / 0.001), delivered, ratio
    )


def slow(deficit: float) -> RunReading:
    verdict = Verdict(Outcome.ANOMALOUS, f"slow {deficit}", Symptom.LOW_THROUGHPUT, deficit, "b", deficit / 0.2)
    return RunReading(verdict, 100e9 * (1 - deficit), 1e-5)


def showing(symptom: Symptom, severity: float, margin: float = 1.0) -> RunReading:
    return RunReading(Verdict(Outcome.ANOMALOUS, symptom, symptom, severity, "b", margin), 100e9, 0.0)


def unbounded(delivered: float) -> RunReading:
    return RunReading(inconclusive("the plain sibling could not be measured"), delivered, unbounded=True)


VOID = RunReading(inconclusive("the link changed"))


@pytest.mark.parametrize(
    ("before", "after", "sign"),
    [
        (healthy(), healthy(101e9), Sign.SAME),
        (healthy(), pausing(0.25), Sign.WORSE),
        (pausing(0.25), healthy(), Sign.BETTER),
        (pausing(0.25), pausing(0.27), Sign.SAME),
        (pausing(0.05), pausing(0.11), Sign.WORSE),
        (pausing(0.6), pausing(0.71), Sign.WORSE),
        (healthy(pause=0.0009), pausing(0.0011), Sign.SAME),  # at the threshold: no change, though one is anomalous
        (slow(0.3), slow(0.32), Sign.SAME),
        (slow(0.3), slow(0.5), Sign.WORSE),
        (healthy(81e9), slow(0.21), Sign.SAME),  # at the threshold
        (healthy(), healthy(75e9), Sign.WORSE),  # its own sibling became as slow, and so it is normal
        (healthy(), healthy(85e9), Sign.SAME),
        (healthy(), showing(Symptom.COMPLETION_ERRORS, 0.0), Sign.WORSE),
        (healthy(), showing(Symptom.RNR_STORM, 0.06, 1.2), Sign.SAME),
        (healthy(), showing(Symptom.RNR_STORM, 0.4, 8.0), Sign.WORSE),
        (showing(Symptom.RNR_STORM, 0.4, 8.0), showing(Symptom.RNR_STORM, 0.41, 8.2), Sign.SAME),
        (showing(Symptom.RNR_STORM, 0.4, 8.0), showing(Symptom.RETRANSMISSION, 0.42, 40.0), Sign.SAME),  # kin
        (VOID, pausing(0.25), None),
        (pausing(0.25), VOID, None),
        (unbounded(40e9), slow(0.6), Sign.SAME),  # as slow as what is known to be slow
        (slow(0.6), unbounded(41e9), Sign.SAME),
        (unbounded(100e9), slow(0.6), Sign.WORSE),
        (slow(0.3), unbounded(40e9), Sign.WORSE),
        (unbounded(20e9), slow(0.6), Sign.BETTER),
        (slow(0.6), unbounded(100e9), None),  # nobody can say whether it is well
        (unbounded(100e9), unbounded(100e9), None),
        (unbounded(100e9), healthy(), None),
        (unbounded(100e9), pausing(0.25), None),
        (unbounded(0.0), slow(1.0), Sign.SAME),
        (replace(unbounded(0.0), delivered_bps=None), slow(0.6), None),
    ],
)
def test_sign_of_a_pair(before: RunReading, after: RunReading, sign: Sign | None) -> None:
    assert sign_of(before, after, LIMITS) is sign


def test_a_reading_without_throughput_is_not_a_drop_to_nothing() -> None:
    assert sign_of(healthy(), RunReading(Verdict(Outcome.NORMAL, "fine")), LIMITS) is Sign.SAME


def drive(
    before: Iterable[RunReading | None],
    after: Iterable[RunReading | None],
    rule: PairRule = RULE,
    *,
    expects_healthy: bool = False,
) -> tuple[Comparison, list[Side]]:
    sides = {Side.BASELINE: iter(before), Side.CANDIDATE: iter(after)}
    test = compare(rule, LIMITS, CHANCES, [], expects_healthy=expects_healthy)
    asked = [next(test)]
    try:
        while True:
            asked.append(test.send(next(sides[asked[-1]])))
    except StopIteration as stop:
        return stop.value, asked


def always(reading: RunReading | None) -> list[RunReading | None]:
    return [reading] * 40


@pytest.mark.parametrize(
    ("before", "after", "change", "pairs"),
    [
        (healthy(), healthy(), Change.HEALTHY, 1),
        (pausing(0.2), pausing(0.2), Change.STILL, 1),
        (pausing(0.2), healthy(), Change.FIXED, 3),
        (healthy(), pausing(0.2), Change.NEW, 3),
        (pausing(0.2), pausing(0.5), Change.WORSE, 3),
        (pausing(0.5), pausing(0.2), Change.STILL, 3),  # better, and not well
        (slow(0.22), healthy(85e9), Change.STILL, 1),  # at the threshold
        (unbounded(40e9), slow(0.6), Change.STILL, 1),
        (slow(0.6), unbounded(40e9), Change.STILL, 1),
        (unbounded(100e9), slow(0.6), Change.NEW, 3),
        (slow(0.3), unbounded(40e9), Change.WORSE, 3),
    ],
)
def test_what_steady_sides_are_called(before: RunReading, after: RunReading, change: Change, pairs: int) -> None:
    comparison, asked = drive(always(before), always(after))
    assert (comparison.change, len(comparison.pairs)) == (change, pairs)
    assert len(asked) == 2 * pairs
    assert comparison.confidence is not None
    assert comparison.confidence > 0.97


BY_PAUSE = "worse by pause, which counts when it is 2 times as long or by 10 points longer"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            pausing(0.2),
            pausing(0.5, 130e9),
            f"{BY_PAUSE}; baseline: pause 0.2; candidate: pause 0.5",
        ),
        (slow(0.3), slow(0.5), "worse by throughput; baseline: slow 0.3; candidate: slow 0.5"),
        (
            replace(showing(Symptom.RNR_STORM, 0.2, 2.0), delivered_bps=90e9),
            showing(Symptom.RNR_STORM, 0.4, 8.0),
            f"worse by {Symptom.RNR_STORM.words}; baseline: rnr_storm; candidate: rnr_storm",
        ),
        (healthy(), pausing(0.2), "baseline: fine; candidate: pause 0.2"),  # new: the symptom says it
    ],
)
def test_what_is_worse_names_the_rule_even_where_another_reading_is_better(
    before: RunReading, after: RunReading, reason: str
) -> None:
    comparison, _ = drive(always(before), always(after))
    assert comparison.reason == reason


def test_sides_take_turns_so_that_a_drift_meets_both() -> None:
    _, asked = drive(always(healthy()), always(pausing(0.2)), PairRule(4, 4))
    a, b = Side.BASELINE, Side.CANDIDATE
    assert asked == [a, b, b, a, a, b, b, a]


def test_the_baseline_runs_first_unless_health_is_expected() -> None:
    assert next(compare(RULE, LIMITS, CHANCES, [])) is Side.BASELINE


@pytest.mark.parametrize("after", [pausing(0.2), healthy()])
def test_confidence_is_the_chance_that_no_disturbance_made_the_pairs(after: RunReading) -> None:
    before = healthy() if after.verdict.is_anomalous else pausing(0.2)
    comparison, _ = drive(always(before), always(after), PairRule(needed=2, pairs=3))
    assert comparison.confidence == pytest.approx(1.0 - CHANCES.differ**2)


def test_one_disturbed_run_is_no_alarm() -> None:
    comparison, _ = drive(always(healthy()), [pausing(0.2), *always(healthy())])
    assert (comparison.change, comparison.reason) == (Change.HEALTHY, "fine"), "not that of the disturbed run"
    comparison, _ = drive([healthy(), *always(pausing(0.2))], always(pausing(0.2)))
    assert comparison.change is Change.STILL


def test_a_healthy_candidate_needs_no_pair_where_health_is_expected() -> None:
    comparison, asked = drive(always(None), always(healthy()), expects_healthy=True)
    assert (comparison.change, asked) == (Change.HEALTHY, [Side.CANDIDATE])
    comparison, asked = drive(always(healthy()), always(pausing(0.2)), expects_healthy=True)
    assert comparison.change is Change.NEW
    assert asked[:4] == [Side.CANDIDATE, Side.BASELINE, Side.BASELINE, Side.CANDIDATE]


def test_runs_that_say_nothing_are_inconclusive_in_the_end() -> None:
    comparison, _ = drive(always(healthy()), always(VOID))
    assert comparison.change is Change.INCONCLUSIVE
    assert "the link changed" in comparison.reason
    comparison, _ = drive(always(healthy()), [VOID, VOID, *always(pausing(0.2))])
    assert comparison.change is Change.NEW


def test_pairs_that_say_nothing_cost_time_alone_while_others_say_something() -> None:
    comparison, asked = drive(always(pausing(0.2)), [VOID, pausing(0.2)] * 20, PairRule(6, 9, agreeing=6))
    assert comparison.change is Change.STILL
    assert len(asked) == 16
    assert sum(pair.sign is None for pair in comparison.pairs) == 4


def test_pairs_that_contradict_each_other_are_inconclusive() -> None:
    comparison, _ = drive(always(healthy()), [pausing(0.2), pausing(0.2), *always(healthy())], PairRule(3, 3))
    assert comparison.change is Change.INCONCLUSIVE


def test_what_no_side_can_run_is_unsupported_and_what_only_one_can_is_undecided() -> None:
    assert drive(always(None), always(None))[0].change is Change.UNSUPPORTED
    comparison, _ = drive(always(pausing(0.2)), always(None))
    assert (comparison.change, comparison.reason) == (
        Change.INCONCLUSIVE, "the candidate cannot run this workload, and the baseline can",
    )  # fmt: skip


def test_effect_is_the_median_with_its_range_and_coverage() -> None:
    comparison, _ = drive(always(healthy()), [slow(0.3), slow(0.4), slow(0.5)])
    effect = comparison.effect
    assert effect is not None
    assert effect.throughput_ratio == pytest.approx((0.6, 0.5, 0.7))
    assert effect.severity == pytest.approx((0.4, 0.3, 0.5))
    assert effect.coverage == 0.75
    assert Comparison(Change.HEALTHY, "").effect is None


def test_pairs_that_lack_a_reading_do_not_make_its_range_surer() -> None:
    stopped = replace(pausing(0.25), delivered_bps=None)
    effect = drive([healthy(), *[stopped] * 8], [pausing(0.25), *[stopped] * 8], PairRule(5, 9))[0].effect
    assert effect is not None
    assert effect.throughput_ratio == (1.0, 1.0, 1.0)
    assert effect.coverage == 0.0


@pytest.mark.parametrize(("bound", "severity"), [(10e9, 0.0), (10.3e9, 0.0), (14e9, None)])
def test_severities_under_unlike_bounds_are_no_difference(bound: float, severity: float | None) -> None:
    def bounded(reading: RunReading, bound_bps: float) -> RunReading:
        return replace(reading, verdict=replace(reading.verdict, bound_bps=bound_bps))

    before, after = bounded(slow(0.4), 10e9), bounded(slow(0.4), bound)
    effect = drive([before] * 9, [after] * 9)[0].effect
    assert effect is not None
    assert effect.throughput_ratio == pytest.approx((1.0, 1.0, 1.0))
    assert effect.severity == (None if severity is None else (severity,) * 3)


def test_typical_reading_follows_the_majority() -> None:
    assert typical([healthy(), pausing(0.1), pausing(0.3), pausing(0.2)]) == pausing(0.2)
    assert typical([healthy(), pausing(0.1), healthy(90e9)]) in (healthy(), healthy(90e9))
    assert typical([VOID]) is None


# --- Arithmetic -------------------------------------------------------------------------------------------------------


@given(share=st.floats(1e-7, 0.05), differ=st.floats(0.001, 0.2), false_negative_rate=st.floats(0.001, 0.3))
def test_rule_keeps_its_share_and_finds_what_is_there(share: float, differ: float, false_negative_rate: float) -> None:
    rule = rule_for(share, differ, false_negative_rate)
    assert rule.chance(differ) <= share
    assert rule.chance(1 - false_negative_rate) >= 0.95
    assert 1 <= rule.agreeing <= rule.needed <= rule.pairs


def test_one_pair_decides_where_hardly_any_differs_by_itself() -> None:
    assert rule_for(0.05, 0.001, 0.0) == PairRule(needed=1, pairs=1, agreeing=1)


def test_one_pair_that_agrees_ends_a_comparison_where_no_change_is_missed() -> None:
    rule = rule_for(0.001, 0.02, 0.0)
    assert rule.needed > 1
    assert rule.agreeing == 1


def test_a_share_that_no_rule_keeps_is_refused() -> None:
    with pytest.raises(UsageError, match="no comparison"):
        rule_for(1e-6, 0.5, 0.1)


def exact_alarm_chance(rule: PairRule, differ: float, taken: tuple[Sign, ...] = ()) -> float:
    """Sum over every way that the generator itself can go, where nothing has changed."""
    readings = {
        Sign.SAME: (healthy(), healthy()),
        Sign.WORSE: (healthy(), pausing(0.2)),
        Sign.BETTER: (pausing(0.2), healthy()),
    }
    try:
        test = compare(rule, LIMITS, CHANCES, [])
        side = next(test)
        for sign in taken:
            for _ in range(2):
                side = test.send(readings[sign][0 if side is Side.BASELINE else 1])
    except StopIteration as stop:
        return float(stop.value.change.is_alarm)
    chances = {Sign.WORSE: differ, Sign.BETTER: differ, Sign.SAME: 1 - 2 * differ}
    return sum(chance * exact_alarm_chance(rule, differ, (*taken, sign)) for sign, chance in chances.items())


@pytest.mark.parametrize("differ", [0.02, 0.1])
@pytest.mark.parametrize("share", [0.005, 0.0005, 0.00005])
def test_the_test_itself_keeps_the_declared_share(share: float, differ: float) -> None:
    rule = rule_for(share, differ, 0.02)
    if rule.pairs <= 6:  # 3^6 ways
        assert exact_alarm_chance(rule, differ) <= share
    agreeing = rule_for(share, differ, 0.3)
    if agreeing.pairs <= 6:
        assert exact_alarm_chance(agreeing, differ) <= share


def test_simulated_gates_raise_no_more_false_alarms_than_declared() -> None:
    """Disturbances strike as often as declared; workloads are healthy, anomalous, and at the threshold."""
    rng, declared, decisions, gates = Random(7), 0.2, 30, 200
    shares = Shares(declared, decisions)
    rule = rule_for(shares.of_replay, CHANCES.differ, CHANCES.false_negative_rate)

    def run_of(deficit: float) -> RunReading:
        if rng.random() < CHANCES.differ / 2:
            return pausing(0.005)
        noisy = 1 - (1 - deficit) * rng.gauss(1, 0.01)
        return slow(noisy) if noisy > 0.2 else healthy(100e9 * (1 - noisy))

    def gate() -> bool:
        alarms = []
        for number in range(decisions):
            deficit = (0.0, 0.2, 0.5)[number % 3]
            comparison, _ = drive(iter(lambda: run_of(deficit), None), iter(lambda: run_of(deficit), None), rule)  # noqa: B023
            alarms.append(comparison.change.is_alarm)
        return any(alarms)

    alarmed = sum(gate() for _ in range(gates))
    assert alarmed <= declared / 2 * gates, "half of the chance is for what is replayed"


def test_shares_of_one_gate_add_up_to_its_chance() -> None:
    shares = Shares(0.01, 80)
    spent = 80 * shares.of_replay + sum(shares.of_find(number) for number in range(1, 5000))
    assert 0.0099 < spent <= 0.01
    assert Shares(0.01, 0).of_replay == 0.005


def test_changes_that_fail_a_gate() -> None:
    assert {change for change in Change if change.is_alarm} == {Change.NEW, Change.WORSE}
