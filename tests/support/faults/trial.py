"""A campaign that faults strike, and what must hold after each of them.

What is *reported* is whatever somebody could have read by the moment of the fault: rows of the record, as `collie runs`
shows them, and the count of runs in `status.json`. A reported run may not go, nor change.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from collie.cli.main import run
from collie.lab.machine import label_of
from tests.support.faults.kills import CAMPAIGN, SearchCourse, Whole
from tests.support.faults.plan import Tally
from tests.support.faults.processes import Controller, Ended, Hung, marked
from tests.support.faults.records import differences, rows, snapshot

_REPORTED = 0.3
"""Share of the looks at a campaign for which a report is written: that takes longer than most faults."""
_MEASURED = 7
"""Columns of a run that are written with it; its verdict follows."""


class CannotStrike(Exception):
    """Faults cannot strike here: a program, a right or a lab is missing."""


class Missed(Exception):
    """The process had ended before the fault could strike."""


@dataclass(frozen=True)
class Answer:
    """What a command that only looks had to say."""

    code: int
    out: str
    err: str

    @property
    def foreseen(self) -> bool:
        """Whether the command knew what it was about."""
        return "unforeseen" not in self.err and "Traceback" not in self.err


@dataclass
class Trial:
    """One campaign.

    Args:
        folder: where controllers run; the campaign is `c` in it.
        course: how it is begun.
        rng: of this trial.
        deadline_seconds: of every process and command.
        whole: the same campaign left alone; None where time is real, so that no two are equal.
        launcher: a command in the place of `python -m collie`.
        start_cpu_seconds: about what a process computes before its first run.

    Attributes:
        reported: measured columns of runs that somebody may have seen.
        violations: what should not have been.
        marks: of every process that was started.
        over: the campaign cannot go on, and has said why.
    """

    folder: Path
    course: SearchCourse
    rng: Random
    deadline_seconds: float
    whole: Whole | None = None
    launcher: Sequence[str] | None = None
    start_cpu_seconds: float = 1.2
    reported: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    over: bool = False

    @property
    def campaign(self) -> Path:
        """Its folder."""
        return self.folder / CAMPAIGN

    @property
    def database(self) -> Path:
        """Its record."""
        return self.campaign / "campaign.sqlite"

    @property
    def log(self) -> str:
        """What Collie noted while it ran."""
        path = self.campaign / "log" / "collie.log"
        return path.read_text() if path.exists() else ""

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note a violation unless something holds."""
        if not holds:
            self.violations.append(otherwise)

    # --- Processes ---

    @contextmanager
    def controller(self, launcher: Sequence[str] | None = None) -> Iterator[Controller]:
        """Begin the campaign, or go on with it, in a process of its own."""
        launcher = launcher or self.launcher
        words = self.course.next_words(self.folder)
        temporary = self.folder.parent / f"{self.folder.name}.tmp"
        temporary.mkdir(exist_ok=True)
        how = {"environment": {"TMPDIR": str(temporary)}, **({"launcher": launcher} if launcher else {})}
        with Controller(words, self.folder, **how) as controller:  # type: ignore[arg-type]
            self.marks.append(controller.mark)
            yield controller
        self.expect(not list(temporary.iterdir()), f"temporary files are left: {list(temporary.iterdir())}")
        shutil.rmtree(temporary)

    def let_run(self, controller: Controller, *, recorded: bool = False, earliest: float = 0.0) -> None:
        """Wait until a random instant of a process.

        Args:
            controller: the process.
            recorded: not before it has put a run on record.
            earliest: CPU seconds before which it is left alone.

        Raises:
            Missed: it has ended.
        """
        before = len(rows(self.campaign))
        if recorded:
            self.wait_for(controller, lambda: len(rows(self.campaign)) > before)
        if self.whole is not None:
            left = 1 - before / len(self.whole.record.parts["runs"])
            longest = self.start_cpu_seconds + 0.7 * left * (self.whole.cpu_seconds - self.start_cpu_seconds)
            earliest = self.start_cpu_seconds if recorded else earliest
            controller.wait_until_it_has_computed(self.rng.uniform(earliest, longest), self.deadline_seconds)
        if not controller.running:
            raise Missed

    def wait_for(self, controller: Controller, ready: Any) -> None:
        """Wait until something is so.

        Raises:
            Missed: the process ended before.
            Hung: it is not so within the deadline.
        """
        deadline = time.monotonic() + self.deadline_seconds
        while not ready():
            if not controller.running:
                raise Missed
            if time.monotonic() > deadline:
                raise Hung(f"{' '.join(controller.words)} did not get on within {self.deadline_seconds:g} s")
            time.sleep(0.05)

    def wait_for_more_or_end(self, controller: Controller, before: int) -> None:
        """Wait until more runs than before are on record, or the process has ended.

        Raises:
            Hung: neither within the deadline.
        """
        self.wait_for(controller, lambda: len(rows(self.campaign)) > before or not controller.running)

    def end(self, controller: Controller) -> Ended:
        """Wait for the end of a process, and look at what it said."""
        ended = controller.end(self.deadline_seconds)
        self.expect(not ended.traceback, f"a traceback: {ended.err[-1500:]}")
        return ended

    # --- Looking ---

    def note(self) -> None:
        """Remember what could be read just now."""
        for run_number, row in rows(self.campaign).items():
            self.reported[run_number] = row[:_MEASURED]

    def ask(self, *words: str, alarm_seconds: float = 120.0) -> Answer:
        """Run a command that looks at the campaign, in this process.

        Raises:
            Hung: it takes too long.
        """
        out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
        os.chdir(self.folder)
        try:
            with _deadline(alarm_seconds, words), redirect_stdout(out), redirect_stderr(err):
                code = run([*words])
        finally:
            os.chdir(before)
        answer = Answer(code, out.getvalue(), err.getvalue())
        self.expect(answer.foreseen, f"collie {' '.join(words)}: {answer.err[-500:]}")
        return answer

    def status(self) -> Mapping[str, Any]:
        """Return what `collie status` says; it must say something wherever there is a record."""
        answer = self.ask("status", CAMPAIGN, "--format", "json")
        self.expect(answer.code in (0, 3), f"status: exit {answer.code}: {answer.err}")
        return dict(json.loads(answer.out)) if answer.code in (0, 3) and answer.out else {}

    def inspect(self) -> Mapping[str, Any]:
        """Look at the campaign as people do; return its status, nothing where it does not exist yet."""
        if not self.database.exists():
            return {}
        said = self.status()
        elsewhere = self.folder.parent / f"{self.folder.name}.html"
        looks = [("runs", CAMPAIGN, "--last", "3")]
        if self.rng.random() < _REPORTED:
            looks.append(("report", CAMPAIGN, "-o", str(elsewhere)))
        for words in looks:
            answer = self.ask(*words)
            self.expect(answer.code == 0, f"{words[0]}: exit {answer.code}: {answer.err}")
        elsewhere.unlink(missing_ok=True)
        return said

    def is_readable(self) -> bool:
        """Whether runs can be listed, if there is a record."""
        return not self.database.exists() or self.ask("runs", CAMPAIGN, "--last", "3").code == 0

    def check_reported(self) -> None:
        """Check that no run that somebody may have seen is gone or changed."""
        now = rows(self.campaign)
        lost = [number for number, row in self.reported.items() if now.get(number, ())[:_MEASURED] != row]
        self.expect(not lost, f"reported runs are lost or changed: {lost[:10]}")

    def check(self) -> None:
        """Check what must hold after every fault that spoils no file."""
        self.check_reported()
        now = rows(self.campaign)
        status = self.campaign / "status.json"
        if status.exists():
            reported = json.loads(status.read_text())["standing"]["runs"]
            self.expect(
                reported <= max(now, default=0), f"status.json counts {reported} runs; {len(now)} are on record"
            )
        self.check_nothing_is_left()

    def check_nothing_is_left(self) -> None:
        """Check that no process of the trial is left, but for machines of a lab that it has started again."""
        deadline = time.monotonic() + 10.0
        while (left := self._left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.expect(not left, f"processes are left: {left}")

    def _left(self) -> list[int]:
        return [pid for mark in self.marks for pid in marked(mark) if not label_of(pid)]

    def finish(self) -> None:
        """Go on to the end, and compare with the campaign that was left alone."""
        with self.controller() as controller:
            ended = self.end(controller)
        self.expect(ended.code == 0, f"to the end: exit {ended.code}: {ended.err[-500:]}")
        if ended.code == 0 and self.whole is not None:
            found = differences(self.whole.record, snapshot(self.campaign, ended.out))
            self.expect(not found, f"in the end its record differs: {found}")
        self.check()
        unfinished = [str(path) for path in self.campaign.rglob(".*.new")]
        self.expect(not unfinished, f"half-written files are left: {unfinished}")


def record(tally: Tally, kind: str, outcome: str | None, trial: Trial, more: str = "") -> None:
    """Count a fault, or only what was found amiss at the end of a campaign, and say so on standard error."""
    found, trial.violations = trial.violations, []
    if outcome is not None:
        tally.add(kind, outcome, found)
        said = f"{tally.faults} {kind}: {outcome}{more}"
    else:
        tally.violations += [f"{kind}: {each}" for each in found]
        said = kind
    if outcome is not None or found:
        sys.stderr.write("\n    ".join([said, *found]) + "\n")
        sys.stderr.flush()


@contextmanager
def _deadline(seconds: float, words: Sequence[str]) -> Iterator[None]:
    def late(_number: int, _frame: FrameType | None) -> None:
        raise Hung(f"collie {' '.join(words)} did not end within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
