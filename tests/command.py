"""The command line as a user runs it: in this process, which spares the start of another, or in one of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collie.cli.main import run

ARGV = (sys.executable, "-m", "collie")


@dataclass(frozen=True)
class Done:
    """What a command wrote."""

    stdout: str
    stderr: str


def collie(*words: str, cwd: Path, status: int = 0) -> Done:
    """Run a command in this process."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with chdir(cwd), redirect_stdout(stdout), redirect_stderr(stderr):
        code = run(list(words))
    done = Done(stdout.getvalue(), stderr.getvalue())
    assert code == status, f"{code}: {done.stdout}\n{done.stderr}"
    assert "unforeseen" not in done.stderr
    return done


def process(*words: str, cwd: Path, status: int = 0, seconds: float = 300.0) -> Done:
    """Run a command in a process of its own, where a hash of text is another and a signal ends no test."""
    done = subprocess.run([*ARGV, *words], cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == status, f"{done.returncode}: {done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return Done(done.stdout, done.stderr)


def answer(*words: str, cwd: Path, status: int = 0) -> dict[str, Any]:
    """Return the object that a command in this process prints."""
    parsed: dict[str, Any] = json.loads(collie(*words, "--format", "json", cwd=cwd, status=status).stdout)
    assert parsed["schema_version"] == 1
    return parsed
