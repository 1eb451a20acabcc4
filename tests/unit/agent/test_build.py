"""The archive that is shipped: what is in it, and how it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from collie.agent.build import build, sources
from collie.agent.start import unpacked
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


def folder_of(path: Path) -> str:
    """Where the archive's modules are imported from."""
    return os.path.realpath(unpacked(str(path), str(path)))


def shipped(folder: Path) -> Path:
    """The agent's archive in a folder, under the name that sessions give it."""
    archive = Archive.agent()
    path = folder / Path(archive.path).name
    path.write_bytes(archive.data)
    return path


def test_an_archive_named_after_its_content_is_unpacked_once_and_compiled_once(tmp_path: Path) -> None:
    path = shipped(tmp_path)
    assert '"eof"' in run_archive(path).stdout
    folder = path.with_suffix("")
    compiled = {each: each.stat().st_mtime_ns for each in folder.rglob("*.pyc")}
    assert folder / "collie" / "agent" / "__pycache__" in {each.parent for each in compiled}
    assert '"eof"' in run_archive(path).stdout
    assert {each: each.stat().st_mtime_ns for each in folder.rglob("*.pyc")} == compiled
    assert set(tmp_path.iterdir()) == {path, folder}


def test_an_archive_runs_where_it_cannot_be_unpacked(tmp_path: Path) -> None:
    path = shipped(tmp_path)
    path.with_suffix("").write_text("in the way")
    assert '"eof"' in run_archive(path).stdout
    elsewhere = tmp_path / "any name.pyz"
    elsewhere.write_bytes(path.read_bytes())
    assert '"eof"' in run_archive(elsewhere).stdout
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("damage", ["cut off", "lost", "list lost"])
def test_a_folder_that_has_lost_something_is_left_alone(tmp_path: Path, damage: str) -> None:
    path = shipped(tmp_path)
    folder = Path(folder_of(path))
    assert folder == path.with_suffix("")
    harmed = folder / ("contents" if damage == "list lost" else "collie/agent/loop.py")
    harmed.write_bytes(b"")
    if damage == "lost":
        harmed.unlink()
    assert folder_of(path) == str(path)


def test_a_folder_that_others_may_write_to_is_not_believed(tmp_path: Path) -> None:
    path = shipped(tmp_path)
    folder = Path(folder_of(path))
    for mode, believed in ((0o700, True), (0o777, False), (0o770, False), (0o755, False)):
        folder.chmod(mode)
        assert (folder_of(path) == str(folder)) is believed
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert folder_of(path) == str(path)


def test_a_folder_that_is_exchanged_once_it_is_chosen_changes_nothing(tmp_path: Path) -> None:
    path = shipped(tmp_path)
    place = unpacked(str(path), str(path))
    path.with_suffix("").rename(tmp_path / "elsewhere")
    (path.with_suffix("") / "collie").mkdir(parents=True)
    assert os.listdir(place) == os.listdir(tmp_path / "elsewhere")


def test_starts_at_once_unpack_one_folder(tmp_path: Path) -> None:
    path = shipped(tmp_path)
    with ThreadPoolExecutor(4) as executor:
        assert set(executor.map(folder_of, [path] * 4)) == {str(path.with_suffix(""))}
    assert set(tmp_path.iterdir()) == {path, path.with_suffix("")}
