"""Acceptance of what a search reports: true to its causes, on hardware that is less kind than F.

    python scripts/acceptance/findings.py 1 2 3 [--seeds 20] [--jobs 2] [--results DIR] [--only SUBSYSTEM]
    python scripts/acceptance/findings.py --table [--write]

A row is a list of cases, a case is a simulated testbed, and a campaign is `guided` on a case with one seed. Each
campaign appends one line of JSON to DIR/findings.jsonl. A campaign whose line is there, of the same commit, is not run
again, so a killed script goes on. The commit is the last one that changed what a campaign or its scoring depends on.

    1  F, G and H
    2  two causes, one inside the other or overlapping
    3  plain traffic that is itself anomalous
    4  F, with every mechanism at a show rate of 0.6 and of 0.3
    5  outliers, drift and noise, on F-healthy (five times the seeds) and on F
    6  the claims of all sets of the rows 1 to 5: runs nothing, only --table

Rows 4 and 5 need the options --flaky, --outliers and --drift of `collie search`. Without them the row is refused.

--table prints what is asked and what was got, and --write keeps that in docs/evidence/findings.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from collie import wiring
from collie.app import campaigns
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.events import Silence
from collie.campaign.summary import Score, Summary
from collie.cli import search as search_command
from collie.cli.options import testbed_choice
from collie.content.spaces import load_space
from collie.search.anomaly import Anomaly
from collie.search.second_cause import NO_FLOOR, Floor
from collie.simulator.capabilities import unsupported_reason
from collie.simulator.mechanism import Mechanism
from collie.simulator.truth import Truth
from collie.wiring import ADAPTERS
from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload
from tests.support.findings import checks, claim_of, lacking_one, line_of, of_commits, page, tables
from tests.support.quality import inside, recall, true_region
from tests.support.results import Result, append, last_commit, read_results

ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "tests" / "data" / "subsystems"
PAGE = ROOT / "docs" / "evidence" / "findings.md"
SPACE = load_space("nsdi22")
POINTS = 2000
"""Ladder-uniform points inside a set, for its precision."""
POINTS_WITHOUT = 400
"""The same inside a set that lacks one condition."""
REGION_POINTS = 300
UNNEEDED = 0.05
"""A condition does not matter if the precision without it is at most this much lower."""
_DEPENDS_ON = (
    *("collie", "workloads", "search", "counters", "tests/data/subsystems"),
    *("scripts/acceptance/findings.py", "tests/support/quality.py", "tests/support/regions.py"),
)


@dataclass(frozen=True)
class Case:
    """A simulated testbed.

    Attributes:
        row: of the acceptance table.
        subsystem: name, or file in tests/data/subsystems.
        options: further options of `collie search`.
        show_rate: of every mechanism.
        seeds: campaigns per seed that is asked for.
    """

    row: int
    subsystem: str
    options: tuple[str, ...] = ()
    show_rate: float = 1.0
    seeds: int = 1

    @property
    def name(self) -> str:
        """The case in words."""
        return " ".join((self.subsystem, *self.options))

    def words(self) -> list[str]:
        """Return the options of the testbed on a command line."""
        file = PLANTED / f"{self.subsystem}.yaml"
        return ["--subsystem", str(file) if file.exists() else self.subsystem, *self.options]

    def testbed(self) -> TestbedChoice:
        """Return the testbed, as `collie search` reads its options.

        Raises:
            click.UsageError: `collie search` has no such option.
        """
        return testbed_choice(search_command.command.make_context("search", self.words()).params)


def _cases() -> Iterator[Case]:
    yield from (Case(1, name) for name in "FGH")
    yield from (Case(2, f"nested-{name}") for name in ("counter", "symptom", "overlap"))
    yield from (Case(3, f"sick-{name}") for name in ("datagrams", "doorbells", "reads", "sends"))
    yield from (Case(4, "F", ("--flaky", f"all={rate}"), rate) for rate in (0.6, 0.3))
    for options in (
        ("--outliers", "1/30:0.02"),
        ("--outliers", "1/30:0.2"),
        ("--drift", "0.1"),
        ("--noise", "2"),
    ):
        yield Case(5, "F-healthy", options, seeds=5)
        yield Case(5, "F", options)


CASES = tuple(_cases())


@dataclass(frozen=True)
class Task:
    """One campaign."""

    case: Case
    seed: int
    budget: str
    commit: str

    @property
    def key(self) -> tuple[object, ...]:
        """What a line in the results answers."""
        return self.case.row, self.case.name, self.seed, self.budget, self.commit


def key_of(result: Result) -> tuple[object, ...]:
    """Return the key of the task that a line answers."""
    return tuple(result[name] for name in ("row", "case", "seed", "budget", "commit"))


def tasks_of(cases: Iterable[Case], seeds: int, first: int, budget: str, commit: str) -> list[Task]:
    """Return the campaigns of some cases, seed by seed, so that a cut run has some of every case."""
    cases = tuple(cases)
    most = max((case.seeds for case in cases), default=1) * seeds
    return [
        Task(case, first + number, budget, commit)
        for number in range(most)
        for case in cases
        if number < case.seeds * seeds
    ]


def pending(tasks: Iterable[Task], results: Iterable[Result]) -> list[Task]:
    """Return the tasks without a line."""
    done = {key_of(result) for result in results}
    return [task for task in tasks if task.key not in done]


def run(task: Task) -> dict[str, Any]:
    """Run one campaign, and return plain values that say how true its findings are."""
    testbed = task.case.testbed()
    choice = SearchChoice(testbed, space=SPACE.name, recipe="guided", budget=task.budget, seed=task.seed)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        opened = campaigns.begin(ADAPTERS, choice, Path(folder) / "campaign")
        try:
            summary = opened.run(Silence())
        finally:
            opened.close()
    wall = time.perf_counter() - began
    truth = _truth(testbed.subsystem)
    score = truth.score(summary.anomalies)
    return {
        "row": task.case.row,
        "case": task.case.name,
        "subsystem": task.case.subsystem,
        "options": task.case.options,
        "seed": task.seed,
        "budget": task.budget,
        "commit": task.commit,
        "planted": score.planted,
        "found": score.found,
        "explained": score.explained,
        "hidden": score.hidden,
        "joined": score.joined,
        "merged_wrong": score.merged_wrong,
        "merged_unrelated": _unrelated(summary, score, truth),
        "false": score.false,
        "false_chance": summary.trust.false_chance if summary.trust else None,
        "first": _first(summary, score, testbed.subsystem),
        "sets": [_measured(anomaly, score, task) for anomaly in summary.anomalies if anomaly.same_as is None],
        "runs": summary.runs,
        "wall_seconds": round(wall, 1),
        "scoring_seconds": round(time.perf_counter() - began - wall, 1),
    }


def _unrelated(summary: Summary, score: Score, truth: Truth) -> list[str]:
    """Return the wrongly joined anomalies that the mechanism of the other one costs nothing."""
    workloads = {anomaly.id: anomaly.workload for anomaly in summary.anomalies}
    return [name for name, (_, other) in score.merged_wrong.items() if other not in truth.costs(workloads[name])]


def _first(summary: Summary, score: Score, subsystem: str) -> dict[str, Any] | None:
    """Describe the anomaly that a person reads first: also whether its set holds the first witness of the file."""
    own = next((anomaly for anomaly in summary.anomalies if anomaly.same_as is None), None)
    if own is None:
        return None
    witnesses = _file(subsystem).witnesses
    holds = bool(witnesses) and own.complete and own.mfs.covers(witnesses[0].trigger)
    again = sum(score.mechanisms[each.id] == score.mechanisms[own.id] for each in summary.anomalies if not each.same_as)
    return {
        "id": own.id,
        "mechanism": score.mechanisms[own.id],
        "first_planted": bool(witnesses) and score.mechanisms[own.id] == witnesses[0].mechanism,
        "holds_witness": holds,
        "times": again,
        "sentence": own.sentence,
    }


def _measured(anomaly: Anomaly, score: Score, task: Task) -> dict[str, Any]:
    """Measure one set against the ground truth."""
    mechanism = score.mechanisms[anomaly.id]
    entry: dict[str, Any] = {
        "id": anomaly.id,
        "mechanism": mechanism,
        "complete": anomaly.complete,
        "mfs": str(anomaly.mfs),
        "conditions": len(anomaly.mfs.conditions),
        "extraction_runs": anomaly.extraction_runs,
    }
    if not anomaly.complete:
        return entry
    subsystem = task.case.testbed().subsystem
    rng = Random(f"{task.seed}/{anomaly.id}")
    floor = anomaly.floor
    precision, shows = _inside(anomaly.mfs, anomaly.workload, subsystem, POINTS, task.case.show_rate, rng, floor)
    entry |= {"precision": precision, "shows": shows, **claim_of(anomaly)}
    entry["unneeded"] = sum(
        _inside(rest, anomaly.workload, subsystem, POINTS_WITHOUT, 1.0, rng)[0] >= precision - UNNEEDED
        for rest in lacking_one(anomaly.mfs)
    )
    if mechanism in score.planted:
        entry["recall"] = recall([anomaly.mfs], _region(subsystem, mechanism))
    return entry


def _inside(
    mfs: Mfs, witness: Workload, subsystem: str, points: int, show_rate: float, rng: Random, floor: Floor = NO_FLOOR
) -> tuple[float, float]:
    """Return the share of ladder-uniform points that are anomalous, and the share of runs there that show it.

    A run shows it from the `floor` on.
    """
    drawn = inside(SPACE, mfs, witness, points, rng, rest_plain=False)
    runnable = [workload for workload in drawn if not unsupported_reason(_file(subsystem).hardware, workload)]
    truth = _truth(subsystem)
    if show_rate == 1.0:
        severities = truth.severities(runnable)
        return float(np.mean(severities > 0)), float(np.mean(_shown(truth, runnable, severities, floor)))
    severities, costs, _ = truth.credits(runnable)
    anomalous = severities > 0
    causes = np.maximum(1, (costs > 0).sum(axis=0))  # each shows by itself
    shown = _shown(truth, runnable, severities, floor)
    return float(anomalous.mean()), float((shown * (1.0 - (1.0 - show_rate) ** causes)).mean())


def _shown(
    truth: Truth, workloads: Sequence[Workload], severities: NDArray[np.float64], floor: Floor
) -> NDArray[np.bool_]:
    if floor == NO_FLOOR:
        return severities > 0
    return np.array([floor.apply(truth.verdict(workload)).is_anomalous for workload in workloads])


@cache
def _file(subsystem: str) -> Any:
    return wiring.subsystem_of(TestbedChoice(subsystem=subsystem))


@cache
def _truth(subsystem: str) -> Truth:
    return Truth(_file(subsystem), SPACE)


@cache
def _region(subsystem: str, mechanism: str) -> list[Workload]:
    rng = Random(f"1/{mechanism}")
    return true_region(SPACE, Mechanism(mechanism), _file(subsystem), _truth(subsystem), REGION_POINTS, rng)


def run_all(tasks: Sequence[Task], jobs: int, path: Path) -> int:
    """Run campaigns in parallel, and keep each as it ends. Return how many failed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes are parallel; threads inside would fight over cores
    failed = 0
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        asked: dict[Future[dict[str, Any]], Task] = {pool.submit(run, task): task for task in tasks}
        for number, done in enumerate(as_completed(asked), 1):
            task = asked[done]
            name = f"{number}/{len(tasks)} row {task.case.row}, {task.case.name}, seed {task.seed}"
            if error := done.exception():
                failed += 1
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                continue
            result = done.result()
            append(path, result)
            print(f"{name}: {line_of(result)}", file=sys.stderr, flush=True)
    return failed


