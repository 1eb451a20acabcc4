"""Folders and programs of a lab that does not run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collie.lab import spec


@pytest.fixture
def state(tmp_path: Path) -> spec.StateDir:
    return spec.StateDir(tmp_path)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is run in place of `ssh`; the test writes it."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


@pytest.fixture
def impostor() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start processes whose command line is given and that only sleep."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str) -> subprocess.Popen[bytes]:
        program = "import time; print('up', flush=True); time.sleep(60)"
        process = subprocess.Popen(
            [argv[0], "-c", program, *argv[1:]], executable=sys.executable, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
