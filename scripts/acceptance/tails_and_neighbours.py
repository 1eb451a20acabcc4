"""Acceptance of latency and isolation on the simulator.

    python scripts/acceptance/tails_and_neighbours.py KIND ... [--seeds 20] [--first 1] [--results DIR]
    python scripts/acceptance/tails_and_neighbours.py --page

A kind of campaign is `late`, `healthy`, `isolate`, `wait` or `verbs`. `late` searches the space `offered-load` on
F-late, G-late and H-late: which of their delays are found and explained. `healthy` does so on F-healthy: no anomaly may
be false. `isolate` searches for what holds up a victim on F, G and H:
which of the resources that can hold it up have an aggressor. A resource counts if it limits the victim in at least 1 %
of the random workloads beside which the victim loses a fifth more than beside their plain siblings. `wait` does so with
a victim that offers 10 Gbit/s: what there is to be found is the victim's two symptoms, loss and latency. `verbs` does
so on F-verbs in the space `control-verbs`: which of its control verbs and errors have an aggressor.

A line is printed for each campaign, and kept with the results: a killed script goes on. `--page` writes
docs/evidence/tails-and-neighbours.md from them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

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
from collie.simulator.cures import cured
from collie.simulator.draws import draw
from collie.simulator.hardware import Subsystem
from collie.simulator.mechanism import Mechanism
from collie.simulator.tenants import kept_beside, victim_beside
from collie.simulator.truth import Truth
from collie.wiring import ADAPTERS
from collie.workloads.space import Space
from tests.support.results import append, last_commit, read_results
from tests.support.tails_and_neighbours import page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "tails-and-neighbours.md"
_DEPENDS_ON = ("collie", "workloads", "search", "counters", "scripts/acceptance/tails_and_neighbours.py")
SPACE, TENANTS = load_space("offered-load"), load_space("tenants")
DELAYS = {
    Mechanism.ACKNOWLEDGEMENT_TIMER,
    Mechanism.COLD_REGIONS,
    Mechanism.LONG_LISTS,
    Mechanism.LOOPBACK_BURSTS,
}
KINDS = {
    "late": ("F-late", "G-late", "H-late"),
    "healthy": ("F-healthy",),
    "isolate": ("F", "G", "H"),
    "wait": ("F", "G", "H"),
    "verbs": ("F-verbs",),
}
"""The subsystems of each kind of campaign."""
SPACES = {"isolate": TENANTS, "wait": TENANTS, "verbs": load_space("control-verbs")}
"""Where it is not `SPACE`."""
VERBS = (
    Mechanism.NEW_REGIONS,
    Mechanism.NEW_QUEUE_PAIRS,
    Mechanism.NEW_ADDRESS_HANDLES,
    Mechanism.QUEUE_PAIR_ERRORS,
)
_LOST = 0.2
_COMMON = 0.01
_LOAD = 10 * 10**9


class Task(NamedTuple):
    """One campaign. `kind` is one of `KINDS`, `commit` that of the code."""

    kind: str
    subsystem: str
    seed: int
    budget: str
    commit: str


class Outcome(NamedTuple):
    """What there is to be found in a campaign, the cause of each anomaly, and the number of false ones."""

    planted: frozenset[str]
    cause_of: dict[str, str]
    false: int


def run(task: Task) -> dict[str, Any]:
    """Run one campaign."""
    isolates = task.kind in ("isolate", "wait", "verbs")
    space = SPACES.get(task.kind, SPACE)
    testbed = TestbedChoice(subsystem=task.subsystem, victim=isolates, victim_bps=_LOAD if task.kind == "wait" else 0)
    recipe = "isolate" if isolates else "guided"
    choice = SearchChoice(testbed, space=space.name, recipe=recipe, budget=task.budget, seed=task.seed)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        opened = campaigns.begin(ADAPTERS, choice, Path(folder) / "campaign")
        try:
            summary = opened.run(Silence())
        finally:
            opened.close()
    wall = time.perf_counter() - began
    judge = {"isolate": _isolated, "wait": _waiting, "verbs": _by_verbs}.get(task.kind, _late)
    outcome = judge(task.subsystem, summary)
    own = [each for each in summary.anomalies if each.same_as is None]
    return {
        **task._asdict(),
        "planted": sorted(outcome.planted),
        "found": sorted(outcome.planted & {outcome.cause_of[each.id] for each in own}),
        "explained": sorted(outcome.planted & {outcome.cause_of[each.id] for each in own if each.complete}),
        "false": outcome.false,
        "anomalies": [
            {
                "cause": outcome.cause_of[each.id],
                "severity": each.severity,
                "complete": each.complete,
                "mfs": str(each.mfs),
            }
            for each in own
        ],
        "wall_seconds": wall,
    }


def _late(subsystem: str, summary: Summary) -> Outcome:
    score = _truth(subsystem).score(summary.anomalies)
    planted = frozenset(score.planted) & {mechanism.value for mechanism in DELAYS}
    return Outcome(planted, {name: str(cause) for name, cause in score.mechanisms.items()}, score.false)


def _isolated(subsystem: str, summary: Summary) -> Outcome:
    hardware = wiring.subsystem_of(TestbedChoice(subsystem=subsystem)).hardware
    limits = {each.id: kept_beside(hardware, each.workload, each.set_up).limit for each in summary.anomalies}
    return Outcome(_exhaustible(subsystem), limits, _losing_nothing(hardware, summary, TENANTS))


def _by_verbs(subsystem: str, summary: Summary) -> Outcome:
    hardware = wiring.subsystem_of(TestbedChoice(subsystem=subsystem)).hardware
    causes = {each.id: _costliest(hardware, each) for each in summary.anomalies}
    false = _losing_nothing(hardware, summary, SPACES["verbs"])
    return Outcome(frozenset(mechanism.value for mechanism in VERBS), causes, false)


def _costliest(hardware: Subsystem, anomaly: Anomaly) -> str:
    """Return which of the control verbs and errors takes most from the victim, or what limits it without them."""
    usual = kept_beside(hardware, anomaly.workload, anomaly.set_up)
    kept = {each: kept_beside(cured(hardware, [each]), anomaly.workload, anomaly.set_up).bps for each in VERBS}
    most = max(VERBS, key=kept.__getitem__)
    return most.value if kept[most] > usual.bps / (1.0 - _LOST / 2) else usual.limit


def _losing_nothing(hardware: Subsystem, summary: Summary, space: Space) -> int:
    """Return the number of anomalies beside which the noiseless victim does not lose half of the threshold."""
    return sum(
        kept_beside(hardware, each.workload, each.set_up).bps
        > (1.0 - _LOST / 2) * kept_beside(hardware, plain_sibling(each.workload, space)).bps
        for each in summary.anomalies
    )


def _waiting(subsystem: str, summary: Summary) -> Outcome:
    hardware = wiring.subsystem_of(TestbedChoice(subsystem=subsystem)).hardware
    return Outcome(
        frozenset({Symptom.VICTIM_LOSS.value, Symptom.VICTIM_LATENCY.value}),
        {each.id: each.symptom.value for each in summary.anomalies},
        sum(not _is_held_up(hardware, each) for each in summary.anomalies),
    )


def _is_held_up(hardware: Subsystem, anomaly: Anomaly) -> bool:
    """Whether the noiseless victim loses half of the threshold, or has half of its ratio of latencies."""
    sibling = plain_sibling(anomaly.workload, TENANTS)
    kept, here = victim_beside(hardware, anomaly.workload, anomaly.set_up, _LOAD)
    usual, there = victim_beside(hardware, sibling, None, _LOAD)
    if anomaly.symptom is Symptom.VICTIM_LOSS:
        return bool(kept.bps <= (1.0 - _LOST / 2) * usual.bps)
    return bool(max(here.median / there.median, here.p99 / there.p99) >= Thresholds().latency_ratio / 2)


@cache
def _truth(subsystem: str) -> Truth:
    return Truth(wiring.subsystem_of(TestbedChoice(subsystem=subsystem)), SPACE)


@cache
def _exhaustible(subsystem: str) -> frozenset[str]:
    """Return the resources that commonly hold up the victim of a random workload."""
    hardware = wiring.subsystem_of(TestbedChoice(subsystem=subsystem)).hardware
    found: Counter[str] = Counter()
    for workload in draw(hardware, TENANTS):
        kept = kept_beside(hardware, workload)
        if kept.bps < (1.0 - _LOST) * kept_beside(hardware, plain_sibling(workload, TENANTS)).bps:
            found[kept.limit] += 1
    return frozenset(limit for limit, count in found.items() if count >= _COMMON * found.total())


def run_all(tasks: Sequence[Task], jobs: int, path: Path) -> int:
    """Run campaigns in parallel, and keep each as it ends. Return how many failed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes are parallel; threads inside would fight over cores
    failed = 0
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        asked = {pool.submit(run, task): task for task in tasks}
        for number, done in enumerate(as_completed(asked), 1):
            task = asked[done]
            name = f"{number}/{len(tasks)} {task.kind} {task.subsystem} seed {task.seed}"
            if error := done.exception():
                failed += 1
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                continue
            result = done.result()
            append(path, result)
            missed = ", ".join(sorted({*result["planted"]} - {*result["found"]})) or "none"
            print(
                f"{name}: found {len(result['found'])} of {len(result['planted'])}, explained "
                f"{len(result['explained'])}, false {result['false']}, missed {missed}, {result['wall_seconds']:.0f} s",
                flush=True,
            )
    return failed


def main(argv: Sequence[str] | None = None) -> int:
    """Run campaigns, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seeds", type=int, default=20, help="campaigns per subsystem")
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", default="10h")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "tails-and-neighbours", metavar="DIR")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)} from the results")
    options = parser.parse_args(argv)
    if unknown := {*options.kinds} - {*KINDS}:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    path, commit = options.results / "results.jsonl", last_commit(ROOT, _DEPENDS_ON)
    if not options.page:
        options.results.mkdir(parents=True, exist_ok=True)
        done = {tuple(result[field] for field in Task._fields) for result in read_results(path)}
        seeds = range(options.first, options.first + options.seeds)
        tasks = [
            Task(kind, name, seed, options.budget, commit)
            for seed in seeds
            for kind in options.kinds
            for name in KINDS[kind]
        ]
        return 1 if run_all([task for task in tasks if task not in done], options.jobs, path) else 0
    results = [result for result in read_results(path) if result["commit"] == commit]
    if not results:
        print(f"{path} has no campaign of commit {commit}", file=sys.stderr)
        return 2
    PAGE.write_text(page(results, commit))
    return 0


if __name__ == "__main__":
    sys.exit(main())
