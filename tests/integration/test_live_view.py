"""What a person sees while a search runs on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

ARGV = [sys.executable, "-m", "collie", "search", "--recipe", "nsdi22", "--budget", "8runs", "--seed", "1"]
_COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|9)\d(?:;\d+)*m")


def on_a_terminal(folder: Path, **variables: str) -> str:
    """Return what a search writes to a terminal."""
    mine, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **variables}
    process = subprocess.Popen(
        [*ARGV, "--campaign", str(folder / "one")],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    while chunk := _read(mine):
        written += chunk
    os.close(mine)
    assert process.wait() == 0
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}], ids=["colours", "no colours"])
def test_a_terminal_shows_a_view_that_is_taken_down(tmp_path: Path, variables: dict[str, str]) -> None:
    written = on_a_terminal(tmp_path, **variables)
    assert "\x1b[2K" in written, "nothing was drawn over"
    assert "of 8 runs" in written
    assert written.rfind("\x1b[?25h") > written.rfind("\x1b[?25l"), "the cursor stays hidden"
    assert bool(_COLOUR.search(written)) is not bool(variables)
