"""A search on the lab for so many minutes: does its data network hold, and does the search outlive a link that is cut?

    .venv/bin/python scripts/acceptance/wire.py --release bookworm --minutes 20 --runs 2
    .venv/bin/python scripts/acceptance/wire.py --release trixie --minutes 20 --busy
    .venv/bin/python scripts/acceptance/wire.py --minutes 30 --cut 5 --state /tmp/second

Each run brings the lab up, searches it as `--hosts lab` does, and leaves the lab up. Labs of several `--state`
directories run side by side. `--busy` keeps every CPU of this computer busy meanwhile; `--cut` lets one machine's data
network lose everything for a while, so many times. After each run no machine may have complained of a hung queue, every
link must carry packets both ways, nothing of Collie may be left on a machine, the record must be readable and hold all
that was seen of it, and every cut must be named. Prints a line per run; exit code 1 on any violation.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from collie.errors import LabError
from collie.interrupts import install_handlers
from collie.lab import lab
from tests.support.faults.kills import CAMPAIGN, SearchCourse
from tests.support.faults.lab_campaign import HEAL_SECONDS, SILENCE_SECONDS
from tests.support.faults.lab_hosts import LabHosts, Unanswered
from tests.support.faults.processes import Controller, Hung
from tests.support.faults.records import rows
from tests.support.faults.trial import CannotStrike, Missed, Trial

CUT_SECONDS = (30.0, 100.0)
"""Longer than most runs, so that one meets it from end to end; some outlast the patience of a search, some do not."""
LOOK_EVERY_SECONDS = 20.0
OVERTIME_SECONDS = 420.0
"""A search ends its last run, and explains what it has found."""
_OUTAGE = "data path"
"""How the cause of a run begins whose link carried nothing."""
_OUTCOME, _RESULT = 2, 5


class Wire:
    """One search on the lab, and what was seen of the data network meanwhile."""

    def __init__(self, trial: Trial, hosts: LabHosts, seconds: float, cuts: int) -> None:
        self._trial, self._hosts, self._seconds = trial, hosts, seconds
        self._cuts = [(number + 0.5) * seconds / cuts for number in range(cuts)]
        self._began = time.monotonic()
        self.hung: set[str] = set()

    def run(self) -> None:
        """Search until the budget is spent, and look at everything on the way and in the end."""
        cuts = len(self._cuts)
        with self._trial.controller() as controller:
            while controller.running and self._elapsed < self._seconds + OVERTIME_SECONDS:
                self._look()
                if self._cuts and self._elapsed >= self._cuts[0]:
                    del self._cuts[0]
                    self._cut(controller)
                time.sleep(LOOK_EVERY_SECONDS)
            ended = self._trial.end(controller)
        self._trial.expect(ended.code == 0, f"exit {ended.code}: {ended.err[-800:]}")
        self._trial.expect(not self._cuts, f"{cuts - len(self._cuts)} of {cuts} cuts were made")
        self._trial.expect(self._hosts.wait_until_healed(HEAL_SECONDS), f"not healed within {HEAL_SECONDS:g} s")
        self._look()
        self._trial.expect(not self.hung, f"hung queues: {', '.join(sorted(self.hung))}")
        self._trial.expect(not (dead := lab.dead_links()), f"dead links: {'; '.join(map(str, dead))}")
        left = self._hosts.wait_until_nothing_is_left(SILENCE_SECONDS)
        self._trial.expect(not left, f"left on hosts: {', '.join(left)}")
        self._trial.expect(self._trial.is_readable(), "the campaign cannot be read")
        self._trial.check()

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _look(self) -> None:
        """Remember the runs on record, and machines that complain of a hung queue, which one started again forgets."""
        self._trial.note()
        for name in self._hosts.names:
            try:
                if "NETDEV WATCHDOG" in self._hosts.run(name, "dmesg"):
                    self.hung.add(name)
            except Unanswered as silent:
                sys.stderr.write(f"{self._elapsed:.0f} s: {silent}\n")

    def _cut(self, controller: Controller) -> None:
        """Cut the data network of a machine; the search has to name that, and to go on by itself."""
        trial, name = self._trial, self._trial.rng.choice(self._hosts.names)
        before = max(rows(trial.campaign), default=0)
        self._hosts.shape(name, "loss 100%", trial.rng.uniform(*CUT_SECONDS), management=False)
        trial.wait_for(controller, lambda: any(map(_names_outage, self._after(before))))
        named = max(rows(trial.campaign))
        trial.wait_for(controller, lambda: any(row[_OUTCOME] == "measured" for row in self._after(named)))
        sys.stderr.write(f"{self._elapsed:.0f} s: {name} was cut from its data network; the search went on\n")

    def _after(self, number: int) -> list[tuple[Any, ...]]:
        return [row for run, row in rows(self._trial.campaign).items() if run > number]


def _names_outage(row: Sequence[Any]) -> bool:
    return row[_OUTCOME] != "measured" and _OUTAGE in str(row[_RESULT])


@contextmanager
def every_cpu_busy() -> Iterator[None]:
    """Keep every CPU of this computer busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _cpu in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def one_run(options: argparse.Namespace, seed: int, place: Path) -> list[str]:
    """Bring the lab up, search it, print a line, and return what was amiss."""
    lab.up(release=options.release, say=partial(print, file=sys.stderr))
    hosts = LabHosts()
    folder = place / f"run-{seed}"
    folder.mkdir(parents=True)
    words = ("search", "--campaign", CAMPAIGN, "--format", "json", "--hosts", "lab", "--recipe", options.recipe)
    course = SearchCourse((*words, "--budget", f"{options.minutes:g}m", "--seed", str(seed)))
    trial = Trial(folder, course, Random(f"wire {seed}"), OVERTIME_SECONDS)
    wire = Wire(trial, hosts, 60 * options.minutes, options.cut)
    with every_cpu_busy() if options.busy else nullcontext():
        try:
            wire.run()
        except Missed:
            trial.expect(False, "the search ended and had not named a cut, or had not gone on after it")
        except (Hung, Unanswered) as error:
            trial.expect(False, f"{error}; {trial.log[-800:]}")
    found = rows(trial.campaign)
    outages = sum(map(_names_outage, found.values()))
    print(
        f"{lab.status().release}, {options.minutes:g} min, {'busy' if options.busy else 'quiet'}, {options.cut} cuts, "
        f"seed {seed}: {len(found)} runs, {outages} of them name a dead link, {len(wire.hung)} hung queues; "
        + ("; ".join(trial.violations) or "sound"),
        flush=True,
    )
    return trial.violations


def main() -> int:
    """Search so many times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, help="as $XDG_STATE_HOME: the lab's files are below it")
    parser.add_argument("--release", choices=["bookworm", "trixie"])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--cut", type=int, default=0, metavar="TIMES")
    parser.add_argument("--recipe", default="soft-roce", help="[default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next ones count on")
    parser.add_argument("--campaigns", type=Path, metavar="DIR", help="keep the campaigns in a new directory")
    options = parser.parse_args()
    install_handlers()  # the busy loops go with this process
    if options.state:
        os.environ["XDG_STATE_HOME"] = str(options.state.resolve())
    with tempfile.TemporaryDirectory(prefix="collie-wire-") as temporary:
        place = options.campaigns or Path(temporary)
        try:
            place.mkdir(parents=True, exist_ok=True)
            amiss = [one for run in range(options.runs) for one in one_run(options, options.seed + run, place)]
        except (CannotStrike, LabError, OSError) as error:
            parser.error(str(error))
    return 1 if amiss else 0


if __name__ == "__main__":
    sys.exit(main())
