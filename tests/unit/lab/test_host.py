"""Locks and commands of the host that runs the lab."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from collie.errors import LabError
from collie.lab import host


def test_a_lock_waits_and_then_says_who_to_look_for(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    said: list[str] = []
    with (
        host.locked(lock, timeout_seconds=1, what="the lab", say=said.append),
        pytest.raises(LabError, match="busy in another process"),
        host.locked(lock, timeout_seconds=0.3, what="the lab", say=said.append),
    ):
        pass
    assert len(said) == 1
    with host.locked(lock, timeout_seconds=0.3, what="the lab", say=said.append):
        pass
    assert len(said) == 1


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(LabError, match="did not end within"):
        host.run_logged(("sh", "-c", "sleep 60 & echo $!; wait"), log=log, directory=tmp_path, timeout_seconds=2)
    child = int(log.read_text())
    deadline = time.monotonic() + 10
    while runs(child) and time.monotonic() < deadline:  # the kernel takes a moment to end what was killed
        time.sleep(0.05)
    assert not runs(child)


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def test_lines_of_a_command_are_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    status = host.run_logged(
        ("sh", "-c", "echo one; echo two >&2; sleep 0.3; exit 3"),
        log=tmp_path / "log",
        directory=tmp_path,
        timeout_seconds=20,
        on_line=lines.append,
    )
    assert status == 3
    assert lines == ["one", "two"]
