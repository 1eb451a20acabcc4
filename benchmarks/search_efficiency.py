"""Compare searches: how many minutes of testbed time each needs to find the anomalies of a simulated subsystem.

    python benchmarks/search_efficiency.py --contenders random,nsdi22-diag --seeds 1-20 --budget 10h --output efficiency
    python benchmarks/search_efficiency.py --contenders guided --pairs 1,2,4,8,16 --seeds 1-10 --budget 40h \\
        --share-budget --until-all

Every contender is a recipe (name or file) and runs once per seed, in memory, in a process of its own. All share the
judge, the confirmation and the accounting: every run counts, whatever it is for. Ground truth credits each confirmed
anomaly to one mechanism; a mechanism is found when the first of its anomalies that are reported on their own is
confirmed, and explained if one of these is explained to the end.

Prints two tables, minutes to the k-th mechanism beside the paper's (on F, the subsystem that the paper reports), and
what was found at which cost; with several numbers of pairs a third one, how much faster they are; with --output
PREFIX also writes PREFIX.json with everything and PREFIX.png. Asserts nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
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
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Score, Truth
from collie.store.memory import MemoryStore
from collie.testing.fakes import ListSink
from collie.wiring import ADAPTERS
from collie.workloads.space import Space
from collie.workloads.workload import Workload
from tests.support.quality import precision, recall, true_region

SCHEMA_VERSION = 1
DEFAULT_CONTENDERS = "random,nsdi22-perf-no-mfs,nsdi22-diag-no-mfs,nsdi22-perf,nsdi22-diag,optuna-tpe"
REGION_SEED = 1
"""Of the walks that recall is measured on: the same for every contender and seed."""

Pair = tuple[int, int]
PAPER: Mapping[str, tuple[str, Sequence[Pair]]] = {
    "random": ("Random", [(3, 3), (6, 3), (10, 6), (34, 24), (210, 73), (390, 111), (454, 0)]),
    "optuna": ("BO", [(1, 0), (21, 2), (55, 6), (107, 8), (190, 42), (251, 90), (296, 7), (318, 7)]),
    "nsdi22-perf-no-mfs": (
        "w/o MFS (Perf)",
        [(3, 3), (11, 5), (34, 13), (60, 16), (158, 100), (232, 67), (372, 118), (476, 122), (511, 77)],
    ),
    "nsdi22-diag-no-mfs": (
        "w/o MFS (Diag)",
        [(3, 2), (13, 7), (31, 14), (75, 36), (151, 35), (283, 91), (326, 85), (434, 48), (459, 0)],
    ),
    "nsdi22-perf": (
        "Collie (Perf)",
        [(2, 1), (20, 6), (42, 7), (74, 8), (111, 22), (162, 35), (184, 36), (308, 110), (364, 122), (393, 54),
         (411, 0)],
    ),
    "nsdi22-diag": (
        "Collie (Diag)",
        [(3, 3), (14, 9), (24, 15), (54, 27), (79, 25), (129, 38), (197, 45), (226, 39), (290, 82), (352, 57),
         (418, 33), (490, 36), (563, 40)],
    ),
}  # fmt: skip
"""Mean minutes to the k-th anomaly on F and their standard deviation (NSDI '22, figure 4)."""


@dataclass(frozen=True)
class Task:
    """One campaign.

    Attributes:
        subsystem, contender, space: names or files; a contender is a recipe.
        seed: of every random choice.
        budget: as on the command line.
        noise: of simulated readings.
        quality_points: points for precision and for recall; 0 measures neither.
        pairs: of hosts that measure at once.
        until_all: end with the last mechanism, whatever is left of the budget.
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
    recipe = load_recipe(task.contender)
    budget = parse_budget(task.budget)
    header = CampaignHeader("benchmark", {}, space.name, recipe.name, {}, task.seed, "2026-01-01T00:00:00Z")
    choice = TestbedChoice(subsystem=task.subsystem, noise=task.noise)
    testbed = testbeds.open_testbed(ADAPTERS, choice, task.seed, task.pairs)
    truth, store = _truth(task.subsystem, task.space), MemoryStore(header)
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
        "contender": recipe.name if task.pairs == 1 else f"{recipe.name}, {task.pairs} pairs",
        "budget_minutes": min(budget.seconds, elapsed_seconds) / 60,
        "runs": len(records),
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


def run_all(tasks: Sequence[Task], jobs: int) -> list[dict[str, Any]]:
    """Run campaigns in parallel processes; the results are in the order of the tasks."""
    if jobs == 1:
        return [run(task) for task in tasks]
    results: dict[int, dict[str, Any]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        pending = {pool.submit(run, task): index for index, task in enumerate(tasks)}
        for done in as_completed(pending):
            results[pending[done]] = result = done.result()
            found, planted = len(result["found"]), len(result["planted"])
            print(
                f"{len(results)}/{len(tasks)} {result['subsystem']} {result['contender']} seed {result['seed']}: "
                f"{found} of {planted} in {result['runs']} runs, {result['wall_seconds']:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    return [results[index] for index in range(len(tasks))]


def minutes_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return minutes to the k-th mechanism: mean (standard deviation) [seeds that got there]; the paper's below."""
    groups = _by_contender(results)
    subsystem = results[0]["subsystem"]
    most = max(len(result["planted"]) for result in results)
    rows = []
    for contender, group in groups.items():
        cells = []
        for k in range(most):
            minutes = [sorted(one["found"].values())[k] for one in group if len(one["found"]) > k]
            spread = statistics.stdev(minutes) if len(minutes) > 1 else 0.0
            cells.append(f"{statistics.mean(minutes):.0f} ({spread:.0f}) [{len(minutes)}]" if minutes else "-")
        rows.append([contender, *cells])
        if subsystem == "F" and (paper := paper_of(contender)):
            cells = [f"{mean} ({std})" for mean, std in paper[1]]
            rows.append([f"*paper: {paper[0]}*", *cells, *["-"] * (most - len(cells))])
    return _markdown([f"minutes on {subsystem} to", *(f"{k + 1}." for k in range(most))], rows)


def summary_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return what each contender found, at which cost, and how good its explanations are."""
    rows = []
    for contender, group in _by_contender(results).items():
        found = [len(one["found"]) for one in group]
        anomalies = [anomaly for one in group for anomaly in one["anomalies"]]
        explained = [anomaly for anomaly in anomalies if anomaly["extraction_runs"]]
        runs = [anomaly["extraction_runs"] for anomaly in explained]
        per_mechanism = [_explained(one) / max(1, len(one["found"])) for one in group]
        rows.append(
            [
                contender,
                f"{statistics.mean(found):.2f} ({min(found)} to {max(found)})",
                f"{statistics.mean(len(one['explained']) for one in group):.2f}" if explained else "-",
                sum(one["false"] for one in group),
                _wrong_joins(group),
                f"{statistics.mean(minutes_to_all(one) for one in group):.0f}",
                f"{statistics.mean(per_mechanism):.1f}" if explained else "-",
                f"{statistics.median(runs):.0f}, {max(runs)}" if runs else "-",
                f"{statistics.mean(anomaly['complete'] for anomaly in explained):.0%}" if explained else "-",
                _mean(anomalies, "precision"),
                _mean(anomalies, "recall"),
                _mean(anomalies, "joint_recall"),
                f"{statistics.mean(one['runs'] for one in group):.0f}",
                f"{statistics.mean(one['wall_seconds'] for one in group):.1f}",
            ]
        )
    planted = len(results[0]["planted"])
    heads = (
        f"found of {planted} (range)", "explained", "false", "wrong joins", "minutes to all", "MFS per mechanism",
        "extraction runs: median, most", "complete", "precision", "recall", "joint recall", "runs", "wall s",
    )  # fmt: skip
    return _markdown([f"on {results[0]['subsystem']}", *heads], rows)


def speedup_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return how much faster more pairs are than the fewest: mean minutes to k mechanisms, and their ratio.

    A seed that did not get so far counts with the end of its budget, and is marked: its time is longer than that.
    """
    most = len(results[0]["planted"])
    counts = (most // 2, most - 3, most - 1, most)
    groups = {
        pairs: [one for one in results if one["pairs"] == pairs] for pairs in sorted({one["pairs"] for one in results})
    }
    times = {
        pairs: [statistics.mean(_minutes_to(k, one) for one in group) for k in counts]
        for pairs, group in groups.items()
    }
    fewest = min(groups)
    rows = []
    for pairs, group in groups.items():
        cells = []
        for k, minutes, base in zip(counts, times[pairs], times[fewest], strict=True):
            late = sum(len(one["found"]) < k for one in group)
            cells.append(f"{minutes:.0f} ({base / minutes:.1f} times as fast){f', {late} late' if late else ''}")
        rows.append([pairs, *cells])
    return _markdown(["pairs", *(f"minutes to {k} of {most}" for k in counts)], rows)


def _wrong_joins(group: Sequence[Mapping[str, Any]]) -> str:
    """Return how many of the anomalies that are reported as explained by another one have a different mechanism."""
    joined, wrong = sum(one["joined"] for one in group), sum(len(one["merged_wrong"]) for one in group)
    return f"{wrong} of {joined}" if joined else "-"


def _minutes_to(k: int, result: Mapping[str, Any]) -> float:
    """Return when the k-th mechanism was found; the end of the budget where it was not."""
    found = sorted(result["found"].values())
    return float(found[k - 1] if len(found) >= k else result["budget_minutes"])


def _explained(result: Mapping[str, Any]) -> int:
    return sum(anomaly["extraction_runs"] > 0 for anomaly in result["anomalies"])


def minutes_to_all(result: Mapping[str, Any]) -> float:
    """Return the minute at which the last mechanism was found; the whole budget when one was missed."""
    if len(result["found"]) < len(result["planted"]):
        return float(result["budget_minutes"])
    return float(max(result["found"].values(), default=0.0))


def paper_of(contender: str) -> tuple[str, Sequence[Pair]] | None:
    """Return the paper's figures for the contender that comes nearest."""
    return PAPER.get("optuna" if contender.startswith("optuna") else contender)


def _by_contender(results: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        groups.setdefault(result["contender"], []).append(result)
    return groups


def _mean(entries: Iterable[Mapping[str, Any]], name: str) -> str:
    values = [entry[name] for entry in entries if name in entry]
    return f"{statistics.mean(values):.3f}" if values else "-"


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def plot(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw mechanisms found over time: mean, a band of one standard deviation, and the paper's means dotted."""
    import matplotlib as mpl

    mpl.use("Agg")
    import numpy as np
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
    planted = len(results[0]["planted"])
    end = max(result["budget_minutes"] for result in results)
    grid = np.linspace(0, end, 400)
    for index, (contender, group) in enumerate(_by_contender(results).items()):
        colour = f"C{index}"
        counts = np.array([[sum(m <= t for m in one["found"].values()) for t in grid] for one in group])
        mean, spread = counts.mean(axis=0), counts.std(axis=0)
        axes.plot(grid / 60, mean, color=colour, label=f"{contender} ({len(group)} seeds)")
        axes.fill_between(grid / 60, mean - spread, np.minimum(planted, mean + spread), color=colour, alpha=0.12, lw=0)
        if results[0]["subsystem"] == "F" and (paper := paper_of(contender)):
            minutes = [0, *(mean for mean, _ in paper[1])]
            axes.plot(np.array(minutes) / 60, range(len(minutes)), color=colour, ls=":", marker=".", ms=4, lw=1)
    axes.axhline(planted, color="0.6", lw=0.8)
    axes.set(xlabel="testbed time (hours)", ylabel=f"mechanisms found, of {planted}", ylim=(0, planted + 0.5))
    axes.set_xlim(0, end / 60)
    dotted = "; dotted: the paper" if results[0]["subsystem"] == "F" else ""
    axes.set_title(f"Subsystem {results[0]['subsystem']}: mean and standard deviation over seeds{dotted}")
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def parse_seeds(text: str) -> list[int]:
    """Read `1-20`, `3` or `1,5,7-9`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


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
    parser.add_argument("--budget", default="10h")
    parser.add_argument("--share-budget", action="store_true", help="divide the budget by the number of pairs")
    parser.add_argument("--until-all", action="store_true", help="end a campaign with the last mechanism")
    parser.add_argument("--noise", default=1.0, type=float)
    parser.add_argument("--space", default="nsdi22")
    parser.add_argument("--quality-points", default=200, type=int, help="0 leaves precision and recall out")
    parser.add_argument("--jobs", default=os.cpu_count() or 1, type=int)
    parser.add_argument("--output", metavar="PREFIX", help="writes PREFIX.json and PREFIX.png")
    options = parser.parse_args(words)

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes are parallel; threads inside would fight over cores
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
        )
        for seed in options.seeds
        for subsystem in subsystems
        for contender in options.contenders.split(",")
        for pairs in options.pairs
    ]
    results = run_all(tasks, options.jobs)
    for subsystem in subsystems:
        mine = [result for result in results if result["subsystem"] == subsystem]
        print(f"{minutes_table(mine)}\n\n{summary_table(mine)}\n")
        if len(options.pairs) > 1:
            print(f"{speedup_table(mine)}\n")
        if options.output:
            suffix = f"-{Path(subsystem).stem}" if len(subsystems) > 1 else ""
            plot(mine, Path(f"{options.output}{suffix}.png"))
    if options.output:
        document = {"schema_version": SCHEMA_VERSION, "results": results}
        Path(f"{options.output}.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
