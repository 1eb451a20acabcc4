"""The archive that is shipped: what is in it, and how it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from collie.agent.build import build, sources
from collie.hosts.session import Archive


def test_the_archive_is_the_same_each_time_and_knows_no_builder() -> None:
    assert build() == build()
    names = sources()
    assert "collie/agent/build.py" not in names
    assert {"__main__.py", "collie/__init__.py", "collie/agent/engine.py"} <= set(names)


def run_archive(path: Path) -> subprocess.CompletedProcess[str]:
    """Start an agent and hang up."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    argv = [sys.executable, str(path)]
    return subprocess.run(argv, input="", env=environment, capture_output=True, text=True, timeout=60, check=True)


def test_an_archive_named_after_its_content_is_unpacked_once_and_compiled_once(tmp_path: Path) -> None:
    archive = Archive.agent()
    path = tmp_path / Path(archive.path).name
    path.write_bytes(archive.data)
    assert '"eof"' in run_archive(path).stdout
    folder = path.with_suffix("")
    compiled = {each: each.stat().st_mtime_ns for each in folder.rglob("*.pyc")}
    assert folder / "collie" / "agent" / "__pycache__" in {each.parent for each in compiled}
    assert '"eof"' in run_archive(path).stdout
    assert {each: each.stat().st_mtime_ns for each in folder.rglob("*.pyc")} == compiled
    assert set(tmp_path.iterdir()) == {path, folder}


def test_an_archive_runs_where_it_cannot_be_unpacked(tmp_path: Path) -> None:
    archive = Archive.agent()
    path = tmp_path / Path(archive.path).name
    path.write_bytes(archive.data)
    path.with_suffix("").write_text("in the way")
    assert '"eof"' in run_archive(path).stdout
    elsewhere = tmp_path / "any name.pyz"
    elsewhere.write_bytes(archive.data)
    assert '"eof"' in run_archive(elsewhere).stdout
    assert len(list(tmp_path.iterdir())) == 3
