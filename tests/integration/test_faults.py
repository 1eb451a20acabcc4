"""Faults that strike: what is left of a campaign, and what people are told. Hours of it: docs/evidence/faults.md."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from collie.cli.logs import logged_to
from collie.cli.main import main, run
from tests.command import collie
from tests.integration.signals import heed_interrupts
from tests.support.faults.kills import SearchCourse, killed_and_resumed, uninterrupted
from tests.support.faults.pretended import INVENTORY

SECONDS = 120.0


@pytest.mark.slow
@pytest.mark.parametrize("phases", [1, 8])
def test_a_search_of_pairs_that_is_killed_while_it_starts_and_while_it_runs_ends_as_if_it_had_not_been(
    tmp_path: Path, phases: int
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"strategy: guided\nphases: {phases}\n")
    words = (
        *("search", "--seed", "1", "--budget", "40runs", "--pairs", "2", "--recipe", str(recipe)),
        *("--campaign", "c", "--format", "json"),
    )
    whole = uninterrupted(SearchCourse(words), tmp_path / "whole", SECONDS)
    instants = [share * whole.cpu_seconds for share in (0.3, 0.7, 0.8)]
    killed = killed_and_resumed(SearchCourse(words), tmp_path / "killed", instants, whole, SECONDS)
    assert killed.landed
    assert killed.differences == ()


def test_a_log_on_a_full_disk_fills_no_screen_with_tracebacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("collie")
    with logged_to(tmp_path), open("/dev/full", "w") as full_disk:
        (handler,) = (each for each in logger.handlers if isinstance(each, logging.StreamHandler))
        os.dup2(full_disk.fileno(), handler.stream.fileno())
        logger.warning("status.json cannot be written")
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_whoever_stops_reading_the_progress_ends_no_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = [sys.executable, "-m", "collie", "search", "--seed", "1", "--budget", "70runs", "--campaign", "c"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.close()  # before its first anomaly, in run 55
        assert process.wait(SECONDS) == 0
    assert run(["status", "c", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["state"], said["runs"]) == ("ended", 70)
    assert said["anomalies"], "of which something had been said"


@pytest.fixture
def shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A campaign of eleven runs whose record has lost the last four."""
    monkeypatch.chdir(tmp_path)
    assert run(["search", "--seed", "1", "--budget", "11runs", "--campaign", "c"]) == 0
    with closing(sqlite3.connect("c/campaign.sqlite")) as connection, connection:
        connection.execute("DELETE FROM runs WHERE run > 7")
    capsys.readouterr()
    return tmp_path / "c"


