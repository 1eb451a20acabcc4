"""Settings of a search on record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.errors import StoreError


@pytest.mark.parametrize(
    "settings",
    [
        {"testbed": 7},
        {"testbed": {"hosts": ["x"]}},
        {"fix": [1]},
        {"more": 1},
        {"seed": "1"},
        {"capabilities": {"a": 7}},
    ],
)
def test_settings_of_no_search_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(StoreError, match="those of no search"):
        SearchChoice.from_settings({**SearchChoice().to_settings(), **settings})


def test_settings_of_a_search_come_back() -> None:
    chosen = SearchChoice(TestbedChoice(hosts="lab", settings={"a": "1"}), fix=("qps=1",), seed=3).naming("s", "r")
    assert SearchChoice.from_settings(json.loads(json.dumps(chosen.to_settings()))) == chosen


def test_settings_on_hosts_that_name_no_space_mean_what_they_meant_then() -> None:
    old = {**SearchChoice(TestbedChoice(hosts="hosts.yaml"), space="app.yaml").to_settings()}
    del old["terms"]
    chosen = SearchChoice.from_settings(old)
    assert (chosen.space, chosen.recipe, chosen.terms) == ("app.yaml", "soft-roce-annealing", "soft-roce")
