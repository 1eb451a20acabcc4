"""Faults of disks and clocks, and the mounts that they need."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.faults.processes import Ended, collie_command
from tests.support.faults.records import rows
from tests.support.faults.trial import CannotStrike, Trial

YEAR_SECONDS = 31_557_600
_MODULE = "tests.support.faults"


# --- Disks ------------------------------------------------------------------------------------------------------------


def disk_full(trial: Trial) -> str:
    """The disk of the campaign fills within an instant, but for a few kilobytes."""
    with trial.controller() as controller:
        trial.let_run(controller)
        trial.note()
        with filled(trial.folder, trial.rng.choice([0, 4096, 32768])):
            ended = trial.end(controller)
            trial.expect(trial.is_readable(), "the campaign could not be read on a full disk")
    return cause_named(trial, ended, r"disk is full|No space left")


def file_too_large(trial: Trial) -> str:
    """A limit on the size of files, as of a quota, strikes the record or whatever else grows."""
    size = trial.database.stat().st_size if trial.database.exists() else 0
    limit = max(131072, size + trial.rng.choice([0, 65536, 262144]))  # what it prints is a file as well
    with trial.controller(("prlimit", f"--fsize={limit}", sys.executable, "-m", "collie")) as controller:
        ended = trial.end(controller)
    trial.note()
    trial.inspect()
    return cause_named(trial, ended, r"disk is full|No space left|File too large|disk I/O error")


def store_read_only(trial: Trial) -> str:
    """The file system of the campaign turns read-only between two processes."""
    with trial.controller() as controller:
        trial.let_run(controller, recorded=True)
        trial.note()
        controller.send(trial.rng.choice([signal.SIGKILL, signal.SIGTERM]))
        trial.end(controller)
    with _read_only(trial.folder):
        trial.inspect()
        trial.check()
        refused = collie_command(trial.course.resume, trial.folder, trial.deadline_seconds)
        anew = trial.ask("search", "--budget", "2runs", "--campaign", "another")
    trial.expect(not refused.traceback and refused.code == 3, f"resume: exit {refused.code}: {refused.err}")
    trial.expect("ead-only" in refused.err, f"resume names no cause: {refused.err}")
    trial.expect(anew.code in (2, 3) and "ead-only" in anew.err, f"anew: exit {anew.code}: {anew.err}")
    return "read all the same; refused to go on, naming the cause; resumed"


def cause_named(trial: Trial, ended: Ended, pattern: str) -> str:
    """Check that a process which could not write what it had to said so; return what came of it."""
    if ended.code == 0:
        return "had written everything"
    trial.expect(ended.code == 3, f"exit {ended.code}, where the machine is to blame: {ended.err[-300:]}")
    trial.expect(re.search(pattern, ended.err) is not None, f"no cause is named: {ended.err[-300:]}")
    begun = "no campaign can be created" not in ended.err and trial.database.exists()
    trial.expect(not begun or "--resume" in ended.err or "brought up" in ended.err, f"no way on: {ended.err[-300:]}")
    return "ended, naming the cause; resumed"


@contextmanager
def filled(folder: Path, left_bytes: int) -> Iterator[None]:
    """Fill a file system but for so many bytes."""
    filler = folder.parent / f"{folder.name}.filler" if not os.path.ismount(folder) else folder / "filler"
    try:
        with filler.open("wb") as file:
            while not _allocated(file.fileno(), left_bytes):
                continue  # somebody has written meanwhile
        yield
    finally:
        filler.unlink(missing_ok=True)


def _allocated(file: int, left_bytes: int) -> bool:
    found = os.fstatvfs(file)
    surplus = found.f_bavail * found.f_frsize - left_bytes
    try:
        if surplus > 0:
            os.posix_fallocate(file, 0, surplus)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    _mount("-o", "remount,ro", str(folder))
    try:
        yield
    finally:
        _mount("-o", "remount,rw", str(folder))


@contextmanager
def small_disk(folder: Path, mebibytes: int = 32) -> Iterator[Path]:
    """Mount a file system in memory on a folder."""
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={mebibytes}m", "collie-faults", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


# --- Clocks -----------------------------------------------------------------------------------------------------------


def clock_stepped(trial: Trial) -> str:
    """The time of day jumps while the controller runs, by seconds to decades, in either direction."""
    offset = trial.folder.parent / f"{trial.folder.name}.offset"
    offset.write_text("0")
    with _removed(offset), trial.controller((sys.executable, "-m", f"{_MODULE}.stepped", str(offset))) as controller:
        trial.let_run(controller, recorded=True)
        seconds = trial.rng.choice([-1, 1]) * trial.rng.choice([5.0, 3600.0, 10 * YEAR_SECONDS])
        _replace(offset, str(seconds))
        before = len(rows(trial.campaign))
        trial.wait_for_more_or_end(controller, before)
        trial.note()
        said = trial.inspect()
        controller.send(signal.SIGTERM)
        trial.end(controller)
    after = trial.inspect()
    for reported in (said, after):
        silent = reported.get("silent_seconds")
        trial.expect(silent is None or silent >= 0, f"status: silent for {silent} s")
    return "went on; resumed"


@contextmanager
def _removed(path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        path.unlink()


def _replace(path: Path, text: str) -> None:
    unfinished = path.with_suffix(".next")
    unfinished.write_text(text)
    unfinished.rename(path)


def machine_rebooted(trial: Trial) -> str:
    """The monotonic clock starts anew, or jumps ahead, between two processes."""
    seconds = trial.rng.choice([86_400, 30 * 86_400, YEAR_SECONDS])
    launcher = ("unshare", "--time", "--monotonic", str(seconds), "--boottime", str(seconds))
    with trial.controller((*launcher, sys.executable, "-m", "collie")) as controller:
        trial.let_run(controller)
        trial.note()
        controller.send(signal.SIGKILL)
        trial.end(controller)
    trial.inspect()
    return "resumed"


def require_tools() -> None:
    """Refuse where a fault could not strike.

    Raises:
        CannotStrike: a program is missing, or this is not root.
    """
    missing = [name for name in ("mount", "umount", "prlimit", "unshare") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        raise CannotStrike(f"faults of disks and clocks need root and {', '.join(missing) or 'nothing else'}")
