"""Budgets as written on the command line."""

from __future__ import annotations

import pytest

from collie.campaign.budget import Budget, parse_budget
from collie.errors import UsageError


@pytest.mark.parametrize("text", ["", "10", "0runs", "ten hours", "0s"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="budget"):
        parse_budget(text)


def test_budgets() -> None:
    assert parse_budget("10h") == Budget(seconds=36000)
    assert parse_budget("800runs") == Budget(runs=800)
    assert Budget(seconds=100).share(25, 1) == 0.25
    assert Budget(runs=10).share(25, 5) == 0.5
