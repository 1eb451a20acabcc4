"""What is started on a host is what was checked, and nothing where others could replace it."""

from __future__ import annotations

import hashlib
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from collie.agent import loader
from collie.hosts.session import Archive

PROGRAM = b"import sys; print('ours', sys.argv[-1])"
OTHER = b"print('theirs')"
PLACE = Archive.of(PROGRAM).path
STRANGER = 4711

EXCHANGE = """
import runpy
run = runpy.run_path
def exchange_first(*words, **named):
    with open("new", "wb") as file:
        file.write({other!r})
    with open({place!r}, "wb") as file:
        file.write({other!r})
    __import__("os").replace("new", {place!r})
    return run(*words, **named)
runpy.run_path = exchange_first
"""
"""Somebody who writes to the file, and puts another one in its place, after the comparison and before the start."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")


@pytest.fixture
def home() -> Iterator[Path]:
    """Others can enter it and each folder on the way; those of pytest let only their owner in."""
    with TemporaryDirectory() as place:
        home = Path(place).resolve() / "home"
        (home / PLACE).parent.mkdir(parents=True)
        for folder in (home.parent, home, home / ".cache", home / ".cache/collie"):
            folder.chmod(0o755)
        (home / PLACE).write_bytes(PROGRAM)
        yield home


def start(home: Path, before: str = "", path: str = PLACE) -> list[str]:
    """Start the program as a session does; return what the loader and the program said."""
    argv = [sys.executable, "-c", before + "\n" + loader.BOOT, path, hashlib.sha256(PROGRAM).hexdigest()]
    source = inspect.getsource(loader).encode().hex() + "\n"
    done = subprocess.run(argv, cwd=home, input=source, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_program_runs_and_knows_its_name(home: Path) -> None:
    assert start(home) == ["running", f"ours {home / PLACE}"]


def test_a_file_that_is_exchanged_after_the_comparison_does_not_run(home: Path) -> None:
    assert start(home, EXCHANGE.format(other=OTHER, place=PLACE)) == ["running", f"ours {home / PLACE}"]
    assert (home / PLACE).read_bytes() == OTHER
    assert start(home) == ["absent"]


def test_a_host_that_gives_no_unnamed_memory_runs_a_copy_all_the_same(home: Path) -> None:
    without = "import os\ndel os.memfd_create"
    exchanged = EXCHANGE.format(other=OTHER, place=PLACE)
    assert start(home, without + exchanged) == ["running", f"ours {home / PLACE}"]


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_a_module_in_the_home_directory_is_not_imported(home: Path, mode: int) -> None:
    for name in ("typing", "collections", "re", "stat", "hashlib", "runpy", "shlex", "tempfile"):
        (home / f"{name}.py").write_bytes(OTHER)
    home.chmod(mode)
    (said, *ran) = start(home)
    assert (said.split()[0], ran) == (("running", [f"ours {home / PLACE}"]) if mode == 0o700 else ("refused", []))


@pytest.mark.parametrize("kind", ["nothing", "other", "link", "fifo", "folder", "folder missing", "folder a file"])
def test_whatever_else_lies_there_is_not_run(home: Path, kind: str) -> None:
    file = home / PLACE
    file.rename(home / "elsewhere")
    if kind == "other":
        file.write_bytes(OTHER)
    elif kind == "link":
        file.symlink_to(home / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind.startswith("folder "):
        file.parent.rmdir()
        if kind == "folder a file":
            file.parent.touch()
    assert start(home) == ["absent"]


@pytest.mark.parametrize("folder", ["", ".cache", ".cache/collie"])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(home: Path, folder: str, mode: int) -> None:
    (home / folder).chmod(mode)
    (said,) = start(home)
    assert said == (
        f"refused others can write to {home / folder} (mode {mode:o}), and could replace the agent in it; "
        f"on the host: chmod go-w {home / folder}"
    )


def test_a_folder_that_others_can_read_or_that_is_sticky_is_fine(home: Path) -> None:
    for mode in (0o755, 0o1777):
        (home / ".cache").chmod(mode)
        assert start(home)[0] == "running"


@pytest.mark.parametrize("folder", [".cache", ".cache/collie"])
@pytest.mark.parametrize(
    ("above", "said"), [(0o700, "running"), (0o744, "running"), (0o710, "refused"), (0o701, "refused")]
)
def test_a_folder_that_others_can_write_to_is_fine_below_a_private_one(
    home: Path, folder: str, above: int, said: str
) -> None:
    (home / folder).chmod(0o775)
    (home / folder).parent.chmod(above)
    assert start(home)[0].split()[0] == said


@pytest.mark.parametrize("target", ["{moved}", "../../moved"])
def test_a_link_out_of_a_private_home_is_held_to_the_same(home: Path, target: str) -> None:
    moved = linked(home, target.format(moved=home.parent / "moved"))
    home.chmod(0o700)
    moved.chmod(0o775)
    assert start(home)[0].startswith(f"refused others can write to {moved} (mode 775)")
    home.parent.chmod(0o700)
    assert start(home)[0] == "running"


@needs_root
def test_a_folder_of_another_user_is_refused_also_below_a_private_one(home: Path) -> None:
    home.chmod(0o700)
    os.chown(home / ".cache", STRANGER, STRANGER)
    assert start(home)[0].startswith(f"refused {home / '.cache'} belongs to user id {STRANGER}")


@needs_root
@pytest.mark.parametrize("folder", ["", ".cache", ".cache/collie"])
def test_a_folder_of_another_user_is_refused(home: Path, folder: str) -> None:
    os.chown(home / folder, STRANGER, STRANGER)
    (said,) = start(home)
    assert said == (
        f"refused {home / folder} belongs to user id {STRANGER}, who could replace the agent in it; "
        f"on the host: chown 0 {home / folder}"
    )


def linked(home: Path, target: str) -> Path:
    """Put a link in place of the cache directory; return where the directory is now."""
    moved = home.parent / "moved"
    (home / ".cache/collie").rename(moved)
    (home / ".cache/collie").symlink_to(target)
    return moved


@pytest.mark.parametrize("target", ["{moved}", "../../moved", "../../moved/../moved/."])
def test_a_link_of_the_user_is_followed(home: Path, target: str) -> None:
    moved = linked(home, target.format(moved=home.parent / "moved"))
    home.parent.chmod(0o700)
    assert start(home) == ["running", f"ours {moved / Path(PLACE).name}"]


def test_a_link_to_where_others_can_write_is_refused(home: Path) -> None:
    moved = linked(home, str(home.parent / "moved"))
    for folder in (moved, home.parent):
        folder.chmod(0o777)
        (said,) = start(home)
        assert said.startswith(f"refused others can write to {folder} (mode 777)")
        folder.chmod(0o755)


@needs_root
def test_a_link_to_the_folder_of_another_user_is_refused_and_so_is_that_users_link(home: Path) -> None:
    moved = linked(home, str(home.parent / "moved"))
    os.chown(moved, STRANGER, STRANGER)
    assert start(home)[0].startswith(f"refused {moved} belongs to user id {STRANGER}")
    os.chown(moved, 0, 0)
    link = home / ".cache/collie"
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    (said,) = start(home)
    assert said.startswith(f"refused {link} belongs to user id {STRANGER}")
    assert said.endswith(f"chown -h 0 {link}")


def test_a_link_that_leads_to_itself_is_refused(home: Path) -> None:
    linked(home, "collie")
    assert start(home) == [f"refused {home / '.cache/collie'} is a link that leads to itself; remove it on the host"]


def test_a_name_with_line_breaks_and_spaces_stays_one_line(home: Path) -> None:
    odd = home.parent / "a b\nrunning"
    home.rename(odd)
    odd.chmod(0o777)
    (said,) = start(odd)
    assert said.startswith("refused ")
    assert "chmod go-w '" in said
