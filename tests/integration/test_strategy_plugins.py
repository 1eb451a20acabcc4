"""A strategy that another package brings: found by its entry point, named by a recipe, no file of Collie changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collie.cli.main import run

MODULE = """
from collie.search.random_search import RandomSearch

def build(recipe, space, catalog, rng):
    return RandomSearch(space, rng)

def broken(recipe, space, catalog, rng):
    raise RuntimeError("no model")
"""
ENTRY_POINTS = """[collie.strategies]
corners = corners_for_collie:build
broken = corners_for_collie:broken
absent = corners_for_collie:none
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with three entry points, and recipes for them in the working directory."""
    site = tmp_path / "site"
    metadata = site / "corners_for_collie-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "corners_for_collie.py").write_text(MODULE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: corners-for-collie\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)
    for name in ("corners", "broken", "absent", "cornerz"):
        (tmp_path / f"{name}.yaml").write_text(f"strategy: plugin\nplugin: {name}\n")


def search(recipe: str) -> int:
    return run(["search", "--recipe", recipe, "--budget", "6runs", "--campaign", "one", "--format", "json"])


def test_a_recipe_searches_with_the_strategy_of_another_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert search("corners.yaml") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["recipe"], found["runs"]) == ("corners", 6)
    assert run(["search", "--resume", "one", "--budget", "9runs", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 9


@pytest.mark.parametrize(("name", "said"), [("broken", "RuntimeError: no model"), ("absent", "AttributeError")])
def test_a_strategy_that_fails_is_named_with_its_error(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(f"{name}.yaml") == 2
    error = capsys.readouterr().err
    assert f"strategy {name} (corners_for_collie:" in error
    assert said in error


def test_a_strategy_that_is_not_installed_is_refused_where_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert search("cornerz.yaml") == 2
    error = capsys.readouterr().err
    assert "cornerz.yaml:2" in error
    assert "did you mean 'corners'?" in error
    Path("none.yaml").write_text("strategy: plugin\n")
    assert search("none.yaml") == 2
    assert "the strategy `plugin` needs `plugin: NAME`" in capsys.readouterr().err
    Path("both.yaml").write_text("strategy: guided\nplugin: corners\n")
    assert search("both.yaml") == 2
    assert "plugin 'corners' needs the strategy `plugin`" in capsys.readouterr().err
