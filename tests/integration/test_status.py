"""A campaign watched from elsewhere while a process of its own runs it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collie.app import campaigns
from collie.app.pulse import Pulse
from collie.campaign.choice import SearchChoice
from collie.campaign.events import SuspicionDropped
from collie.cli.main import run
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.ports import SetupFailed
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import measured, phase
from collie.wiring import ADAPTERS
from tests.integration.signals import heed_interrupts

_RUNS = 3


@pytest.fixture
def search(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A search of campaign `one` that is under way and would take long; ended with the test."""
    argv = [
        sys.executable,
        "-m",
        "collie",
        "search",
        "--budget",
        "100h",
        "--campaign",
        "one",
        "--prometheus",
        "one.prom",
    ]
    null = subprocess.DEVNULL
    process = subprocess.Popen(argv, cwd=tmp_path, stdout=null, stderr=null, preexec_fn=heed_interrupts)
    deadline = time.monotonic() + 60
    while not (tmp_path / "one" / "status.json").exists():
        assert process.poll() is None, "the search ended"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield process
    process.kill()
    process.wait()


def status(capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["status", "one", "--format", "json"]) == code
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def metric(path: Path, name: str) -> float:
    samples = [s for family in text_string_to_metric_families(path.read_text()) for s in family.samples]
    return next(sample.value for sample in samples if sample.name == name)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def wait_for_runs(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while (found := status(capsys))["runs"] < _RUNS:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_a_running_campaign_is_seen_and_its_death_noticed(
    search: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = wait_for_runs(capsys)
    assert (found["state"], found["process"]["pid"]) == ("running", search.pid)
    assert metric(tmp_path / "one.prom", "collie_campaign_running") == 1
    search.kill()
    search.wait()
    _let_time_pass(tmp_path / "one" / "status.json")
    died = status(capsys, code=3)
    assert died["state"] == "died"
    assert died["runs"] >= found["runs"]
    assert run(["status", "one", "--prometheus", "one.prom"]) == 3
    assert "go on  collie search --resume one" in capsys.readouterr().out
    assert metric(tmp_path / "one.prom", "collie_campaign_running") == 0
    assert metric(tmp_path / "one.prom", "collie_runs_total") == died["runs"]


def _let_time_pass(path: Path) -> None:
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "updated": "2026-01-01T00:00:00Z"}))


