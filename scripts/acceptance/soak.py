"""A lab campaign of hours with a fault every few minutes: does it finish, and do memory and descriptors stay flat?

    .venv/bin/python scripts/acceptance/soak.py --hosts lab --hours 2 --fault-every 3m

Needs `collie lab up`, and root, as the faults do (scripts/acceptance/faults.py). Resident memory and open descriptors
of the controller and of the agents, and memory and open files of the hosts, are read every few seconds. What a fault
ends begins anew, so a leak shows within one life alone: in the first half of the time every kind strikes, in the second
those that controller and agents survive. Of the longest life of each the median of the last quarter may exceed that of
the second by the allowance in the table. Exit code 1 when something grows, or a fault was not survived.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from collie.errors import UsageError
from collie.interrupts import install_handlers
from collie.workloads.units import parse_seconds
from tests.support.faults.disks import require_tools, small_disk
from tests.support.faults.flatness import Allowance, Reading, Value, table, trends
from tests.support.faults.kills import SearchCourse
from tests.support.faults.lab import LAB, SURVIVED, strike
from tests.support.faults.lab_campaign import LIGHT, SILENCE_SECONDS, LabCampaign
from tests.support.faults.lab_hosts import LabHosts, Unanswered
from tests.support.faults.plan import Tally
from tests.support.faults.processes import Hung, footprint, own_mounts
from tests.support.faults.trial import CannotStrike, Missed, Trial, record

DEADLINE_SECONDS = 240.0
READ_EVERY_SECONDS = 10.0
DISK_MEBIBYTES = 512
MIN_LIFE = 0.25
"""Of the whole time, that something has to live for its trend to be told."""
_MEMORY, _DESCRIPTORS = Allowance(0.05, 4.0), Allowance(0.0, 4.0)
_HOST_MEMORY, _HOST_FILES = Allowance(0.15, 32.0), Allowance(0.1, 64.0)


def allowances(hosts: LabHosts) -> dict[str, Allowance]:
    """Return what is read, and by how much each may grow.

    A controller keeps in memory what it has measured, some kilobytes a run; slabs of a kernel settle over the first
    quarter.
    """
    found = {"controller, MiB resident": _MEMORY, "controller, descriptors": _DESCRIPTORS}
    for name in hosts.names:
        found[f"agent on {name}, MiB resident"] = _MEMORY
        found[f"agent on {name}, descriptors"] = _DESCRIPTORS
        found[f"{name}, MiB in use"] = _HOST_MEMORY
        found[f"{name}, open files"] = _HOST_FILES
    return found


def read(campaign: LabCampaign) -> dict[str, Value]:
    """Read everything that is there to be read."""
    values: dict[str, Value] = {}
    if campaign.controller is not None and (own := footprint(life := campaign.controller.process.pid)):
        values |= {"controller, MiB resident": Value(own[0], life), "controller, descriptors": Value(own[1], life)}
    for name in campaign.hosts.names:
        with suppress(Unanswered):
            values |= campaign.hosts.footprint(name)
    return values


class Soak:
    """One campaign, its faults and its readings."""

    def __init__(self, campaign: LabCampaign, rng: Random, seconds: float, fault_every_seconds: float) -> None:
        self._campaign, self._rng = campaign, rng
        self._seconds, self._every = seconds, fault_every_seconds
        self._began = time.monotonic()
        self.tally = Tally()
        self.readings: list[Reading] = []

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def run(self) -> None:
        """Let the campaign run, strike, and read, until time is up."""
        any_kind, survived = self._drawn(LAB), self._drawn(SURVIVED)
        for number in itertools.count(1):
            self._watch(min(number * self._every, self._seconds))
            if self._elapsed >= self._seconds:
                break
            began = self._elapsed
            kind = next(any_kind if began < self._seconds / 2 else survived)
            outcome = strike(self._campaign, kind)
            when = f", at {began:.0f} s, {self._elapsed - began:.0f} s"
            record(self.tally, kind, outcome, self._campaign.trial, when)
        self._campaign.finish()
        record(self.tally, "the end", None, self._campaign.trial)

    def _drawn(self, kinds: Collection[str]) -> Iterator[str]:
        """Yield every kind in random order, again and again."""
        while True:
            yield from self._rng.sample([*kinds], len(kinds))

    def _watch(self, until: float) -> None:
        """Keep a controller at work, and read, until a moment; once at least, as the last fault may have taken long."""
        while True:
            self._see_it_at_work()
            self.readings.append(Reading(self._elapsed, read(self._campaign)))
            if self._elapsed + READ_EVERY_SECONDS > until:
                time.sleep(max(0.0, until - self._elapsed))
                return
            time.sleep(READ_EVERY_SECONDS)

    def _see_it_at_work(self) -> None:
        """Wait for another run on record; a controller that ends or hangs without a fault is a violation."""
        campaign, trial = self._campaign, self._campaign.trial
        try:
            if campaign.controller is not None and not campaign.controller.running:
                raise Missed
            campaign.live()
        except Missed:
            assert campaign.controller is not None
            ended = trial.end(campaign.controller)
            trial.expect(False, f"the controller ended without a fault, exit {ended.code}: {ended.err[-800:]}")
            campaign.leave()
        except Hung as hung:
            trial.expect(False, str(hung))
            campaign.end_anyhow()
        record(self.tally, f"{self._elapsed:.0f} s, between faults", None, trial)


def main() -> int:
    """Soak, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", choices=["lab"], required=True)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--fault-every", default="3m", metavar="3m|90s")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    install_handlers()  # what is mounted or running goes with this process
    try:
        every = parse_seconds(options.fault_every)
        require_tools()
        own_mounts()
        hosts = LabHosts()
        inventory, wanted = str(hosts.inventory), allowances(hosts)
    except (CannotStrike, UsageError, ValueError) as error:
        parser.error(str(error))
    begin = ("search", "--campaign", "c", "--format", "json", "--hosts", inventory, "--budget", "100000runs", *LIGHT)
    seconds, rng = 3600 * options.hours, Random(f"soak {options.seed}")
    with (
        tempfile.TemporaryDirectory(prefix="collie-soak-") as place,
        small_disk(Path(place) / "campaign", DISK_MEBIBYTES) as folder,
    ):
        course = SearchCourse((*begin, "--seed", str(options.seed)))
        campaign = LabCampaign(Trial(folder, course, rng, DEADLINE_SECONDS), hosts)
        soak = Soak(campaign, rng, seconds, every)
        try:
            soak.run()
        finally:
            campaign.leave()
    left = hosts.wait_until_nothing_is_left(SILENCE_SECONDS)
    print(f"{soak.tally.table()}\n\nleft on hosts: {', '.join(left) or 'nothing'}\n", flush=True)
    found = trends(soak.readings, wanted, MIN_LIFE * seconds)
    print(table(found))
    print("\n".join(soak.tally.violations), file=sys.stderr)
    return 1 if soak.tally.violations or left or not all(each.flat for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
