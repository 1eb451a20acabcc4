"""The benchmark of what a strategy proposes."""

from __future__ import annotations

import pytest

from benchmarks.proposals import KNOWN, Task, reached, table
from collie.search import guided
from collie.simulator.mechanism import Mechanism


@pytest.mark.parametrize("variant", KNOWN)
def test_a_search_reaches_mechanisms_within_its_runs_and_leaves_the_strategy_as_it_was(variant: str) -> None:
    before = vars(guided).copy()
    found = reached(Task("F", variant, seed=1, runs=24, covered=0.5))
    assert found
    assert set(found.values()) <= set(range(1, 25))
    assert vars(guided) == before


def test_variants_propose_differently_once_they_have_learnt() -> None:
    found = [reached(Task("F", variant, 1, 90, 0.5)) for variant in ("guided", "guided", "no-learning")]
    assert found[0] == found[1]
    assert found[0] != found[2]


def shown(found: dict[str, int]) -> dict[Mechanism, int]:
    return {Mechanism(name): run for name, run in found.items()}


def test_the_table_compares_each_variant_with_the_first_seed_by_seed() -> None:
    one, other = shown({"read_slow_path": 10, "context_cache": 70}), shown({"read_slow_path": 90})
    printed = table("F", 100, {"guided": [one, one], "random": [one, other]})
    assert printed.splitlines() == [
        "| on F, in runs | 60 | 100 | against the first | read_slow_path | context_cache |",
        "|---|---|---|---|---|---|",
        "| guided | 1.00 | 2.00 | - | 1.00 | 1.00 |",
        "| random | 0.50 | 1.50 | -0.50 (0.50) | 1.00 | 0.50 |",
    ]