def test_an_interrupted_campaign_says_so_and_its_runs_can_be_listed(
    search: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for_runs(capsys)
    os.kill(search.pid, signal.SIGINT)
    assert search.wait(timeout=60) == 130
    found = status(capsys)
    assert found["state"] == "interrupted"
    capsys.readouterr()
    assert run(["runs", "one", "--format", "jsonl", "-o", "again.jsonl"]) == 0
    assert Path("again.jsonl").read_text() == Path("one/results.jsonl").read_text()
    assert run(["runs", "one", "--format", "csv", "--last", "2", "-o", "two.csv"]) == 0
    with Path("two.csv").open(newline="") as file:
        assert [int(row["run"]) for row in csv.DictReader(file)] == [found["runs"] - 1, found["runs"]]
    assert run(["runs", "one", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == found["runs"]
    assert run(["runs", "one"]) == 0
    assert "search" in capsys.readouterr().out


def test_a_terminal_gets_the_last_failure_in_whole_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    campaigns.begin(ADAPTERS, SearchChoice(budget="5runs"), Path("one")).close()
    detail = "a queue pair did not reach ready-to-send in time, and neither did any of its neighbours"
    with SqliteStore.open(Path("one")) as store:
        store.add_run(replace(measured(1), result=SetupFailed("qp timeout", detail, 20.0)))
    assert run(["status", "one"]) == 0
    piped = capsys.readouterr().out
    assert "  failed last in run 1: set-up failed: qp timeout: " in piped
    assert detail in piped
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(["status", "one"]) == 0
    wrapped = capsys.readouterr().out
    assert max(map(len, wrapped.splitlines())) <= 80
    assert detail.split()[-1] in wrapped.split()


@pytest.mark.parametrize(
    ("text", "words", "error"),
    [
        (None, "one: state unknown: status.json is missing", None),
        (
            '{"schema_version": 1, "sta',
            "one: state unknown: status.json is damaged",
            "one/status.json cannot be read: ",
        ),
    ],
)
def test_without_a_last_status_the_record_is_shown(
    text: str | None, words: str, error: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    campaigns.begin(ADAPTERS, SearchChoice(budget="5runs"), Path("one")).close()
    with SqliteStore.open(Path("one")) as store:
        for run_number in (1, 2, 3):
            store.add_run(measured(run_number))
    assert not Path("one/status.json").exists()
    if text is not None:
        Path("one/status.json").write_text(text)
    found = status(capsys)
    assert (found["state"], found["runs"]) == ("unknown", 3)
    assert str(found["error"]).startswith(str(error))
    assert run(["status", "one"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == words
    assert "  runs   3, 0 of them failed" in lines
    assert any(line.startswith(f"  damage {error}") for line in lines) is (error is not None)


def test_an_ended_search_without_an_anomaly_tells_of_its_suspicions(capsys: pytest.CaptureFixture[str]) -> None:
    opened = campaigns.begin(ADAPTERS, SearchChoice(budget="5runs"), Path("one"))
    with Pulse(ADAPTERS, Path("one"), opened.store.header) as pulse:
        for number, shows in ((22, 2), (23, 0), (24, 1)):
            verdict = Verdict(Outcome.ANOMALOUS, "host b is slow", Symptom.LOW_THROUGHPUT, 0.5, "b")
            pulse.follower.on_event(SuspicionDropped(number, verdict, shows, 12))
        assert run(["status", "one"]) == 0
        assert "  found  no anomaly yet\n" in capsys.readouterr().out
        pulse.ended_by = "budget"
    opened.close()
    assert status(capsys)["unconfirmed"] == 2
    assert run(["status", "one"]) == 0
    assert "  found  no anomaly; 2 suspicions not confirmed\n" in capsys.readouterr().out


def test_measurements_are_told_from_set_ups(capsys: pytest.CaptureFixture[str]) -> None:
    campaigns.begin(ADAPTERS, SearchChoice(budget="5runs"), Path("one")).close()
    with SqliteStore.open(Path("one")) as store:
        for record in (measured(1), phase(2, 2), phase(3, 2), phase(4, 2), phase(5, 5)):
            store.add_run(record)
    found = status(capsys)
    assert (found["runs"], found["set_ups"], found["further_phases"]) == (5, 3, 2)
    assert run(["status", "one"]) == 0
    assert "phases 1.7 runs on each of 3 set-ups" in capsys.readouterr().out
    assert run(["runs", "one"]) == 0
    table = capsys.readouterr().out
    assert "3 on 2" in table
    assert "1 on 2" not in table, "that is the run that made it"
    assert run(["runs", "one", "--last", "2", "--format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["run"], line["set_up"], line["phase"]) for line in lines] == [(4, 2, 3), (5, 5, 1)]


def test_a_file_of_runs_has_the_format_of_its_name_and_a_table_says_what_it_leaves_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    campaigns.begin(ADAPTERS, SearchChoice(budget="5runs"), Path("one")).close()
    with SqliteStore.open(Path("one")) as store:
        for number in range(1, 26):
            store.add_run(measured(number))
    for name in ("all.csv", "all.json", "all.JSONL", "table.txt"):
        assert run(["runs", "one", "-o", name]) == 0
    with Path("all.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 25
    assert len(json.loads(Path("all.json").read_text())["runs"]) == 25
    assert len([json.loads(line) for line in Path("all.JSONL").read_text().splitlines()]) == 25
    assert run(["runs", "one"]) == 0
    table = capsys.readouterr().out
    assert table == Path("table.txt").read_text()
    assert table.splitlines()[-1] == "the last 20 of 25 runs"
    assert run(["runs", "one", "--last", "25", "--format", "text", "-o", "chosen.csv"]) == 0
    assert len(Path("chosen.csv").read_text().splitlines()) == 26, "a head, and nothing is left out"


def test_a_search_says_on_how_many_set_ups_it_measured(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("strategy: guided\nphases: 8\n")
    words = ["search", "--seed", "1", "--recipe", "mine.yaml", "--budget", "40runs", "--campaign", "one"]
    assert run([*words, "--format", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    lines = [json.loads(line) for line in Path("one/results.jsonl").read_text().splitlines()]
    assert summary["runs"] == len(lines) == 40
    assert summary["set_ups"] == len({line["set_up"] for line in lines}) < 40
    assert status(capsys)["set_ups"] == summary["set_ups"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["status", "nothing"], "holds no campaign"),
        (["runs", "nothing"], "holds no campaign"),
        (["search", "--budget", "5runs", "--prometheus", "x.txt"], "end in .prom"),
        (["search", "--budget", "5runs", "--prometheus", "no/x.prom"], "no directory no"),
    ],
)
def test_bad_input_is_named(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert message in capsys.readouterr().err


def test_an_interrupted_search_prints_what_it_found_and_writes_the_report(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "collie", "search", "--budget", "100h", "--campaign", "two"]
    process = subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "two" / "anomalies" / "a1").exists():
        assert process.poll() is None, "the search ended"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 130
    lines = out.splitlines()
    assert " on simulated subsystem F in " in lines[0]
    assert any(line.startswith("a1 ") for line in lines)
    assert "  collie search --resume two  " in out
    assert "go on, because the search was interrupted" in out
    assert (tmp_path / "two" / "report.html").exists()
    assert said.splitlines()[-1] == "interrupted; resume with: collie search --resume two"
    assert json.loads((tmp_path / "two" / "status.json").read_text())["state"] == "interrupted"


def test_an_interrupted_search_reports_its_end_as_json(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "collie", "search", "--budget", "100h", "--campaign", "two", "--format", "json"]
    process = subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "two" / "fingerprint").exists():
        assert process.poll() is None, "the search ended"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _out, said = process.communicate(timeout=60)
    assert process.returncode == 130
    error = json.loads(said.splitlines()[-1])["error"]
    assert error["exit_code"] == 130
    assert "interrupted" in error["message"]
