"""The stray rate of a campaign, and the chances that it prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from statistics import fmean

import pytest
from scipy.stats import beta, binomtest

from collie.campaign.trust import Trust
from collie.detect.confirm import Confirmation, confirm, false_chance, odds
from collie.detect.noise import Noise
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.workloads.workload import Workload

STRAY = 1 / 30
CAMPAIGN_RUNS = 100
LOOSE = Confirmation(false_chance=1.0)
PAUSED = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.2, "b", margin=200.0)
NORMAL = Verdict(Outcome.NORMAL, "fine")


def needed(trust: Trust) -> int:
    return trust.rule.needed[0]


def test_the_rule_is_stricter_before_anything_is_known_and_laxer_after_clean_runs() -> None:
    trust = Trust(Confirmation(), Noise())
    assert needed(trust) == 3
    for _ in range(300):
        trust.judged(NORMAL)
    assert needed(trust) == 2


def test_an_inconclusive_run_is_no_evidence_of_few_strays() -> None:
    trust = Trust(Confirmation(), Noise())
    before = trust.rule
    for _ in range(300):
        trust.judged(inconclusive("the window was not stable"))
    assert (trust.rule, trust.reliability) == (before, None)


def test_the_rule_gets_stricter_with_every_stray() -> None:
    trust = Trust(Confirmation(), Noise())
    for _ in range(300):
        trust.judged(NORMAL)
    before = odds(trust.rule, 0.05).confirmed
    for _ in range(20):
        trust.dropped()
    assert odds(trust.rule, 0.05).confirmed < before
    assert needed(trust) > 2


def test_the_estimate_begins_with_the_declared_rate() -> None:
    trust = Trust(Confirmation(), Noise(stray_rate=0.05))
    assert trust.reliability is None
    trust.judged(NORMAL)
    found = trust.reliability
    assert found is not None
    assert found.healthy_false_positive_rate == pytest.approx(5 / 101)
    for _ in range(99):
        trust.judged(NORMAL)
    trust.dropped()
    found = trust.reliability
    assert found is not None
    assert (found.judged_runs, found.dropped) == (100, 1)
    assert found.healthy_false_positive_rate == pytest.approx(6 / 200)


def test_the_printed_chance_is_that_of_every_run_under_the_rule_of_its_time() -> None:
    trust, rules = Trust(LOOSE, Noise(stray_rate=STRAY)), []
    for number in range(60):
        rules.append(trust.rule)
        trust.judged(NORMAL)
        if number % 20 == 10:
            trust.dropped()
    assert len(set(rules)) > 1
    found = trust.reliability
    assert found is not None
    a, b = 100 * STRAY + 3, 100 * (1.0 - STRAY) + 57
    rates = [float(beta.ppf((number + 0.5) / 200, a, b)) for number in range(200)]
    runs = Counter(rules)
    assert found.false_chance == pytest.approx(fmean(false_chance(rate, runs) for rate in rates), rel=0.05)
    assert found.false_chance > 1.2 * false_chance((100 * STRAY + 3) / 160, runs)


# --- Printed chances against outcomes ---------------------------------------------------------------------------------
# With the declared chance of the recipes a false anomaly is so rare that any printed chance would pass. So these
# campaigns declare one that some of them use up.


def test_the_printed_chance_holds_against_outcomes_where_runs_stray_as_declared() -> None:
    """Rates differ as much as the declaration allows. The printed chances hold within a factor of 2."""
    rng = Random(5)
    rates = [rng.betavariate(100 * STRAY, 100 * (1.0 - STRAY)) for _ in range(900)]
    false, printed = healthy_campaigns(rates, Noise(stray_rate=STRAY))
    assert binomtest(false, 900, 2 * printed / 900, alternative="greater").pvalue > 0.01
    assert binomtest(false, 900, printed / 900 / 2, alternative="greater").pvalue < 0.05


@pytest.mark.slow
def test_the_printed_chance_holds_against_outcomes_where_more_runs_stray_than_declared() -> None:
    false, printed = healthy_campaigns([STRAY] * 1500, Noise())
    assert binomtest(false, 1500, 2 * printed / 1500, alternative="greater").pvalue > 0.01


@pytest.mark.parametrize("noise", [Noise(), Noise(stray_rate=STRAY)])
def test_the_declared_chance_holds_against_outcomes_however_many_runs_stray(noise: Noise) -> None:
    false, _ = healthy_campaigns([STRAY] * 600, noise)
    assert false <= 600 * LOOSE.false_chance * CAMPAIGN_RUNS / 1000


def healthy_campaigns(stray_rates: Sequence[float], noise: Noise) -> tuple[int, float]:
    """Return the campaigns with a false anomaly, and how many the campaigns say there are."""
    rng = Random(5)
    results = [healthy_campaign(rng, rate, noise) for rate in stray_rates]
    return sum(found for found, _ in results), sum(chance for _, chance in results)


def healthy_campaign(rng: Random, stray_rate: float, noise: Noise) -> tuple[bool, float]:
    def verdict() -> Verdict:
        return PAUSED if rng.random() < stray_rate else NORMAL

    trust, found = Trust(LOOSE, noise), False
    for _ in range(CAMPAIGN_RUNS):
        trust.judged(NORMAL)
        if not verdict().is_anomalous:
            continue
        probes = confirm(Workload(), Symptom.PAUSE, trust.rule, 3)
        next(probes)
        try:
            while True:
                probes.send(verdict())
        except StopIteration as stop:
            found = found or stop.value.confirmed
            if not stop.value.confirmed:
                trust.dropped()
    reliability = trust.reliability
    assert reliability is not None
    return found, reliability.false_chance
