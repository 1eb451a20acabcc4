"""`collie list`, and `last` in the place of a campaign."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from collie.cli.main import run
from collie.report.terminal.table import table_with_text


def search(campaign: str, runs: int = 3) -> None:
    assert run(["search", "--budget", f"{runs}runs", "--campaign", campaign]) == 0


def touch(campaign: Path, seconds: float) -> None:
    """Let a campaign have been recorded so long after the epoch."""
    for name in ("campaign.sqlite", "campaign.sqlite-wal"):
        if (campaign / name).exists():
            os.utime(campaign / name, (seconds, seconds))


@pytest.fixture(autouse=True)
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two campaigns. The one that began first recorded a run last."""
    monkeypatch.chdir(tmp_path)
    search("campaigns/b", 2)
    search("nightly/a", 3)
    touch(Path("campaigns/b"), 2e9)
    touch(Path("nightly/a"), 1e9)
    capsys.readouterr()


def test_campaigns_are_listed_in_the_order_in_which_they_began(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list"]) == 0
    heads, *rows = capsys.readouterr().out.splitlines()
    assert heads.split() == ["campaign", "began", "state", "on", "runs", "time", "findings"]
    assert [row.split()[0] for row in rows] == ["campaigns/b", "nightly/a"]
    assert all("  ended  " in row and "simulated subsystem F" in row and row.endswith("none") for row in rows)
    assert not any(line.endswith(" ") for line in (heads, *rows))


def test_campaigns_on_changed_settings_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "--budget", "1runs", "--campaign", "new", "--set", "firmware=22.31"]) == 0
    capsys.readouterr()
    assert run(["list"]) == 0
    (row,) = (row for row in capsys.readouterr().out.splitlines() if row.startswith("new"))
    assert "simulated subsystem F (firmware=22.31)" in row
    assert run(["status", "new"]) == 0
    assert "simulated subsystem F (firmware=22.31), space nsdi22" in capsys.readouterr().out


def test_the_worst_names_what_its_severity_is_a_share_of(capsys: pytest.CaptureFixture[str]) -> None:
    search("third", 100)
    capsys.readouterr()
    for words in (["list"], ["status", "third"]):
        assert run(words) == 0
        worst = re.search(r"worst a\d+[:,] ([a-z ]+), [\d.]+% (of|below) the [a-z]+", capsys.readouterr().out)
        assert worst is not None, words


def test_on_a_narrow_terminal_the_findings_stand_below() -> None:
    rows = [("campaign", "on", "findings"), ("a" * 40, "hosts x,y", "3, 2 explained; worst a1: pause, 92%")]
    assert list(table_with_text(rows, 70)) == [
        f"{'campaign':40} on",
        "    findings",
        f"{'a' * 40} hosts x,y",
        "    3, 2 explained; worst a1: pause, 92%",
    ]
    assert max(map(len, table_with_text(rows))) == 40 + 2 + 9 + 2 + len(rows[1][2])


def test_a_list_as_json_has_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "nightly", "--format", "json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["campaigns"]
    assert (only["directory"], only["state"], only["runs"], only["anomalies"]) == ("nightly/a", "ended", 3, 0)
    assert only["worst"] is None


def test_a_record_that_cannot_be_read_is_listed_with_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken").mkdir()
    Path("broken/campaign.sqlite").write_text("no database")
    assert run(["list"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("broken: ")
    assert run(["list", "broken", "--format", "json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["campaigns"]
    assert set(only) == {"directory", "error"}


def test_hidden_folders_and_what_lies_inside_campaigns_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("campaigns").rename(".old")
    Path("nightly/a/copy").mkdir()
    Path("nightly/a/copy/campaign.sqlite").write_bytes(Path("nightly/a/campaign.sqlite").read_bytes())
    assert run(["list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_an_empty_folder_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    assert run(["list", "empty"]) == 0
    assert "begin one with: collie search" in capsys.readouterr().out
    assert run(["list", "nowhere"]) == 2


@pytest.mark.parametrize("words", [["status", "last"], ["runs", "last", "--format", "jsonl"]])
def test_last_is_the_campaign_that_recorded_a_run_last(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 0
    first = capsys.readouterr().out
    assert run([words[0], "campaigns/b", *words[2:]]) == 0
    assert first.splitlines()[1:] == capsys.readouterr().out.splitlines()[1:]
    touch(Path("nightly/a"), 3e9)
    assert run(words) == 0
    assert capsys.readouterr().out != first


def test_a_record_that_is_not_there_any_more_does_not_hinder_last(capsys: pytest.CaptureFixture[str]) -> None:
    Path("dangling").mkdir()
    Path("dangling/campaign.sqlite").symlink_to("nowhere")
    assert run(["status", "last"]) == 0
    assert capsys.readouterr().out.startswith("campaigns/b: ")


def test_last_names_the_campaign_of_an_anomaly(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "last/a1"]) != 0
    assert "campaign campaigns/b has no anomaly 'a1'" in capsys.readouterr().err


def test_a_campaign_without_anomalies_offers_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "last"]) == 2
    assert capsys.readouterr().err == "collie: campaigns/b is a campaign that has found no anomaly\n"


def test_a_campaign_that_is_called_last_is_meant_by_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    search("last", 5)
    touch(Path("last"), 1.0)
    capsys.readouterr()
    assert run(["status", "last", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 5


def test_without_a_campaign_last_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none").mkdir()
    monkeypatch.chdir(tmp_path / "none")
    assert run(["status", "last"]) == 2
    assert "no campaign below this folder that `last` could mean" in capsys.readouterr().err


def test_last_is_a_search_and_no_gate(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gate", "--baseline", "last", "--budget", "2m", "--campaign", "campaigns/gate"]) in (1, 4)
    touch(Path("campaigns/gate"), 4e9)
    capsys.readouterr()
    assert run(["status", "last"]) == 0
    assert capsys.readouterr().out.startswith("campaigns/b: ")


def test_a_gate_is_listed_with_the_runs_and_the_time_of_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gate", "--baseline", "nightly/a", "--budget", "20m", "--campaign", "new", "--format", "json"]
    assert run(words) in (1, 4)
    said = json.loads(capsys.readouterr().out)
    both = f"{said['candidate_runs']} + {said['baseline_runs']}"
    assert said["baseline_runs"] > 0
    assert run(["list", "new"]) == 0
    assert f"  {both}  " in capsys.readouterr().out.splitlines()[-1]
    assert run(["status", "new"]) == 0
    runs = f"  runs   {said['candidate_runs']} of the candidate and {said['baseline_runs']} of the baseline, "
    assert runs in capsys.readouterr().out
    for command in ("list", "status"):
        assert run([command, "new", "--format", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        found = answer["campaigns"][0] if command == "list" else answer
        assert (found["runs"], found["baseline_runs"]) == (said["candidate_runs"], said["baseline_runs"])
        assert found["elapsed_seconds"] == pytest.approx(said["elapsed_seconds"])


def test_an_anomaly_without_its_campaign_is_told_how_to_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "a14"]) == 2
    assert "name that, too, as in last/a14 or CAMPAIGN/a14" in capsys.readouterr().err
