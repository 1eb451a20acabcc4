"""Every command that reads a campaign, asked about directories of somebody who means harm; what none of them may do.

A command runs in a process of its own, forked from one that has loaded Collie: its memory and time are its own, and
hundreds of directories take minutes. What a process has of its parent counts in its peak, so peaks are upper bounds.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from collie import bundle, campaign, report, simulator
from collie.cli import main
from collie.ports import CAMPAIGN_FILE
from collie.store import schema
from collie.store.sqlite import SqliteStore
from collie.store.vetting import INDEX
from collie.testing.store_suite import measured
from tests.support.hostile_campaigns import SPOILERS
from tests.support.hostile_ground import Ground, Snapshot, decoys, downgraded, snapshot

MAX_BYTES = 300 << 20
MAX_SECONDS = 10.0
DOCUMENTED = frozenset(range(6))
_KILLED_AFTER_SECONDS = 20.0
_POLL_SECONDS = 0.005
_LIVE_SHARE = 0.04

Arguments = Callable[[Path, Path, Path], list[str]]
"""Of the campaign, of a good one, and of a new folder for what a command is asked to write."""

COMMANDS: Mapping[str, Arguments] = {
    "status": lambda c, _g, _o: ["status", str(c)],
    "runs": lambda c, _g, _o: ["runs", str(c)],
    "runs --format json": lambda c, _g, o: ["runs", str(c), "--format", "json", "-o", str(o / "runs.json")],
    "runs --format csv": lambda c, _g, o: ["runs", str(c), "--format", "csv", "-o", str(o / "runs.csv")],
    "report": lambda c, _g, o: ["report", str(c), "-o", str(o / "report.html")],
    "report --against": lambda c, g, o: ["report", str(g), "--against", str(c), "-o", str(o / "against.html")],
    "check --against": lambda c, _g, _o: ["check", "rpc-library", "--against", str(c)],
    "reproduce": lambda c, _g, _o: ["reproduce", f"{c}/a1", "--subsystem", "F"],
    "measure": lambda c, _g, _o: ["measure", f"{c}/a1", "--subsystem", "F"],
    "export": lambda c, _g, o: ["export", f"{c}/a1", "--as", "bundle", "-o", str(o / "a1.pyz")],
    "search --known": lambda c, _g, o: [
        *("search", "--subsystem", "F", "--known", str(c), "--budget", "3runs", "--campaign", str(o / "new")),
    ],
    "gate --baseline": lambda c, _g, o: [
        *("gate", "--subsystem", "F", "--baseline", str(c), "--budget", "4runs", "--campaign", str(o / "gate")),
    ],
    "hosts diff": lambda c, g, _o: ["hosts", "diff", str(c), str(g)],
}


@dataclass
class Answers:
    """What a command made of all directories.

    Attributes:
        codes: exit codes; None of one that had to be killed.
        peak_bytes: the most that any process took.
        slowest_seconds: of all answers.
        violations: in words.
    """

    codes: Counter[int | None] = field(default_factory=Counter)
    peak_bytes: int = 0
    slowest_seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one process did."""

    code: int | None
    peak_bytes: int
    seconds: float
    printed: str


def preload() -> None:
    """Import what commands need: a process that is forked has it."""
    for module, _ in main._COMMANDS.values():
        importlib.import_module(module)
    for room in (report, simulator, campaign, bundle):
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(found.name)


def ask(arguments: list[str], folder: Path) -> Answer:
    """Run a command in a process of its own, with a new folder as its current and its temporary one."""
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _answer(arguments, folder)
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        seconds = time.monotonic() - began
        if done:
            break
        if seconds > _KILLED_AFTER_SECONDS:
            os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    code = os.waitstatus_to_exitcode(status)
    printed = (folder / "printed").read_text(errors="replace")
    return Answer(code if code >= 0 else None, usage.ru_maxrss << 10, seconds, printed)


