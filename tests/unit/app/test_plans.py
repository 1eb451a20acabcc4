"""The plan of a search says what the search does."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from collie.app import campaigns, plans
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.report.terminal.plan import render_plan
from collie.wiring import ADAPTERS

_HOSTS = """\
version: 1
hosts:
  a: {address: 192.0.2.1, data_address: 192.0.2.11, device: mlx5_0}
  b: {address: 192.0.2.2, data_address: 192.0.2.12, device: mlx5_0}
"""


@pytest.fixture
def known(tmp_path: Path) -> str:
    """A campaign on subsystem F."""
    campaigns.begin(ADAPTERS, SearchChoice(budget="1runs"), tmp_path / "known").close()
    return str(tmp_path / "known")


def _words(plan: dict[str, Any]) -> str:
    """Return what a plan says of three known anomalies."""
    return render_plan({**plan, "known": 3}).partition("seed 0; ")[2].partition("\n")[0]


@pytest.mark.parametrize(
    ("subsystem", "words"), [("F", "skips 3 known anomalies"), ("G", "tests 3 known anomalies first")]
)
def test_known_anomalies_are_treated_as_the_search_treats_them(
    subsystem: str, words: str, known: str, tmp_path: Path
) -> None:
    choice = SearchChoice(TestbedChoice(subsystem=subsystem), known=known)
    plan = plans.describe(ADAPTERS, choice)
    begun = campaigns.begin(ADAPTERS, choice, tmp_path / "begun")
    begun.close()
    assert plan["known_elsewhere"] == begun.choice.known_elsewhere
    assert _words(plan) == words


def test_a_resumed_search_treats_known_anomalies_as_at_its_beginning(known: str) -> None:
    began = SearchChoice(TestbedChoice(subsystem="G"), known=known, known_elsewhere=False)  # as an older Collie did
    assert _words(plans.describe(ADAPTERS, began, resumed=True)) == "skips 3 known anomalies"


def test_published_anomalies_are_tested_first() -> None:
    plan = plans.describe(ADAPTERS, SearchChoice(known="nsdi22"))
    assert (plan["known"], plan["known_elsewhere"]) == (18, True)


def test_hosts_that_are_not_contacted_leave_it_open(known: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text(_HOSTS)
    choice = SearchChoice(TestbedChoice(hosts=str(tmp_path / "hosts.yaml")), known=known)
    words = "skips 3 known anomalies, or tests them first if the hosts are unlike theirs"
    assert _words(plans.describe(ADAPTERS, choice)) == words
    published = plans.describe(ADAPTERS, dataclasses.replace(choice, known="nsdi22"))
    assert published["known_elsewhere"] is True


def test_without_known_anomalies_none_is_skipped() -> None:
    assert "seed 0; skips no known anomalies\n" in render_plan(plans.describe(ADAPTERS, SearchChoice()))
