"""Where content comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.content.anomalies import load_references
from collie.content.catalogs import load_catalog
from collie.content.locate import ContentKind, available, find
from collie.content.recipes import load_recipe
from collie.errors import ContentError

RECIPE = "strategy: random\nbudget: 5runs\n"


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    (tmp_path / "search/recipes").mkdir(parents=True)
    (tmp_path / "search/recipes/nsdi22.yaml").write_text(RECIPE)
    (tmp_path / "search/recipes/mine.yaml").write_text(RECIPE)
    return tmp_path


def test_an_overlay_hides_and_adds(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_recipe("nsdi22").budget == "10h"
    monkeypatch.setenv("COLLIE_CONTENT", str(overlay))
    assert load_recipe("nsdi22").budget == "5runs"
    assert load_recipe("mine").name == "mine"
    assert "random" in available(ContentKind.RECIPE)


def test_an_overlay_that_does_not_exist_is_refused(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLIE_CONTENT", str(overlay / "mistyped"))
    with pytest.raises(ContentError, match="mistyped: no such directory; COLLIE_CONTENT names one"):
        load_recipe("nsdi22")


def test_an_unknown_name_lists_what_there_is_and_guesses() -> None:
    with pytest.raises(
        ContentError,
        match=r"nsdi2: no space has this name; did you mean 'nsdi22'\? known: control-verbs, many-hosts, nsdi22, off",
    ):
        find(ContentKind.SPACE, "nsdi2")


def test_a_path_is_taken_as_it_is(overlay: Path) -> None:
    assert find(ContentKind.RECIPE, str(overlay / "search/recipes/mine.yaml")) == overlay / "search/recipes/mine.yaml"
    with pytest.raises(ContentError, match=r"gone\.yaml: no such file"):
        find(ContentKind.RECIPE, "gone.yaml")


def test_a_name_with_slashes_never_leaves_the_content_folders() -> None:
    with pytest.raises(ContentError, match="no such file"):
        find(ContentKind.RECIPE, "../recipes/nsdi22")


def test_a_catalog_stands_in_the_folder_of_its_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "driver: other\ncounters:\n  - {name: a, source: netdev, unit: bytes, kind: perf, component: x, meaning: y}\n"
    )
    (tmp_path / "counters/mine").mkdir(parents=True)
    (tmp_path / "counters/mine/catalog.yaml").write_text(text)
    monkeypatch.setenv("COLLIE_CONTENT", str(tmp_path))

    with pytest.raises(ContentError, match="driver other stands in the folder of mine"):
        load_catalog("mine")


def test_a_collection_reports_the_problems_of_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "workloads/anomalies"
    folder.mkdir(parents=True)
    (folder / "mine-01.yaml").write_text("titel: x\n")
    (folder / "mine-02.yaml").write_text("")
    monkeypatch.setenv("COLLIE_CONTENT", str(tmp_path))

    with pytest.raises(ContentError) as caught:
        load_references("mine")
    assert {Path(problem.path).name for problem in caught.value.problems} == {"mine-01.yaml", "mine-02.yaml"}
    with pytest.raises(ContentError, match="known: mine, nsdi22"):
        load_references("yours")
