"""Compare searches: how many minutes of testbed time each needs to find the anomalies of a simulated subsystem.

    python benchmarks/search_efficiency.py --contenders random,nsdi22-diag --phases 1,8 --seeds 1-20 --output efficiency
    python benchmarks/search_efficiency.py --contenders guided --pairs 1,2,4,8,16 --seeds 1-10 --budget 40h \\
        --share-budget --until-all
    python benchmarks/search_efficiency.py --evidence

A contender is a recipe (name or file), with changes of its fields if any: `guided+guide.random_share=1.0`. It runs once
per seed, in memory, in a process of its own. All share the judge, the confirmation and the accounting: every run
counts, whatever it is for. Ground truth credits each confirmed anomaly to one mechanism; a mechanism is found when the
first of its anomalies that are reported on their own is confirmed, and explained if one of these is explained to the
end.

Prints two tables per subsystem and clock: minutes to the k-th mechanism, beside the paper's on F with one phase per
set-up; and what was found at which cost. With several numbers of pairs a third one, how much faster they are. --output
PREFIX appends each campaign as a line of JSON to PREFIX.jsonl, and draws PREFIX.png. A campaign whose line is there, of
the same commit, is not run again, so a killed script goes on. Asserts nothing.

--evidence runs what docs/evidence/search.md reports, or the given parts of it, and writes the page with its raw
results. --evidence page only writes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from collie.app import testbeds
from collie.campaign.budget import parse_budget
from collie.campaign.choice import TestbedChoice
from collie.campaign.events import AnomalyConfirmed, AnomalyExplained
from collie.campaign.run import Campaign
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.detect.bounds import Calibration
from collie.ports import CampaignHeader
from collie.search.anomaly import Anomaly
from collie.search.recipe import Recipe, StrategyName
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Score, Truth
from collie.store.memory import MemoryStore
from collie.testing.fakes import ListSink
from collie.wiring import ADAPTERS
from collie.workloads.pruning import prune
from collie.workloads.space import Space
from collie.workloads.workload import Workload
from tests.support.quality import precision, recall, true_region
from tests.support.results import Result, append, last_commit, parse_seeds, read_results
from tests.support.search_evidence import PARTS, Part, of_one_commit, page
from tests.support.search_tables import minutes_table, plot, speedup_table, summary_table

ROOT = Path(__file__).parents[1]
PAGE, FIGURE = ROOT / "docs" / "evidence" / "search.md", ROOT / "docs" / "images" / "search-F.png"
RAW = ROOT / "benchmarks" / "results" / "search-F.jsonl"
PROTOTYPE_RAW = ROOT / "benchmarks" / "results" / "prototype-F.jsonl"
"""Written by `benchmarks/prototype.py`."""
_DEPENDS_ON = (
    *("collie", "workloads", "search", "counters", "benchmarks/search_efficiency.py"),
    *("tests/support/quality.py", "tests/support/regions.py"),
)
DEFAULT_CONTENDERS = "random,nsdi22-perf-no-mfs,nsdi22-diag-no-mfs,nsdi22-perf,nsdi22-diag,optuna-tpe"
REGION_SEED = 1
"""Of the walks that recall is measured on: the same for every contender and seed."""


@dataclass(frozen=True)
class Task:
    """One campaign.

    Attributes:
        subsystem, space: names or files.
        contender: name or file of a recipe, with changes after plus signs.
        seed: of every random choice.
        budget: as on the command line.
        noise: of simulated readings.
        quality_points: points for precision and for recall; 0 measures neither.
        pairs: of hosts that measure at once.
        until_all: end with the last mechanism, whatever is left of the budget.
        phases: limit on the measurements of one set-up, or None for the recipe's.
        commit: of the code that runs it.
    """

    subsystem: str
    contender: str
    seed: int
    budget: str = "10h"
    noise: float = 1.0
    space: str = "nsdi22"
    quality_points: int = 200
    pairs: int = 1
    until_all: bool = False
    phases: int | None = None
    commit: str = ""

    @property
    def key(self) -> str:
        """What a line of results answers."""
        return json.dumps(dataclasses.asdict(self))


def recipe_of(task: Task) -> Recipe:
    """Load the recipe of a contender, and change it.

    Raises:
        ValueError: the recipe has no such field, or the value is no JSON.
    """
    name, *changes = task.contender.split("+")
    recipe = load_recipe(name)
    for change in changes:
        path, _, value = change.partition("=")
        recipe = _changed(recipe, path.split("."), json.loads(value))
    return recipe if task.phases is None else dataclasses.replace(recipe, phases=task.phases)


def _changed(part: Any, path: Sequence[str], value: Any) -> Any:
    field, *rest = path
    if field not in {each.name for each in dataclasses.fields(part)}:
        raise ValueError(f"{type(part).__name__} has no field {field!r}")
    old = getattr(part, field)
    return dataclasses.replace(part, **{field: _changed(old, rest, value) if rest else type(old)(value)})


class AllFound(Exception):
    """Nothing planted is left to find."""


@dataclass
class Spotter:
    """A `ports.ProgressSink` that ends a campaign when everything planted is found.

    Attributes:
        truth: what is planted.
        anomalies: confirmed so far, by id.
    """

    truth: Truth
    anomalies: dict[str, Anomaly] = dataclasses.field(default_factory=dict)

    def on_event(self, event: Any) -> None:
        """Hear of an anomaly.

        Raises:
            AllFound: it was the last.
        """
        if isinstance(event, AnomalyConfirmed | AnomalyExplained):
            self.anomalies[event.anomaly.id] = event.anomaly
            if not self.truth.score(tuple(self.anomalies.values())).missed:
                raise AllFound


def run(task: Task) -> dict[str, Any]:
    """Run one campaign and return plain values that say how it did."""
    space = _space(task.space)
    recipe = recipe_of(task)
    budget = parse_budget(task.budget)
    header = CampaignHeader("benchmark", {}, space.name, recipe.name, {}, task.seed, "2026-01-01T00:00:00Z")
    choice = TestbedChoice(subsystem=task.subsystem, noise=task.noise)
    testbed = testbeds.open_testbed(ADAPTERS, choice, task.seed, task.pairs)
    truth, store = _truth(task.subsystem, task.space), MemoryStore(header)
    space, _ = prune(space, testbed.capabilities)  # as `collie search` does
    campaign = Campaign(
        testbed=testbed,
        store=store,
        space=space,
        recipe=recipe,
        budget=budget,
        seed=task.seed,
        calibration=Calibration(),  # a simulated testbed has a data sheet; `collie search` does not calibrate it either
        lanes=testbeds.lanes_of(testbed),
    )
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        ended_by = campaign.run(Spotter(truth) if task.until_all else ListSink()).ended_by
    except AllFound:
        ended_by = "all found"
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    anomalies, records = store.anomalies(), list(store.runs())
    elapsed_seconds = max(record.finished_at_seconds for record in records)
    score = truth.score(anomalies)
    return {
        **dataclasses.asdict(task),
        "asked": dataclasses.asdict(task),
        "contender": _label(task, recipe),
        "phases": recipe.phases,
        "schedule": dataclasses.asdict(recipe.schedule) if recipe.strategy is StrategyName.ANNEALING else None,
        "budget_minutes": min(budget.seconds, elapsed_seconds) / 60,
        "runs": len(records),
        "search_runs": sum(record.purpose == "search" for record in records),
        "ended_by": ended_by,
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "planted": list(score.planted),
        "found": _first_minutes(anomalies, score),
        "explained": list(score.explained),
        "joined": score.joined,
        "merged_wrong": score.merged_wrong,
        "false": score.false,
        "explains": recipe.explain,
        # What explains nothing keeps every hit: hundreds of lines that say nothing.
        "anomalies": _described(anomalies, score, task) if recipe.explain else [],
    }


def _label(task: Task, recipe: Recipe) -> str:
    changes = task.contender.split("+")[1:]
    label = " with ".join((recipe.name, " and ".join(changes))) if changes else recipe.name
    return label if task.pairs == 1 else f"{label}, {task.pairs} pairs"


def _first_minutes(anomalies: Iterable[Anomaly], score: Score) -> dict[str, float]:
    """Return the minute at which each planted mechanism was found, the earliest first."""
    first: dict[str, float] = {}
    for anomaly in sorted(anomalies, key=lambda anomaly: anomaly.found_at_seconds):
        mechanism = score.mechanisms[anomaly.id]
        if mechanism in score.found and anomaly.same_as is None:
            first.setdefault(mechanism, anomaly.found_at_seconds / 60)
    return first


def _described(anomalies: Sequence[Anomaly], score: Score, task: Task) -> list[dict[str, Any]]:
    rng = Random(f"{task.seed}/quality")
    described = []
    for anomaly in anomalies:
        mechanism = score.mechanisms[anomaly.id]
        entry = {
            "mechanism": mechanism,
            "found_at_minutes": anomaly.found_at_seconds / 60,
            "extraction_runs": anomaly.extraction_runs,
            "complete": anomaly.complete,
            "mfs": str(anomaly.mfs),
        }
        if anomaly.complete and anomaly.mfs.conditions and mechanism in score.planted and task.quality_points:
            entry |= _quality(anomaly, mechanism, task, rng)
        described.append(entry)
    if task.quality_points:
        _add_joint_recall(described, anomalies, task)
    return described


def _quality(anomaly: Anomaly, mechanism: str, task: Task, rng: Random) -> dict[str, float]:
    space, truth = _space(task.space), _truth(task.subsystem, task.space)
    file = _file(task.subsystem)
    region = _region(task.subsystem, task.space, mechanism, task.quality_points)
    return {
        "precision": precision(space, anomaly.mfs, anomaly.workload, file, truth, task.quality_points, rng),
        "recall": recall([anomaly.mfs], region),
    }


def _add_joint_recall(described: list[dict[str, Any]], anomalies: Sequence[Anomaly], task: Task) -> None:
    """Say at each mechanism's first set what all of its sets cover together."""
    sets: dict[str, list[int]] = {}
    for index, entry in enumerate(described):
        if "recall" in entry:
            sets.setdefault(entry["mechanism"], []).append(index)
    for mechanism, indices in sets.items():
        region = _region(task.subsystem, task.space, mechanism, task.quality_points)
        described[indices[0]]["joint_recall"] = recall([anomalies[index].mfs for index in indices], region)


