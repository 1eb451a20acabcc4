"""Seeds and results of long scripts: plain objects, one a line, so that a killed script goes on where it was."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Result = Mapping[str, Any]


def read_results(path: Path) -> list[Result]:
    """Return the whole lines of a file of results. The last line of a killed script can be cut."""
    results = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            results.append(json.loads(line))
        except ValueError:
            continue
    return results


def append(path: Path, result: Result) -> None:
    """Add a line, after the end of a cut one."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(result).encode() + b"\n")


def parse_seeds(text: str) -> list[int]:
    """Read `1-20`, `3` or `1,5,7-9`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def last_commit(root: Path, depends_on: Sequence[str]) -> str:
    """Return the last commit that changed what a result depends on, marked if the files differ from it.

    Outside of a repository it is `unknown`.
    """

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *words, "--", *depends_on], capture_output=True, check=True)
        return done.stdout.decode().strip()

    try:
        return git("log", "-1", "--format=%h", "--abbrev=10") + ("-changed" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
