"""The tables of the confirmation's arithmetic, as the pages print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.confirmation import arithmetic

ROOT = Path(__file__).parents[3]
PAGES = ("docs/explanation/trust.md", "docs/evidence/verdicts.md")


@pytest.fixture(scope="module")
def printed() -> set[str]:
    return {line for page in PAGES for line in (ROOT / page).read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize("row", list(arithmetic()))
def test_the_pages_have_the_rows_that_the_benchmark_prints(printed: set[str], row: str) -> None:
    assert row in printed