@cache
def _space(name: str) -> Space:
    return load_space(name)


@cache
def _file(subsystem: str) -> SubsystemFile:
    return load_subsystem(subsystem, SubsystemFile)


@cache
def _truth(subsystem: str, space: str) -> Truth:
    return Truth(_file(subsystem), _space(space))


@cache
def _region(subsystem: str, space: str, mechanism: str, points: int) -> list[Workload]:
    truth, rng = _truth(subsystem, space), Random(f"{REGION_SEED}/{mechanism}")
    return true_region(_space(space), Mechanism(mechanism), _file(subsystem), truth, points, rng)


def pending(tasks: Iterable[Task], results: Iterable[Result]) -> list[Task]:
    """Return the tasks without a line of results."""
    done = {json.dumps(result["asked"]) for result in results}
    return [task for task in tasks if task.key not in done]


def results_of(tasks: Iterable[Task], results: Iterable[Result]) -> list[Result]:
    """Return the results of tasks, in the order of the tasks."""
    by_key = {json.dumps(result["asked"]): result for result in results}
    return [by_key[task.key] for task in tasks if task.key in by_key]


def run_all(tasks: Sequence[Task], jobs: int, keep: Callable[[Result], None]) -> None:
    """Run campaigns, in parallel processes if there are several jobs, and keep each as it ends."""
    if jobs == 1:
        for number, task in enumerate(tasks, 1):
            _ended(f"{number}/{len(tasks)}", run(task), keep)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        asked = [pool.submit(run, task) for task in tasks]
        for number, done in enumerate(as_completed(asked), 1):
            _ended(f"{number}/{len(tasks)}", done.result(), keep)


