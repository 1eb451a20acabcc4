"""Campaigns on the simulator that are killed and resumed, beside the same one that was left alone."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.faults.processes import Controller, Ended, collie_command
from tests.support.faults.records import Snapshot, differences, rows, snapshot

CAMPAIGN = "c"


@dataclass(frozen=True)
class SearchCourse:
    """A campaign: the command that begins it as `c`; the one that resumes it follows.

    Attributes:
        begin: words after `collie`, `--campaign c --format json` among them.
    """

    begin: tuple[str, ...]

    @property
    def resume(self) -> tuple[str, ...]:
        """Words that go on with it."""
        return (self.begin[0], "--resume", CAMPAIGN, "--format", "json")

    def next_words(self, folder: Path) -> tuple[str, ...]:
        """Return what goes on with it, whatever is there: nothing, a campaign, or what became none."""
        return self.resume if (folder / CAMPAIGN / "campaign.sqlite").exists() else self.begin


@dataclass(frozen=True)
class Whole:
    """A campaign that was left alone.

    Attributes:
        ended: how its process did.
        record: what it left on disk.
    """

    ended: Ended
    record: Snapshot

    @property
    def cpu_seconds(self) -> float:
        """What the process computed."""
        return self.ended.cpu_seconds


@dataclass(frozen=True)
class Killed:
    """A campaign that was killed and resumed.

    Attributes:
        landed: what each kill found on disk.
        instants: at which CPU time each process was killed, and after how many runs, in words.
        differences: to the campaign that was left alone.
    """

    landed: tuple[str, ...]
    instants: str
    differences: tuple[str, ...]


def uninterrupted(course: SearchCourse, folder: Path, deadline_seconds: float) -> Whole:
    """Run a campaign to its end."""
    folder.mkdir(parents=True)
    ended = collie_command(course.begin, folder, deadline_seconds)
    return Whole(ended, snapshot(folder / CAMPAIGN, ended.out))


def killed_and_resumed(
    course: SearchCourse, folder: Path, instants: Sequence[float], whole: Whole, deadline_seconds: float
) -> Killed:
    """Kill a campaign at each of the instants, resume it after each, and compare it in the end; the folder goes.

    Args:
        course: of the campaign.
        folder: to be made.
        instants: CPU seconds of one process after another.
        whole: the same campaign, left alone.
        deadline_seconds: of each process.

    Raises:
        Hung: a process did not end.
    """
    folder.mkdir(parents=True)
    landed, said = [], []
    total = len(whole.record.parts["runs"])
    for instant in instants:
        with Controller(course.next_words(folder), folder) as controller:
            controller.wait_until_it_has_computed(instant, deadline_seconds)
            controller.send(signal.SIGKILL)
            if controller.end(deadline_seconds).code != -signal.SIGKILL:
                continue  # it was quicker than the one that was left alone
        on_record = len(rows(folder / CAMPAIGN))
        landed.append(_phase(folder / CAMPAIGN, on_record, total))
        said.append(f"at {instant:.2f} s with {on_record} runs")
    ended = collie_command(course.next_words(folder), folder, deadline_seconds)
    found = _compare(ended, folder, whole)
    shutil.rmtree(folder)
    return Killed(tuple(landed), ", ".join(said), tuple(found))


def _phase(campaign: Path, on_record: int, total: int) -> str:
    if not (campaign / "campaign.sqlite").exists():
        return "before the record exists"
    if not on_record:
        return "before the first run"
    return "among the runs" if on_record < total else "after the last run"


def _compare(ended: Ended, folder: Path, whole: Whole) -> list[str]:
    if ended.code != whole.ended.code or ended.traceback:
        return [f"exit code {ended.code}: {ended.err[-500:]}"]
    return differences(whole.record, snapshot(folder / CAMPAIGN, ended.out))
