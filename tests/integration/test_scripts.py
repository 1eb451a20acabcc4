"""Programs that a release needs and the quick tests do not run: each starts, and the longest does one round."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    path
    for path in [*ROOT.glob("scripts/acceptance/*.py"), *ROOT.glob("benchmarks/*.py")]
    if "__main__" in path.read_text()
)
OPTIONAL = {"fuzz": "atheris", "mutants": "cosmic_ray"}
"""Programs that need a package which the development environment lacks."""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_it_starts(program: Path) -> None:
    if program.stem in OPTIONAL:
        pytest.importorskip(OPTIONAL[program.stem])
    argv = [sys.executable, str(program), "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout.lower()


def test_a_hostile_directory_is_refused_by_every_command() -> None:
    argv = [sys.executable, str(ROOT / "scripts/acceptance/hostile_campaigns.py"), "--directories", "1"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 directories, 0 violations" in done.stdout
