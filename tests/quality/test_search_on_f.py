"""The search finds what is planted in subsystem F and nothing else. Fixed seeds, counts, no times."""

from __future__ import annotations

import pytest

from collie import wiring
from collie.app import testbeds
from collie.campaign.budget import parse_budget
from collie.campaign.choice import TestbedChoice
from collie.campaign.run import Campaign
from collie.campaign.summary import Score, Summary
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.detect.bounds import Calibration
from collie.ports import CampaignHeader
from collie.simulator.truth import Truth
from collie.store.memory import MemoryStore
from collie.testing.fakes import ListSink
from collie.wiring import ADAPTERS

CHOICE = TestbedChoice()
SPACE = load_space("nsdi22")
TRUTH = Truth(wiring.subsystem_of(CHOICE), SPACE)


def search(recipe: str, seed: int) -> tuple[Summary, Score]:
    campaign = Campaign(
        testbed=testbeds.open_testbed(ADAPTERS, CHOICE, seed),
        store=MemoryStore(CampaignHeader("quality", {}, "nsdi22", recipe, {}, seed, "2026-01-01T00:00:00Z")),
        space=SPACE,
        recipe=load_recipe(recipe),
        budget=parse_budget("10h"),
        seed=seed,
        calibration=Calibration(),
    )
    summary = campaign.run(ListSink())
    return summary, TRUTH.score(summary.anomalies)


@pytest.mark.parametrize(("recipe", "least"), [("guided", 7), ("nsdi22-diag", 5), ("random", 6)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ten_hours_find_most_of_what_is_planted_and_nothing_else(recipe: str, least: int, seed: int) -> None:
    summary, score = search(recipe, seed)
    assert len(score.planted) == 13
    assert len(score.found) >= least
    assert score.false == 0
    for anomaly in summary.anomalies:
        if anomaly.complete:
            assert anomaly.mfs.covers(anomaly.workload)
            assert TRUTH.verdict(anomaly.workload).symptom is anomaly.symptom
