"""Strike campaigns with random faults, and check after each that nothing reported is lost and its cause is named.

    .venv/bin/python scripts/acceptance/faults.py --testbed simulated --faults 140 --seed 1
    .venv/bin/python scripts/acceptance/faults.py --testbed lab --faults 60

It needs root, for disks that fill and clocks that jump, and goes on in a mount namespace of its own, so nothing stays
mounted. Lab campaigns need `collie lab up`. `--only KIND` strikes with this kind alone. Every kind strikes at least
three times. `--phases 8` strikes set-ups in which most runs are phases. Prints a Markdown table; exit code 1 on any
violation.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

from collie.interrupts import install_handlers
from tests.support.faults.disks import require_tools, small_disk
from tests.support.faults.kills import SearchCourse, Whole, uninterrupted
from tests.support.faults.lab import LAB, strike
from tests.support.faults.lab_campaign import LIGHT, SILENCE_SECONDS, LabCampaign
from tests.support.faults.lab_hosts import LabHosts
from tests.support.faults.plan import LEAST, Tally, drawn, grouped
from tests.support.faults.pretended import INVENTORY
from tests.support.faults.processes import Hung, own_mounts
from tests.support.faults.simulated import ENDING, PRETENDED, SIMULATED
from tests.support.faults.trial import CannotStrike, Missed, Trial, record

DEADLINE_SECONDS = 600.0
"""Of a process: of two processors that are busy with others, a campaign gets little."""
LAB_DEADLINE_SECONDS = 240.0
PER_CAMPAIGN = 4
PER_LAB_CAMPAIGN = 15
ATTEMPTS = 5
"""To strike a process before it has ended."""

_BEGIN = ("search", "--campaign", "c", "--format", "json", "--seed")
COURSES = (
    SearchCourse((*_BEGIN, "1", "--budget", "80runs")),
    SearchCourse((*_BEGIN, "2", "--budget", "80runs", "--pairs", "4")),
    SearchCourse((*_BEGIN, "3", "--budget", "70runs", "--subsystem", "H")),
)
_MODULE = "tests.support.faults.pretended"


class Strikes:
    """Strikes faults, one campaign after another."""

    def __init__(self, place: Path, rng: Random, tally: Tally) -> None:
        self._place, self._rng, self.tally = place, rng, tally
        self._wholes: dict[SearchCourse, Whole] = {}
        self._campaigns = 0

    def on_simulator(self, kinds: Sequence[str]) -> None:
        """Strike one campaign on the simulator, and compare it in the end with one that was left alone."""
        course = self._rng.choice(COURSES)
        if course not in self._wholes:
            self._wholes[course] = uninterrupted(course, self._place / f"whole-{len(self._wholes)}", DEADLINE_SECONDS)
        self._strike(kinds, course, self._wholes[course], None)

    def on_pretended_hosts(self, kinds: Sequence[str]) -> None:
        """Strike one campaign on hosts that are folders."""
        hosts = self._place / "hosts.yaml"
        hosts.write_text(INVENTORY.format(python=sys.executable))
        begin = ("search", "--campaign", "c", "--format", "json", "--hosts", str(hosts), "--budget", "90runs")
        self._strike(kinds, SearchCourse(begin), None, (sys.executable, "-m", _MODULE, "hosts"))

    def _strike(
        self, kinds: Sequence[str], course: SearchCourse, whole: Whole | None, launcher: tuple[str, ...] | None
    ) -> None:
        left = list(kinds)
        for _attempt in range(ATTEMPTS):
            with ExitStack() as stack:
                self._campaigns += 1
                folder = stack.enter_context(small_disk(self._place / f"campaign-{self._campaigns}"))
                trial = Trial(folder, course, self._rng, DEADLINE_SECONDS, whole, launcher)
                if not (left := self._go_through(trial, left)):
                    return
        raise CannotStrike(f"campaigns end before {left} can strike")

    def _go_through(self, trial: Trial, kinds: Sequence[str]) -> list[str]:
        """Strike a campaign with one kind after another; return those that came too late."""
        for index, kind in enumerate(kinds):
            try:
                outcome = {**SIMULATED, **PRETENDED}[kind](trial)
                if not trial.over:
                    trial.check()
            except Missed:
                trial.finish()
                record(self.tally, f"a campaign that ended before {kind}", None, trial)
                return list(kinds[index:])
            except Hung as hung:
                trial.violations.append(str(hung))
                record(self.tally, kind, "hung", trial)
                return list(kinds[index + 1 :])
            record(self.tally, kind, outcome, trial)
            if trial.over:
                return list(kinds[index + 1 :])
        if trial.whole is not None:
            trial.finish()
            record(self.tally, f"the end of a campaign with {kinds}", None, trial)
        return []


def simulated(faults: int, seed: int, only: Sequence[str], phases: int, tally: Tally) -> None:
    """Strike campaigns on the simulator, and on pretended hosts."""
    rng = Random(f"faults {seed}")
    if phases > 1:
        raise ValueError("--phases is of campaigns on the lab")
    kinds = drawn(only or [*SIMULATED, *PRETENDED], faults, rng)
    with tempfile.TemporaryDirectory(prefix="collie-faults-") as place:
        strikes = Strikes(Path(place), rng, tally)
        for group in grouped([kind for kind in kinds if kind in SIMULATED], PER_CAMPAIGN, ENDING):
            strikes.on_simulator(group)
        for group in grouped([kind for kind in kinds if kind in PRETENDED], PER_CAMPAIGN, ENDING):
            strikes.on_pretended_hosts(group)
        left = [path.name for path in Path(place).iterdir() if path.suffix in (".out", ".err", ".tmp", ".offset")]
        tally.violations += [f"files are left: {left}"] if left else []


def on_lab(faults: int, seed: int, only: Sequence[str], phases: int, tally: Tally) -> None:
    """Strike campaigns on lab machines, several faults to a campaign."""
    rng, hosts = Random(f"lab faults {seed}"), LabHosts()
    kinds = drawn(only or [*LAB], faults, rng)
    begin = ("search", "--campaign", "c", "--format", "json", "--hosts", str(hosts.inventory), "--budget", "5000runs")
    machines = hosts.names
    tally.violations += [f"before the first fault: {each}" for each in hosts.left()]
    with tempfile.TemporaryDirectory(prefix="collie-faults-") as place:
        for number, group in enumerate(grouped(kinds, PER_LAB_CAMPAIGN, frozenset())):
            with small_disk(Path(place) / f"campaign-{number}") as folder:
                course = SearchCourse((*begin, *LIGHT, "--phases", str(phases), "--seed", str(seed + number)))
                campaign = LabCampaign(Trial(folder, course, rng, LAB_DEADLINE_SECONDS), hosts)
                try:
                    _strike_lab(campaign, group, tally)
                finally:
                    campaign.leave()
    tally.violations += [f"in the end: {each}" for each in hosts.wait_until_nothing_is_left(SILENCE_SECONDS)]
    if hosts.names != machines or not hosts.answering:
        tally.violations.append(f"machines: {machines} before, {hosts.names} after, answering: {hosts.answering}")


def _strike_lab(campaign: LabCampaign, kinds: Sequence[str], tally: Tally) -> None:
    for kind in kinds:
        began = time.monotonic()
        outcome = strike(campaign, kind)
        record(tally, kind, outcome, campaign.trial, f", {time.monotonic() - began:.0f} s")
    campaign.finish()
    record(tally, f"the end of a campaign of {len(kinds)} faults", None, campaign.trial)


def main() -> int:
    """Strike, check, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--testbed", choices=["simulated", "lab"], required=True)
    parser.add_argument("--faults", type=int, required=True, help=f"every kind strikes {LEAST} times at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="KIND", action="append", default=[], help="this kind alone; repeatable")
    parser.add_argument("--phases", type=int, default=1, help="of each set-up, on the lab")
    options = parser.parse_args()
    install_handlers()  # what is mounted or running goes with this process
    struck = simulated if options.testbed == "simulated" else on_lab
    began, tally, interrupted = time.monotonic(), Tally(), False
    try:
        require_tools()
        own_mounts()
        struck(options.faults, options.seed, options.only, options.phases, tally)
    except (ValueError, CannotStrike) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        interrupted = True
    print(tally.table())
    print(f"{time.monotonic() - began:.0f} s")
    print("\n".join(tally.violations), file=sys.stderr)
    return 130 if interrupted else 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main())
