"""`collie docs`: the pages of an installed Collie."""

from __future__ import annotations

import pytest

from collie.cli.main import run
from collie.content.inventory import load_inventory


def test_the_pages_are_listed_with_their_titles(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed["tutorials/first-anomaly"] == "The first anomaly, in five minutes"
    assert next(iter(listed)) == "index"
    assert "how-to/find-the-cliff" in listed
    assert "hosts.example.yaml" in listed


@pytest.mark.parametrize("name", ["how-to/find-the-cliff", "find-the-cliff", "docs/how-to/find-the-cliff.md"])
def test_a_page_is_printed_by_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", name]) == 0
    assert capsys.readouterr().out.startswith("# Find the cliff\n")


def test_the_example_inventory_can_be_copied(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", "hosts.example.yaml"]) == 0
    copy = f"{tmp_path}/mine.yaml"
    with open(copy, "w", encoding="utf-8") as file:
        file.write(capsys.readouterr().out)
    assert load_inventory(copy).pairs


def test_a_page_that_is_not_there_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", "find-the-clif"]) == 2
    assert "did you mean 'find-the-cliff'?" in capsys.readouterr().err


def test_a_short_name_is_the_page_that_a_newcomer_reads_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", "search"]) == 0
    short = capsys.readouterr().out
    assert run(["docs", "explanation/search"]) == 0
    assert short == capsys.readouterr().out
