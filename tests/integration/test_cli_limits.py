"""Limits, pairs and changed hardware on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command import answer, collie
from tests.support.command_lines import without_wall_time


def test_several_pairs_search_one_campaign_that_resumes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    words = ["search", "--subsystem", "F", "--seed", "1", "--pairs", "3"]
    whole = answer(*words, "--budget", "60runs", "--campaign", "whole", cwd=tmp_path)
    assert (whole["pairs"], whole["pairs_set_aside"], whole["runs"]) == (3, {}, 60)
    answer(*words, "--budget", "45runs", "--campaign", "half", cwd=tmp_path)
    extended = answer("search", "--resume", "half", "--budget", "60runs", cwd=tmp_path)
    assert without_wall_time(extended) == without_wall_time(whole)
    assert not caplog.messages
    answer("search", "--resume", "half", "--budget", "40m", cwd=tmp_path)
    assert caplog.messages == ["the budget of half was 60 runs and is now 40 min in all"]
    answer("search", "--resume", "half", "--budget", "45m", cwd=tmp_path)
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_campaign_of_several_pairs_that_used_its_time_is_resumed(seed: str, tmp_path: Path) -> None:
    words = ["search", "--subsystem", "F", "--seed", seed, "--pairs", "4", "--budget", "20m", "--campaign", "c"]
    whole = answer(*words, cwd=tmp_path)
    for more in ([], ["--budget", "20m"]):  # its last runs end together, beyond the budget
        again = answer("search", "--resume", "c", *more, cwd=tmp_path)
        assert without_wall_time(again) == without_wall_time(whole)
    less = collie("search", "--resume", "c", "--budget", "19m", cwd=tmp_path, status=2)
    assert "budget 19 min is less than the campaign has used" in less.stderr


def test_more_pairs_than_the_inventory_forms_are_refused(tmp_path: Path) -> None:
    hosts = Path(__file__).parents[2] / "hosts.example.yaml"
    done = collie("search", "--dry-run", "--hosts", str(hosts), "--pairs", "9", cwd=tmp_path, status=2)
    assert "--pairs 9: the inventory names" in done.stderr


def test_a_dry_run_names_hosts_limits_and_first_workloads(tmp_path: Path) -> None:
    hosts = Path(__file__).parents[2] / "hosts.example.yaml"
    plan = answer("search", "--dry-run", "--hosts", str(hosts), "--max-pause", "20s", cwd=tmp_path)
    assert plan["hosts"] == {
        "server-1": "mgmt-1.example.com, device mlx5_0",
        "server-2": "mgmt-2.example.com, device mlx5_0",
    }
    assert plan["safety"] == {
        "--max-pause-per-second": "200 ms",
        "--max-pause": "20 s",
        "--max-rate": "no limit",
    }
    again = answer("search", "--dry-run", "--hosts", str(hosts), cwd=tmp_path)
    assert plan["first_workloads"] == again["first_workloads"]
    assert len(plan["first_workloads"]) == 5
    assert not list(tmp_path.iterdir())


def test_a_limit_looser_than_the_sites_is_refused(tmp_path: Path) -> None:
    hosts = Path(__file__).parents[2] / "hosts.example.yaml"
    done = collie("search", "--dry-run", "--hosts", str(hosts), "--max-pause", "3h", cwd=tmp_path, status=2)
    assert "--max-pause 3.0 h is more than the 2 min that this site allows" in done.stderr


@pytest.mark.parametrize(("option", "value"), [("--max-pause", "soon"), ("--max-rate", "0bit")])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, option: str, value: str) -> None:
    assert option in collie("measure", "nsdi22-01", option, value, cwd=tmp_path, status=2).stderr


def test_a_storm_beyond_its_limit_is_stopped_and_is_an_anomaly(tmp_path: Path) -> None:
    measured = answer("measure", "nsdi22-01", "--max-pause-per-second", "100ms", cwd=tmp_path)
    assert "--max-pause-per-second" in measured["measurement"]["stopped"]
    assert measured["verdict"]["symptom"] == "pause"
    assert measured["safety"]["stopped_runs"] == 1
    assert measured["safety"]["queue_pairs_left"] == {}


def test_a_search_whose_runs_were_mostly_stopped_does_not_read_like_a_clean_one(tmp_path: Path) -> None:
    words = ["search", "--subsystem", "F", "--seed", "3", "--budget", "15runs"]
    stopped = collie(*words, "--max-rate", "1Gbit", "--campaign", "slow", cwd=tmp_path).stdout
    assert re.search(r"stopped at a safety limit: \d+ of \d+ measured runs\. Only pause is judged", stopped)
    assert "look further" not in stopped, "more of the same runs find nothing"
    assert "safety limit" not in collie(*words, "--max-rate", "900Gbit", "--campaign", "fast", cwd=tmp_path).stdout


def test_a_spent_pause_budget_ends_a_search_that_can_go_on(tmp_path: Path) -> None:
    words = ["search", "--subsystem", "F", "--seed", "1", "--budget", "1h", "--campaign", "c", "--max-pause", "4s"]
    first = answer(*words, cwd=tmp_path)
    assert first["safety"]["ended_by"] == "pause budget"
    again = answer("search", "--resume", "c", "--max-pause", "1h", cwd=tmp_path)
    assert again["safety"]["ended_by"] == "budget"
    assert again["runs"] > first["runs"]
    assert again["safety"]["pause_seconds"] > first["safety"]["pause_seconds"] >= 4.0


def test_a_reproduction_whose_pause_budget_is_spent_reports_its_runs(tmp_path: Path) -> None:
    words = ["reproduce", "nsdi22-01", "--repeat", "50", "--controls", "--max-pause", "3s"]
    found = answer(*words, cwd=tmp_path, status=3)
    assert 0 < len(found["verdicts"]) < 50
    assert found["ended_by"] == "the pause budget is spent"
    assert "not all runs were made: the pause budget is spent" in collie(*words, cwd=tmp_path, status=3).stdout


@pytest.mark.parametrize(
    "words",
    [
        ["report", "one", "-o"],
        ["runs", "one", "-o"],
        ["export", "nsdi22-08", "-o"],
        ["fleet", "-o"],
        ["gate", "--baseline", "one", "--junit"],
        ["gate", "--baseline", "one", "--markdown"],
    ],
)
def test_no_output_is_named_as_a_dash(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "campaign.sqlite").touch()
    refused = collie(*words, "-", cwd=tmp_path, status=2)
    assert refused.stderr == f"collie: {words[-1]} - is no file; name /dev/stdout for standard output\n"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
