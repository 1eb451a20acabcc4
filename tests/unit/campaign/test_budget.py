"""Budgets as written on the command line."""

from __future__ import annotations

import pytest

from collie.campaign.budget import Budget, parse_budget
from collie.errors import UsageError


@pytest.mark.parametrize("text", ["", "10", "0runs", "ten hours", "0s"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="budget"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("one", "other", "within"),
    [
        ("1h", "1h", True),
        ("1h", "2h", True),
        ("2h", "1h", False),
        ("80runs", "90runs", True),
        ("90runs", "80runs", False),
        ("10h", "90runs", False),
        ("90runs", "10h", False),
    ],
)
def test_a_budget_is_within_one_that_allows_all_that_it_does(one: str, other: str, within: bool) -> None:
    assert parse_budget(one).is_within(parse_budget(other)) is within


@pytest.mark.parametrize(("text", "option"), [("90s", "2m"), ("90m", "90m"), ("10h", "10h"), ("800runs", "800runs")])
def test_a_budget_is_written_as_its_option(text: str, option: str) -> None:
    assert parse_budget(text).as_option == option


def test_budgets() -> None:
    assert parse_budget("10h") == Budget(seconds=36000)
    assert parse_budget("800runs") == Budget(runs=800)
    assert Budget(seconds=100).share(25, 1) == 0.25
    assert Budget(runs=10).share(25, 5) == 0.5
