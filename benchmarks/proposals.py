"""What do the proposals of a search reach? Mechanisms of a simulated subsystem that its first runs show.

    python benchmarks/proposals.py --subsystems F,G --seeds 1-24
    python benchmarks/proposals.py --variants guided,no-learning --runs 735 --covered 0

A campaign of ten hours takes a minute of CPU, and most of its testbed time goes into confirmations and explanations.
This script asks a strategy alone. It measures what is proposed, tells the strategy, and credits each run to a mechanism
by the ground truth. So it tells the parts of `guided` apart on many seeds. It asserts nothing.

Explanations are imitated: once a mechanism has shown four times, a share of what shows it counts as covered by its set
(`--covered`), and is skipped. A set of a real explanation covers about half of what a search proposes of its cause.

A variant is `guided` with some constants of `collie.search.guided` changed. All variants have the same seeds.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from random import Random
from statistics import fmean, stdev
from typing import Any

from collie.content.catalogs import load_catalog
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.ports import Measured
from collie.search import guided
from collie.search.phases import roomy
from collie.search.strategies import build
from collie.search.strategy import Answer, ProposalOutcome, Strategy
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed
from collie.simulator.truth import Truth
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload
from tests.support.results import parse_seeds

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "guided": {},
    "all-goals": {"_ALIKE": 2.0},
    "own-runs-only": {"_OTHER_TRANSPORT": 1e-9},
    "goals-choose-messages": {"_FREE_MESSAGES": 0.0},
    "free-messages": {"_FREE_MESSAGES": 1.0},
    "softer": {"_SOFTNESS": 0.3},
}
"""Constants of `collie.search.guided` by variant."""
NO_LEARNING, RANDOM = "no-learning", "random"
"""`guided` whose proposals are all like the first random ones, and the recipe `random`."""
KNOWN = (*VARIANTS, NO_LEARNING, RANDOM)

_KNOWN_AFTER = 4
"""Runs that show a mechanism before it counts as explained."""
_TRIES = 20
"""Consecutive proposals that do not fit a set-up, or are covered, after which it has no further phase."""


@dataclass(frozen=True)
class Task:
    """One search: a variant on a subsystem with a seed, and for how many runs."""

    subsystem: str
    variant: str
    seed: int
    runs: int
    covered: float


def reached(task: Task) -> dict[Mechanism, int]:
    """Return the number of the run that shows each mechanism first."""
    with _constants(VARIANTS.get(task.variant, {})):
        return _Search(task).reached()


@contextmanager
def _constants(changed: Mapping[str, Any]) -> Iterator[None]:
    before = {name: getattr(guided, name) for name in changed}
    vars(guided).update(changed)
    try:
        yield
    finally:
        vars(guided).update(before)


class _Search:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._space, self._truth = _ground(task.subsystem)
        self._testbed = SimulatedTestbed(_file(task.subsystem), load_catalog("simulated"), seed=task.seed)
        recipe = load_recipe(RANDOM if task.variant == RANDOM else "guided")
        if task.variant == NO_LEARNING:
            recipe = replace(recipe, guide=replace(recipe.guide, random_share=1.0))
        self._phases = load_recipe("guided").phases
        self._strategy: Strategy = build(recipe, self._space, self._testbed.info.catalog, Random(task.seed))
        self._shown: Counter[Mechanism] = Counter()
        self._first: dict[Mechanism, int] = {}
        self._runs = self._asked = 0

    def reached(self) -> dict[Mechanism, int]:
        kept: list[Workload] = []
        while self._runs < self._task.runs:
            workload = kept.pop() if kept else self._strategy.ask()
            set_up = SetUp(roomy(self._space, workload))
            if self._measured(workload, set_up):
                kept += self._further_phases(set_up.after(workload))
        return self._first

    def _further_phases(self, set_up: SetUp) -> list[Workload]:
        """Measure what fits a set-up. Return the last proposal that did not."""
        failed, other = 0, None
        while len(set_up.before) < self._phases and failed < _TRIES and self._runs < self._task.runs:
            workload = self._strategy.ask_on(set_up)
            if workload is None:
                break
            if self._space.misfit(workload, set_up.made_for) is not None:
                failed, other = failed + 1, workload
            elif self._measured(workload, set_up):
                set_up = set_up.after(workload)
            else:
                failed += 1
        return [other] if other is not None and failed >= _TRIES else []

    def _measured(self, workload: Workload, on: SetUp) -> bool:
        """Run a workload unless it is covered, and tell the strategy. Return whether it was measured."""
        mechanism = self._truth.mechanism(workload, on)
        if mechanism is not None and self._shown[mechanism] >= _KNOWN_AFTER and self._is_covered(workload):
            self._strategy.tell(workload, Answer(ProposalOutcome.SKIPPED))
            return False
        self._asked += 1
        result = self._testbed.measure(workload, self._asked, on=on)
        if not isinstance(result, Measured):
            self._strategy.tell(workload, Answer(ProposalOutcome.FAILED))
            return False
        self._runs += 1
        if mechanism is not None:
            self._shown[mechanism] += 1
            self._first.setdefault(mechanism, self._runs)
        self._strategy.tell(workload, Answer(ProposalOutcome.MEASURED, result.measurement))
        return True

    def _is_covered(self, workload: Workload) -> bool:
        """Whether a workload of a known cause lies in its set: always the same workloads, whatever the strategy."""
        return hashlib.sha256(repr(workload).encode()).digest()[0] < 256 * self._task.covered


@cache
def _file(subsystem: str) -> SubsystemFile:
    return load_subsystem(subsystem, SubsystemFile)


@cache
def _ground(subsystem: str) -> tuple[Space, Truth]:
    space = load_space("nsdi22")
    return space, Truth(_file(subsystem), space)


def table(subsystem: str, runs: int, counts: Mapping[str, Sequence[Mapping[Mechanism, int]]]) -> str:
    """Return a table of one subsystem: mechanisms reached by each variant, and their difference from the first."""
    marks = [mark for mark in (60, 120, 240) if mark < runs] + [runs]
    names = list(dict.fromkeys(m for searches in counts.values() for found in searches for m in found))
    lines = [
        f"| on {subsystem}, in runs | " + " | ".join(map(str, marks)) + f" | against the first | {' | '.join(names)} |",
        "|---" * (len(marks) + 2 + len(names)) + "|",
    ]
    first = next(iter(counts.values()))
    for variant, searches in counts.items():
        means = [f"{fmean(sum(run <= mark for run in found.values()) for found in searches):.2f}" for mark in marks]
        gains = [len(found) - len(other) for found, other in zip(searches, first, strict=True)]
        error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
        against = "-" if searches is first else f"{fmean(gains):+.2f} ({error:.2f})"
        shares = [f"{fmean(name in found for found in searches):.2f}" for name in names]
        lines.append(f"| {variant} | {' | '.join(means)} | {against} | {' | '.join(shares)} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subsystems", default="F", help="names or files, separated by commas")
    parser.add_argument("--variants", default=",".join(KNOWN))
    parser.add_argument("--seeds", default="1-24", type=parse_seeds, help="as 1-24 or 1,5,7-9")
    parser.add_argument("--runs", type=int, default=330, help="a campaign of guided on F has about as many in 10 h")
    parser.add_argument("--covered", type=float, default=0.5, help="share of a known cause that its set covers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(words)
    variants = options.variants.split(",")
    if unknown := set(variants).difference(KNOWN):
        parser.error(f"there is no variant {', '.join(sorted(unknown))}; there are {', '.join(KNOWN)}")

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes are parallel; threads inside would fight over cores
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for subsystem in options.subsystems.split(","):
            counts = {}
            for variant in variants:
                tasks = [Task(subsystem, variant, seed, options.runs, options.covered) for seed in options.seeds]
                counts[variant] = list(pool.map(reached, tasks))
                print(f"{subsystem}: {variant}", file=sys.stderr, flush=True)
            print(table(subsystem, options.runs, counts), flush=True)


if __name__ == "__main__":
    main()