def _answer(arguments: list[str], folder: Path) -> None:
    """Be that process."""
    code = 99
    try:
        os.chdir(folder)
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")  # which the parent may have asked for already
        (folder / "tmp").mkdir()
        printed = os.open("printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for descriptor in (1, 2):
            os.dup2(printed, descriptor)
        code = main.run(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class Siege:
    """Asks all commands about one directory after another.

    Args:
        folder: for everything; new.
        rng: decides what the directories are.
    """

    def __init__(self, folder: Path, rng: Random) -> None:
        self._folder, self._rng = folder, rng
        self.answers = {name: Answers() for name in COMMANDS}
        self.directories = 0
        self._good = folder / "good"
        begun = ["search", "--subsystem", "F", "--budget", "60runs", "--seed", "1", "--campaign", str(self._good)]
        if ask(begun, self._fresh("begin")).code != 0:
            raise RuntimeError("the simulator gives no campaign to spoil")

    def plan(self, count: int) -> Iterator[tuple[tuple[str, ...], int, bool]]:
        """Yield what to do to each directory, its schema, and whether it is live: each spoiler alone, then mixtures."""
        alone: list[tuple[tuple[str, ...], int]] = [
            ((name,), version) for version in range(1, schema.SCHEMA_VERSION + 1) for name in SPOILERS
        ]
        for number in range(count):
            if number < len(alone):
                names, version = alone[number]
                yield names, version, False
            else:
                names = tuple(self._rng.sample(list(SPOILERS), self._rng.choice((2, 2, 3))))
                live = self._rng.random() < _LIVE_SHARE
                yield names, schema.SCHEMA_VERSION if live else self._rng.randint(1, schema.SCHEMA_VERSION), live

    def strike(self, names: tuple[str, ...], version: int, *, live: bool) -> None:
        """Make a directory, and ask every command about it."""
        place = self._fresh("struck")
        campaign = place / "campaign"
        shutil.copytree(self._good, campaign)
        downgraded(campaign / CAMPAIGN_FILE, version)
        ground = Ground(campaign, decoys(place / "decoys"), self._rng)
        with _writer(campaign, live=live):
            for name in names:
                SPOILERS[name](ground)
            but = frozenset({INDEX}) if live else frozenset()
            before = snapshot(place, but=but), snapshot(self._good)
            what = f"{' + '.join(names)}, schema {version}{', live' if live else ''}"
            for command in COMMANDS:
                self._ask(command, what, campaign)
                now = snapshot(place, but=but), snapshot(self._good)
                if now != before:
                    self._violated(command, what, f"changed {', '.join(_changed(before, now))}")
                    before = now
        self.directories += 1
        shutil.rmtree(place)

    def _ask(self, command: str, what: str, campaign: Path) -> None:
        out = self._fresh("out")
        reported = self.answers[command]
        answer = ask(COMMANDS[command](campaign, self._good, out), out)
        reported.codes[answer.code] += 1
        reported.peak_bytes = max(reported.peak_bytes, answer.peak_bytes)
        reported.slowest_seconds = max(reported.slowest_seconds, answer.seconds)
        last = answer.printed.strip()[-300:]
        if answer.code not in DOCUMENTED:
            self._violated(command, what, f"exit code {answer.code}: {last}")
        if "Traceback" in answer.printed or "unforeseen" in answer.printed:
            self._violated(command, what, f"unforeseen: {last}")
        if answer.peak_bytes > MAX_BYTES:
            self._violated(command, what, f"{answer.peak_bytes >> 20} MiB")
        if answer.seconds > MAX_SECONDS:
            self._violated(command, what, f"{answer.seconds:.1f} s")
        if left := [path.name for path in (out / "tmp").iterdir()]:
            self._violated(command, what, f"left {left} behind")
        shutil.rmtree(out)

    def _violated(self, command: str, what: str, how: str) -> None:
        self.answers[command].violations.append(f"{command}: {what}: {how}")

    def _fresh(self, name: str) -> Path:
        path = self._folder / name
        if path.exists():
            shutil.rmtree(path)
        path.mkdir(parents=True)
        return path


@contextmanager
def _writer(campaign: Path, *, live: bool) -> Iterator[None]:
    """Have a process of its own write a campaign meanwhile, with its last run in the log alone."""
    if not live:
        yield
        return
    ready, reported = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            store = SqliteStore.open(campaign)
            store.add_run(measured(90_000))
            os.write(reported, b"+")
            signal.pause()
        finally:
            os._exit(0)
    try:
        os.read(ready, 1)
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(reported)


def _changed(before: tuple[Snapshot, Snapshot], now: tuple[Snapshot, Snapshot]) -> list[str]:
    found = []
    for one, other in zip(before, now, strict=True):
        found += [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
    return found
