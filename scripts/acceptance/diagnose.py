"""Acceptance of `collie diagnose`: whether the first change belongs to the planted mechanism, and whether it mends.

    python scripts/acceptance/diagnose.py [--points 67] [--seed 1] [--jobs 2] [F G H]

Anomalous workloads are drawn from the space of the paper, of no mechanism more than twice its share. A change belongs
to the mechanism if the mechanism costs nothing after it, by the noiseless model. A change mends if the noiseless model
of the changed workload is normal.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from random import Random
from statistics import median
from typing import NamedTuple

from collie import wiring
from collie.app import sessions
from collie.app.diagnoses import drive
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.events import Silence
from collie.content.spaces import load_space
from collie.detect.interval import wilson
from collie.report.quantities import interval
from collie.simulator.mechanism import Mechanism
from collie.simulator.truth import Truth
from collie.wiring import ADAPTERS
from collie.workloads.workload import Workload

SPACE = load_space("nsdi22")
_SHARES = 2


class Task(NamedTuple):
    """One anomalous workload of a subsystem, with the mechanism that causes it."""

    subsystem: str
    workload: Workload
    mechanism: Mechanism
    seed: int


class Outcome(NamedTuple):
    """What became of it. `belongs` and `mends` are None without advice."""

    task: Task
    shown: bool
    belongs: bool | None
    mends: bool | None
    minutes: float
    words: str


def points(subsystem: str, count: int, seed: int) -> list[Task]:
    """Draw anomalous workloads."""
    truth, rng = _truth(subsystem), Random(f"{subsystem}/{seed}")
    most = max(1, _SHARES * count // len(truth.shown))
    taken: Counter[Mechanism] = Counter()
    found: list[Task] = []
    while len(found) < count:
        workload = SPACE.sample(rng)
        mechanism = None if truth.obstacle(workload) else truth.mechanism(workload)
        if mechanism is not None and taken[mechanism] < most:
            taken[mechanism] += 1
            found.append(Task(subsystem, workload, mechanism, len(found)))
    return found


def diagnosed(task: Task) -> Outcome:
    """Diagnose one workload on the simulated testbed, with its noise."""
    truth = _truth(task.subsystem)
    choice = SearchChoice(TestbedChoice(subsystem=task.subsystem), seed=task.seed)
    with sessions.open_session(ADAPTERS, choice, Silence()) as session:
        found = drive(session, task.workload)
        minutes = session.elapsed_seconds / 60
    if found.advised is None:
        return Outcome(task, found.is_anomalous, None, None, minutes, "no advice")
    first = (*found.kept, found.advised)[0]
    belongs = truth.costs(first.run.workload).get(task.mechanism, 0.0) <= 0.0
    mends = not truth.verdict(found.advised.run.workload).is_anomalous
    return Outcome(task, True, belongs, mends, minutes, first.dimension)


@cache
def _truth(subsystem: str) -> Truth:
    return Truth(wiring.subsystem_of(TestbedChoice(subsystem=subsystem)), SPACE)


def _row(name: str, outcomes: Sequence[Outcome]) -> str:
    shown = [each for each in outcomes if each.shown]
    parts = [f"{name}: {len(outcomes)} points, {len(shown)} anomalous when measured"]
    for title, values in (
        ("the first change belongs to the mechanism", [bool(each.belongs) for each in shown]),
        ("the advised change mends", [bool(each.mends) for each in shown]),
    ):
        if (found := wilson(sum(values), len(values))) is not None:
            parts.append(f"{title} in {sum(values)} ({sum(values) / len(values):.1%}, {interval(found)})")
    parts.append(f"{median(each.minutes for each in shown):.1f} min in the median")
    return "; ".join(parts)


def main() -> int:
    """Diagnose all points, and print a row for each subsystem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subsystems", nargs="*", default=["F", "G", "H"])
    parser.add_argument("--points", type=int, default=67, help="of each subsystem  [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    tasks = [task for name in options.subsystems for task in points(name, options.points, options.seed)]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        outcomes = list(pool.map(diagnosed, tasks, chunksize=4))
    for name in options.subsystems:
        print(_row(name, [each for each in outcomes if each.task.subsystem == name]))
    print(_row("all", outcomes))
    for each in outcomes:
        if each.shown and not (each.belongs and each.mends):
            print(f"  {each.task.subsystem} {each.task.mechanism}: {each.words}, mends {each.mends}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
