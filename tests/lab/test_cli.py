"""The command line on real verbs: check, measure, search, a machine that dies, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from collie.lab import lab
from tests.command import ARGV, process
from tests.lab.conftest import RunningLab

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def runs_on_record(campaign: Path) -> int:
    try:
        with sqlite3.connect(f"file:{campaign / 'campaign.sqlite'}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])
    except sqlite3.Error:
        return 0


def our_queue_pairs(running_lab: RunningLab, name: str) -> list[dict[str, Any]]:
    displayed = json.loads(running_lab.run(name, "rdma -j resource show qp") or "[]")
    return [qp for qp in displayed if qp.get("type") != "GSI"]


def test_check_says_that_both_hosts_are_ready(running_lab: RunningLab, tmp_path: Path) -> None:
    done = process("hosts", "check", "--hosts", str(running_lab.inventory), "--format", "json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["ready"], found
    assert {finding["host"] for finding in found["findings"]} == {"lab-a", "lab-b", "lab-a,lab-b"}


def test_watch_shows_counters_of_both_hosts(running_lab: RunningLab, tmp_path: Path) -> None:
    words = ["counters", "watch", "--hosts", str(running_lab.inventory), "--seconds", "1", "--all", "--format", "json"]
    lines = [json.loads(line) for line in process(*words, cwd=tmp_path).stdout.splitlines()]
    assert {line["host"] for line in lines} == {"lab-a", "lab-b"}
    assert all("rcvd_pkts" in line["rates_per_second"] for line in lines)


@pytest.mark.acceptance
def test_a_search_survives_the_death_of_a_machine_and_goes_on_when_it_is_back(
    running_lab: RunningLab, tmp_path: Path
) -> None:
    words = ["search", "--hosts", str(running_lab.inventory), "--budget", "6runs", "--campaign", "c"]
    argv = [*ARGV, *words]
    searching = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 180
    while runs_on_record(tmp_path / "c") < 2:
        assert searching.poll() is None, searching.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    victim = next(one for one in lab.status(running_lab.state_dir).machines if one.name == "lab-b")
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    _, stderr = searching.communicate(timeout=120)
    assert searching.returncode == 3, stderr
    assert "lab-b" in stderr
    assert "--resume c" in stderr
    assert "Traceback" not in stderr
    kept = runs_on_record(tmp_path / "c")
    assert kept >= 2
    assert our_queue_pairs(running_lab, "lab-a") == []

    lab.up(state_dir=running_lab.state_dir)
    resumed = json.loads(process("search", "--resume", "c", "--format", "json", cwd=tmp_path).stdout)
    assert resumed["runs"] == 6
    assert runs_on_record(tmp_path / "c") == 6
    for name in ("lab-a", "lab-b"):
        assert our_queue_pairs(running_lab, name) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("host_key: ssh-ed25519 AAAA", "host_key: ssh-ed25519 AAAB"), "no such key"),
        (("device: rxe0", "device: rxe7"), "no RDMA device rxe7"),
        (("python: /usr/bin/python3", "python: /usr/bin/true"), "python"),
    ],
)
def test_a_wrong_inventory_is_one_clear_message(
    running_lab: RunningLab, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    text = running_lab.inventory.read_text()
    assert change[0] in text
    (tmp_path / "hosts.yaml").write_text(text.replace(*change, 1))
    argv = [*ARGV, "search", "--hosts", "hosts.yaml", "--budget", "1runs", "--campaign", "c"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in {2, 3}
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "c").exists()


def test_an_unknown_host_key_is_refused(running_lab: RunningLab, tmp_path: Path) -> None:
    lines = running_lab.inventory.read_text().splitlines()
    keys = [line for line in lines if "host_key:" in line]
    swapped = [keys[1] if line == keys[0] else line for line in lines]
    (tmp_path / "hosts.yaml").write_text("\n".join(swapped))
    done = process("search", "--hosts", "hosts.yaml", "--budget", "1runs", cwd=tmp_path, status=3, seconds=60)
    assert "lab-a" in done.stderr
    assert "change host_key" in done.stderr
    assert not (tmp_path / "campaigns").exists()