def refused(cases: Iterable[Case]) -> dict[str, str]:
    """Return why `collie search` cannot run a case, by its name."""
    reasons = {}
    for case in cases:
        try:
            case.testbed()
        except click.UsageError as error:
            reasons[case.name] = error.format_message()
    return reasons


def main(words: Sequence[str] | None = None) -> int:
    """Run campaigns, or print the table."""
    options = _options(words)
    path = options.results / "findings.jsonl"
    commits = options.commit or [last_commit(ROOT, _DEPENDS_ON)]
    if not options.table:
        options.results.mkdir(parents=True, exist_ok=True)
        chosen = [case for case in CASES if case.row in options.rows and options.only in (None, case.subsystem)]
        why_not = refused(chosen)
        for name, reason in why_not.items():
            print(f"cannot run {name}: {reason}", file=sys.stderr)
        tasks = tasks_of(
            (case for case in chosen if case.name not in why_not),
            options.seeds,
            options.first,
            options.budget,
            commits[0],
        )
        failed = run_all(pending(tasks, read_results(path)), options.jobs, path)
        return 1 if failed or why_not else 0
    results = of_commits(read_results(path), commits)
    if not results:
        print(f"{path} has no campaign of commit {', '.join(commits)}", file=sys.stderr)
        return 2
    print(tables(results))
    if options.write:
        PAGE.write_text(page(results))
    return 0 if all(check.holds for check in checks(results)) else 1


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", type=int, metavar="ROW", help="1 to 6")
    parser.add_argument("--seeds", type=int, default=20, help="campaigns per case")
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--only", metavar="SUBSYSTEM", help="only the cases of this one")
    parser.add_argument("--budget", default="10h")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "findings", metavar="DIR")
    parser.add_argument(
        "--commit",
        action="append",
        help="of the results; otherwise that of the working tree. Repeated with --table: the first that has the row",
    )
    parser.add_argument("--table", action="store_true", help="print the table of the results")
    parser.add_argument("--write", action="store_true", help=f"with --table: write {PAGE.relative_to(ROOT)}")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
