"""Fake libibverbs and librdmacm, which deliver within the process."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def compiled(name: str, folder: Path) -> Path:
    """Return `tests/contract/fake_NAME.c` compiled into a folder; skip the test without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc): on Debian apt-get install gcc libc6-dev")
    made, headers = folder / f"{name}.so.1", ROOT / "collie" / "agent" / "native"
    argv = [compiler, "-std=gnu11", "-O1", "-fPIC", "-shared", f"-I{headers}", "-o", str(made)]
    subprocess.run([*argv, str(ROOT / "tests" / "contract" / f"fake_{name}.c")], check=True)
    return made
