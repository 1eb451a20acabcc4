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


def test_a_dry_run_is_a_plan_to_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "--dry-run", "--budget", "1h", "--seed", "3", "--known", "nsdi22", "--phases", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "testbed  simulated subsystem F"
    assert "recipe   guided, strategy guided, a set-up for each run" in lines
    assert "budget   1.0 h, seed 3; tests 18 known anomalies first" in lines
    first = lines.index("first workloads, as differences from plain traffic") + 1
    assert len(lines[first:]) == 5
    assert all(line.startswith("    ") for line in lines[first:])
    assert not any("direction" in line for line in lines[first:])  # plain in all of them
