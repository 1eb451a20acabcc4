"""Acceptance of latency and isolation on the simulator.

    python scripts/acceptance/tails_and_neighbours.py late|healthy|isolate|wait [F G H] [--seeds 20] [--first 1]

`late` searches the space `offered-load` on F-late, G-late and H-late: which of their delays are found and explained.
`healthy` does so on F-healthy: no anomaly may be false. `isolate` searches for what holds up a victim on F, G and H:
which of the resources that can hold it up have an aggressor. A resource counts if it limits the victim in at least 1 %
of the random workloads beside which the victim loses a fifth more than beside their plain siblings. `wait` does so with
a victim that offers 10 Gbit/s: what there is to be found is the victim's two symptoms, loss and latency. One line is
printed for each campaign, then sums.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from collie import wiring
from collie.app import campaigns
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.events import Silence
from collie.campaign.summary import Summary
from collie.content.spaces import load_space
from collie.detect.plain import plain_sibling
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.search.anomaly import Anomaly
from collie.simulator.draws import draw
from collie.simulator.hardware import Subsystem
from collie.simulator.mechanism import Mechanism
from collie.simulator.tenants import kept_beside, victim_beside
from collie.simulator.truth import Truth
from collie.wiring import ADAPTERS

SPACE = load_space("offered-load")
DELAYS = {
    Mechanism.ACKNOWLEDGEMENT_TIMER,
    Mechanism.COLD_REGIONS,
    Mechanism.LONG_LISTS,
    Mechanism.LOOPBACK_BURSTS,
}
_LOST = 0.2
_COMMON = 0.01
_LOAD = 10 * 10**9


class Task(NamedTuple):
    """One campaign. `kind` is `late`, `healthy`, `isolate` or `wait`."""

    kind: str
    subsystem: str
    seed: int
    budget: str


class Outcome(NamedTuple):
    """What is there to be found, what was found and what was explained to the end, with the false anomalies."""

    task: Task
    planted: frozenset[str]
    found: frozenset[str]
    explained: frozenset[str]
    false: int
    seconds: float


def run(task: Task) -> Outcome:
    """Run one campaign."""
    isolates = task.kind in ("isolate", "wait")
    testbed = TestbedChoice(subsystem=task.subsystem, victim=isolates, victim_bps=_LOAD if task.kind == "wait" else 0)
    recipe = "isolate" if isolates else "guided"
    choice = SearchChoice(testbed, space=SPACE.name, recipe=recipe, budget=task.budget, seed=task.seed)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        opened = campaigns.begin(ADAPTERS, choice, Path(folder) / "campaign")
        try:
            summary = opened.run(Silence())
        finally:
            opened.close()
    wall = time.perf_counter() - began
    judge = {"isolate": _isolated, "wait": _waiting}.get(task.kind, _late)
    return judge(task, summary, wall)


def _late(task: Task, summary: Summary, wall: float) -> Outcome:
    score = _truth(task.subsystem).score(summary.anomalies)
    delays = {mechanism.value for mechanism in DELAYS}
    return Outcome(
        task,
        frozenset(score.planted) & delays,
        frozenset(score.found) & delays,
        frozenset(score.explained) & delays,
        score.false,
        wall,
    )


def _isolated(task: Task, summary: Summary, wall: float) -> Outcome:
    hardware = wiring.subsystem_of(TestbedChoice(subsystem=task.subsystem)).hardware
    limits = {
        anomaly.id: kept_beside(hardware, anomaly.workload, anomaly.set_up).limit for anomaly in summary.anomalies
    }
    complete = {anomaly.id for anomaly in summary.anomalies if anomaly.complete}
    false = sum(
        kept_beside(hardware, each.workload, each.set_up).bps
        > (1.0 - _LOST / 2) * kept_beside(hardware, plain_sibling(each.workload, SPACE)).bps
        for each in summary.anomalies
    )
    explained = frozenset(limits[name] for name in complete)
    return Outcome(task, _exhaustible(task.subsystem), frozenset(limits.values()), explained, false, wall)


def _waiting(task: Task, summary: Summary, wall: float) -> Outcome:
    hardware = wiring.subsystem_of(TestbedChoice(subsystem=task.subsystem)).hardware
    return Outcome(
        task,
        frozenset({Symptom.VICTIM_LOSS, Symptom.VICTIM_LATENCY}),
        frozenset(each.symptom for each in summary.anomalies),
        frozenset(each.symptom for each in summary.anomalies if each.complete),
        sum(not _is_held_up(hardware, each) for each in summary.anomalies),
        wall,
    )


def _is_held_up(hardware: Subsystem, anomaly: Anomaly) -> bool:
    """Whether the noiseless victim loses half of the threshold, or has half of its ratio of latencies."""
    sibling = plain_sibling(anomaly.workload, SPACE)
    kept, here = victim_beside(hardware, anomaly.workload, anomaly.set_up, _LOAD)
    usual, there = victim_beside(hardware, sibling, None, _LOAD)
    if anomaly.symptom is Symptom.VICTIM_LOSS:
        return kept.bps <= (1.0 - _LOST / 2) * usual.bps
    return max(here.median / there.median, here.p99 / there.p99) >= Thresholds().latency_ratio / 2


@cache
def _truth(subsystem: str) -> Truth:
    return Truth(wiring.subsystem_of(TestbedChoice(subsystem=subsystem)), SPACE)


@cache
def _exhaustible(subsystem: str) -> frozenset[str]:
    """Return the resources that commonly hold up the victim of a random workload."""
    hardware = wiring.subsystem_of(TestbedChoice(subsystem=subsystem)).hardware
    found: Counter[str] = Counter()
    for workload in draw(hardware, SPACE):
        kept = kept_beside(hardware, workload)
        if kept.bps < (1.0 - _LOST) * kept_beside(hardware, plain_sibling(workload, SPACE)).bps:
            found[kept.limit] += 1
    return frozenset(limit for limit, count in found.items() if count >= _COMMON * found.total())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaigns and print their sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("late", "healthy", "isolate", "wait"))
    parser.add_argument("subsystems", nargs="*", default=["F", "G", "H"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", default="10h")
    options = parser.parse_args(argv)
    names = {
        "late": [f"{name}-late" for name in options.subsystems],
        "healthy": ["F-healthy"],
        "isolate": options.subsystems,
        "wait": options.subsystems,
    }[options.kind]
    seeds = range(options.first, options.first + options.seeds)
    tasks = [Task(options.kind, name, seed, options.budget) for seed in seeds for name in names]
    outcomes = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for outcome in pool.map(run, tasks):
            outcomes.append(outcome)
            missed = ", ".join(sorted(outcome.planted - outcome.found)) or "none"
            print(
                f"{outcome.task.subsystem} seed {outcome.task.seed}: found {len(outcome.found & outcome.planted)} of "
                f"{len(outcome.planted)}, explained {len(outcome.explained & outcome.planted)}, false {outcome.false}, "
                f"missed {missed}, {outcome.seconds:.0f} s",
                flush=True,
            )
    for name in names:
        mine = [outcome for outcome in outcomes if outcome.task.subsystem == name]
        planted = sum(len(outcome.planted) for outcome in mine)
        found = sum(len(outcome.found & outcome.planted) for outcome in mine)
        explained = sum(len(outcome.explained & outcome.planted) for outcome in mine)
        false = sum(outcome.false for outcome in mine)
        print(f"{name}: {len(mine)} campaigns, found {found} and explained {explained} of {planted}, {false} false")
    return 0


if __name__ == "__main__":
    sys.exit(main())
