"""Commands whose reader leaves: `collie ... | head`, a closed pager."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collie.streams import is_unread, outlive_readers
from tests.command import process


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_leaves_changes_neither_exit_code_nor_files(stream: str, tmp_path: Path) -> None:
    page, (read, write) = tmp_path / "fleet.html", os.pipe()
    os.close(read)
    others = {name: subprocess.DEVNULL for name in ("stdout", "stderr") if name != stream}
    words = ["fleet", "--count", "8", "--fault", "host-003=pfc_off", "-o", str(page)]
    done = subprocess.run([sys.executable, "-m", "collie", *words], **{stream: write}, **others)  # type: ignore[call-overload]
    os.close(write)
    assert done.returncode == 1, "a host is odd"
    assert page.exists()


def test_a_command_that_never_ends_notices_that_its_reader_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        outlive_readers()
        print("read", flush=True)
        assert os.read(read, 100) == b"read\n"
        assert not is_unread(sys.stdout)
        os.close(read)
        print("unread", flush=True)
        assert is_unread(sys.stdout)
        sys.stdout.close()


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        (("fleet", "--count", "4", "-o"), "<!DOCTYPE html>"),
        (("export", "nsdi22-08", "--as", "script", "-o"), "#!/bin/"),
    ],
)
def test_an_output_may_be_a_pipe(words: tuple[str, ...], begins: str, tmp_path: Path) -> None:
    assert begins in process(*words, "/dev/stdout", cwd=tmp_path).stdout


@pytest.mark.parametrize("words", [("measure", "nsdi22-08"), ("list",), ("subsystem", "show", "F")])
def test_an_output_may_be_closed_at_start(words: tuple[str, ...], tmp_path: Path) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "collie", *words]
    done = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