def test_runs_that_are_on_record_no_more_are_counted_and_made_again(
    shortened: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (shortened / "results.jsonl").read_text()
    assert run(["status", "c", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["lost_runs"] == 4
    assert run(["status", "c"]) == 0
    assert "lost   4 runs that the last process told of are on record no more" in capsys.readouterr().out
    assert run(["search", "--resume", "c"]) == 0
    assert "4 runs that the last process told of" in capsys.readouterr().err
    assert "4 runs that the last process told of" in (shortened / "log" / "collie.log").read_text()
    assert (shortened / "results.jsonl").read_text() == whole
    assert run(["status", "c"]) == 0
    assert "on record no more" not in capsys.readouterr().out


def test_a_damaged_record_is_said_to_be_damaged_with_what_can_be_done(
    shortened: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = shortened / "campaign.sqlite"
    os.truncate(database, database.stat().st_size // 2)
    for words in (["status", "c"], ["search", "--resume", "c"]):
        assert run(words) == 2
        said = capsys.readouterr().err
        assert "replace it by a backup, or begin a new campaign" in said
        assert "results.jsonl has the runs up to the last orderly end" in said


def test_what_cannot_be_written_in_the_end_is_told_after_what_was_done_to_the_network(tmp_path: Path) -> None:
    words = ("search", "--seed", "1", "--max-pause", "1h", "--campaign", "c")
    collie(*words, "--budget", "3runs", cwd=tmp_path)
    in_the_way = tmp_path / "c" / "results.jsonl"
    in_the_way.unlink()
    in_the_way.mkdir()
    said = collie("search", "--resume", "c", "--budget", "5runs", cwd=tmp_path, status=3).stderr
    assert "collie: c/results.jsonl cannot be written: Is a directory" in said
    assert "resume with: collie search --resume c" in said
    assert "pause sent: " in said
    in_the_way.rmdir()
    collie("search", "--resume", "c", cwd=tmp_path)
    assert len(in_the_way.read_text().splitlines()) == 5


def test_a_failing_file_system_is_reported_once(tmp_path: Path) -> None:
    collie("search", "--seed", "1", "--budget", "3runs", "--campaign", "c", cwd=tmp_path)
    (tmp_path / "c" / "anomalies").write_text("")  # the first is confirmed in run 55
    (tmp_path / "c" / "results.jsonl").unlink()
    (tmp_path / "c" / "results.jsonl").mkdir()
    said = collie("search", "--resume", "c", "--budget", "70runs", cwd=tmp_path, status=3).stderr
    assert "collie: c/anomalies/a1 cannot be written: c/anomalies: Not a directory" in said
    assert said.count("cannot be written") == 1


class _Impatient(io.StringIO):
    """A terminal at which somebody presses Ctrl-C as soon as something is written."""

    def write(self, text: str) -> int:
        raise KeyboardInterrupt


@pytest.mark.usefixtures("heeded")
def test_an_interrupt_while_something_is_said_is_exit_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", _Impatient())
    with pytest.raises(SystemExit) as ended:
        main(["search", "--no-such-option"])
    assert ended.value.code == 130


TWICE = """
import atexit, os, signal, sys, time
from pathlib import Path
from collie.cli.main import main
from tests.support.faults.pretended import testbed_of
from collie import wiring

number = int(sys.argv[1])

def hosts_testbed(choice, pair, policy=None):
    testbed = testbed_of(pair, Path("."))
    measure, close = testbed.measure, testbed.close

    def interrupted(*arguments, **more):
        os.kill(os.getpid(), number)
        time.sleep(60)

    def closed():
        os.kill(os.getpid(), number)
        time.sleep(0.2)
        left = close()
        print("left", left, file=sys.stderr)
        return left

    testbed.measure, testbed.close = interrupted, closed
    return testbed

wiring.hosts_testbed = hosts_testbed
atexit.register(lambda: os.kill(os.getpid(), number))
main(["search", "--hosts", "hosts.yaml", "--budget", "5runs", "--campaign", "c"])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interrupt_leaves_the_clean_up_and_the_exit_code_alone(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text(INVENTORY.format(python=sys.executable))
    argv = [sys.executable, "-c", TWICE, str(int(number))]
    done = subprocess.run(
        argv, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False, preexec_fn=heed_interrupts
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "cleaning up; once more ends it at once" in done.stderr
    assert "interrupted; resume with: collie search --resume c" in done.stderr
    assert "left {'left': 0, 'right': 0}" in done.stderr
    assert json.loads((tmp_path / "c" / "status.json").read_text())["state"] == "interrupted"


def _children(pid: int) -> set[int]:
    found = (path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return {int(child) for text in found for child in text.split()}


def test_a_controller_that_stood_still_goes_on_with_new_agents(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text(INVENTORY.format(python=sys.executable))
    words = ["search", "--hosts", "hosts.yaml", "--seed", "1", "--budget", "10runs", "--campaign", "c"]
    argv = [sys.executable, "-m", "tests.support.faults.pretended", ".", *words]
    log, deadline = tmp_path / "c" / "log" / "collie.log", time.monotonic() + SECONDS
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as search:
        while not (tmp_path / "left" / "asked").exists() or "start" not in (tmp_path / "left" / "asked").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        search.send_signal(signal.SIGSTOP)
        for agent in _children(search.pid):  # as their lease would end them
            os.kill(agent, signal.SIGKILL)
        search.send_signal(signal.SIGCONT)
        _, said = search.communicate(timeout=SECONDS)
    assert search.returncode == 0, said
    assert re.search(r"run \d+, attempt 1 of 2: host (left|right): ", log.read_text())
    assert len((tmp_path / "c" / "results.jsonl").read_text().splitlines()) == 10
