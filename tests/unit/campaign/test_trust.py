"""The stray rate of a campaign, and the chances that it prints."""

from __future__ import annotations

from random import Random

import pytest

from collie.campaign.trust import Trust
from collie.detect.confirm import Confirmation, confirm, odds
from collie.detect.noise import Noise
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.workloads.workload import Workload

PAUSED = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.2, "b", margin=200.0)
NORMAL = Verdict(Outcome.NORMAL, "fine")


def needed(trust: Trust) -> int:
    return trust.rule.needed[0]


def test_the_rule_is_stricter_before_anything_is_known_and_laxer_after_clean_runs() -> None:
    trust = Trust(Confirmation(), Noise())
    assert needed(trust) == 3
    for _ in range(300):
        trust.judged()
    assert needed(trust) == 2


def test_the_rule_gets_stricter_with_every_stray() -> None:
    trust = Trust(Confirmation(), Noise())
    for _ in range(300):
        trust.judged()
    before = odds(trust.rule, 0.05).confirmed
    for _ in range(20):
        trust.dropped()
    assert odds(trust.rule, 0.05).confirmed < before
    assert needed(trust) > 2


def test_the_estimate_begins_with_the_declared_rate() -> None:
    trust = Trust(Confirmation(), Noise(stray_rate=0.05))
    assert trust.reliability is None
    trust.judged()
    found = trust.reliability
    assert found is not None
    assert found.healthy_false_positive_rate == pytest.approx(5 / 101)
    for _ in range(99):
        trust.judged()
    trust.dropped()
    found = trust.reliability
    assert found is not None
    assert (found.judged_runs, found.dropped) == (100, 1)
    assert found.healthy_false_positive_rate == pytest.approx(6 / 200)


@pytest.mark.parametrize("stray", [1 / 30, 0.01])
def test_the_printed_chance_of_a_false_anomaly_holds_against_outcomes(stray: float) -> None:
    """Healthy campaigns of 200 runs: as many have a false anomaly as the campaigns print, within three deviations."""
    rng = Random(5)
    campaigns, false, printed = 400, 0, 0.0
    for _ in range(campaigns):
        found, chance = healthy_campaign(rng, stray)
        false += found
        printed += chance
    assert printed / campaigns <= 0.01
    assert false <= printed + 3 * printed**0.5 + 1


def healthy_campaign(rng: Random, stray: float) -> tuple[bool, float]:
    def verdict() -> Verdict:
        return PAUSED if rng.random() < stray else NORMAL

    trust, found = Trust(Confirmation(), Noise()), False
    for _ in range(200):
        trust.judged()
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
