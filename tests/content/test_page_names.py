"""The files and names that the pages of contributors give exist: a page that misleads costs more than none."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from collie.search.recipe import StrategyName

ROOT = Path(__file__).parents[2]
PLACEHOLDER = re.compile(r"\b[A-Z]{4,}\b")
PAGES = [ROOT / "CONTRIBUTING.md", *(path for path in sorted(ROOT.glob("docs/*/*.md")) if path.parent.name != "adr")]
FILE = re.compile(r"(?<![\w/.~-])((?:collie|tests|scripts|benchmarks)/[\w./-]*\w)")
NAME = re.compile(r"`(?:cls=)?(_?[A-Za-z]\w*)(?:\(\))?`")
MADE = ("collie/bundle/content.json",)
"""Made when a bundle is built."""


@cache
def sources() -> str:
    """The text of the package and of its tests."""
    return "\n".join(path.read_text() for folder in ("collie", "tests") for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = [name for name in FILE.findall(page.read_text()) if not PLACEHOLDER.search(name) and name not in MADE]
    missing = {name for name in named if not (ROOT / name).exists() and not [*ROOT.glob(f"{name}*")]}
    assert missing == set()


def test_identifiers_that_contributors_look_for_exist() -> None:
    named = set(NAME.findall((ROOT / "CONTRIBUTING.md").read_text()))
    identifiers = {name for name in named if "_" in name or name != name.lower()} - {"NAME", "DRIVER", "CHANGELOG"}
    assert identifiers
    assert {name for name in identifiers if not re.search(rf"\b{name}\b", sources())} == set()


def test_pages_name_every_strategy_and_recipe() -> None:
    files = (ROOT / "docs" / "reference" / "files.md").read_text()
    search = (ROOT / "docs" / "explanation" / "search.md").read_text()
    assert [name.value for name in StrategyName if f"`{name}`" not in files] == []
    assert [path.stem for path in (ROOT / "search" / "recipes").glob("*.yaml") if f"`{path.stem}`" not in search] == []