def _ended(number: str, result: Result, keep: Callable[[Result], None]) -> None:
    keep(result)
    name = f"{result['subsystem']} {result['contender']}, {result['phases']} phases, seed {result['seed']}"
    found = f"{len(result['found'])} of {len(result['planted'])} found, {len(result['explained'])} explained"
    cost = f"{result['runs']} runs, {result['wall_seconds']:.0f} s"
    print(f"{number} {name}: {found}, {cost}", file=sys.stderr, flush=True)


def evidence_tasks(part: Part, seeds: int | None, commit: str) -> list[Task]:
    """Return the campaigns of a part, seed by seed, so that a cut run has some of each contender."""
    return [
        Task("F", contender, seed, quality_points=0, phases=phases, commit=commit)
        for seed in part.seeds[:seeds]
        for contender in part.contenders
        for phases in part.phases
    ]


def write_evidence(results: Sequence[Result]) -> None:
    """Write the page and its figure from the latest commit's results of each part."""
    by_part = {part: _of_part(results, part) for part in PARTS.values()}
    if clocks := by_part[PARTS["clocks"]]:
        plot(clocks, FIGURE)
    PAGE.write_text(page(by_part, read_results(PROTOTYPE_RAW)))


def _of_part(results: Iterable[Result], part: Part) -> list[Result]:
    """Return what a part asks for, contender by contender."""
    own = [
        one
        for one in results
        if (asked := one["asked"])["contender"] in part.contenders
        and asked["seed"] in part.seeds
        and asked["phases"] in part.phases
    ]
    return sorted(of_one_commit(own, part), key=lambda one: part.contenders.index(one["asked"]["contender"]))


