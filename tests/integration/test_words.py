"""Words of the command line: names in any case, suggestions, errors as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collie.cli.main import run


def test_names_are_understood_in_any_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "--subsystem",
        "f-HEALTHY",
        "--fix",
        "qp_type=rc",
        "--fix",
        "direction=Bidirectional",
        "--max-rate",
        "900Gbps",
    ]
    assert run(["search", *words, "--budget", "2runs", "--campaign", "one"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serach"], "No such command 'serach'; did you mean 'search'?"),
        (["search", "--fix", "qpz=4"], "no dimension 'qpz'; did you mean 'qps'?"),
        (["search", "--set", "asc=disabled"], "has no setting 'asc'; did you mean 'acs'?"),
        (["search", "--space", "NSDI23"], "did you mean 'nsdi22'?"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("form", [["--format", "json"], ["--format=json"]])
@pytest.mark.parametrize("words", [["measure", "nope"], ["search", "--budget", "nothing"], ["status"]])
def test_an_error_is_json_where_the_output_is(
    words: list[str], form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, *form]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    error = json.loads(said.err)["error"]
    assert error["exit_code"] == 2
    assert error["message"]
    assert "\n" not in said.err.strip()