def parse_counts(text: str) -> list[int]:
    """Read `1,8`."""
    return [int(word) for word in text.split(",")]


def _share(budget: str, pairs: int) -> str:
    """Return a budget of as many runs for any number of pairs: of time, each has its part; of runs, all have one."""
    seconds = parse_budget(budget).seconds
    return budget if math.isinf(seconds) else f"{round(seconds / pairs)}s"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subsystem", action="append", help="may repeat; F unless given")
    parser.add_argument("--contenders", default=DEFAULT_CONTENDERS, help="recipes, separated by commas")
    parser.add_argument("--seeds", default="1-20", type=parse_seeds)
    parser.add_argument("--pairs", default=[1], type=parse_counts, help="numbers of pairs that measure at once, as 1,8")
    parser.add_argument(
        "--phases", default=[None], type=parse_counts, help="limits on the measurements of one set-up, as 1,8"
    )
    parser.add_argument("--budget", default="10h")
    parser.add_argument("--share-budget", action="store_true", help="divide the budget by the number of pairs")
    parser.add_argument("--until-all", action="store_true", help="end a campaign with the last mechanism")
    parser.add_argument("--noise", default=1.0, type=float)
    parser.add_argument("--space", default="nsdi22")
    parser.add_argument("--quality-points", default=200, type=int, help="0 leaves precision and recall out")
    parser.add_argument("--jobs", default=os.cpu_count() or 1, type=int)
    parser.add_argument("--output", metavar="PREFIX", help="keeps PREFIX.jsonl, and writes PREFIX.png")
    parser.add_argument(
        "--evidence",
        nargs="?",
        const=",".join(PARTS),
        metavar="PARTS",
        help=f"run these parts of the page, of {', '.join(PARTS)}, and write it; `page` only writes",
    )
    parser.add_argument("--seeds-per-part", type=int, metavar="N", help="with --evidence: the first N seeds only")
    options = parser.parse_args(words)

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes are parallel; threads inside would fight over cores
    commit = last_commit(ROOT, _DEPENDS_ON)
    if options.evidence:
        if unknown := set(options.evidence.split(",")) - {*PARTS, "page"}:
            parser.error(f"--evidence has no part {', '.join(sorted(unknown))}; it has {', '.join(PARTS)} and page")
        for name in options.evidence.split(","):
            tasks = [] if name == "page" else evidence_tasks(PARTS[name], options.seeds_per_part, commit)
            run_all(pending(tasks, read_results(RAW)), options.jobs, partial(append, RAW))
        write_evidence(read_results(RAW))
        return
    _compare(options, commit)


def _compare(options: argparse.Namespace, commit: str) -> None:
    subsystems = options.subsystem or ["F"]
    tasks = [
        Task(
            subsystem,
            contender,
            seed,
            _share(options.budget, pairs) if options.share_budget else options.budget,
            options.noise,
            options.space,
            options.quality_points,
            pairs,
            options.until_all,
            phases,
            commit,
        )
        for seed in options.seeds
        for subsystem in subsystems
        for contender in options.contenders.split(",")
        for pairs in options.pairs
        for phases in options.phases
    ]
    results: list[Result] = []
    keep: Callable[[Result], None] = results.append
    if options.output:
        path = Path(f"{options.output}.jsonl")
        keep = partial(append, path)
        results = read_results(path)
    run_all(pending(tasks, results), options.jobs, keep)
    results = results_of(tasks, read_results(path) if options.output else results)
    for subsystem in subsystems:
        mine = [result for result in results if result["subsystem"] == subsystem]
        for phases in options.phases:
            same = [result for result in mine if result["asked"]["phases"] == phases]
            if phases is not None:
                print(f"{phases} phases of a set-up at most:\n")
            print(f"{minutes_table(same)}\n\n{summary_table(same)}\n")
        if len(options.pairs) > 1:
            print(f"{speedup_table(mine)}\n")
        if options.output:
            suffix = f"-{Path(subsystem).stem}" if len(subsystems) > 1 else ""
            plot(mine, Path(f"{options.output}{suffix}.png"))


if __name__ == "__main__":
    main()
