"""Acceptance of phases on the simulator: histories, kills inside a set-up, and the paper's way.

    python scripts/acceptance/phases.py 4 5 7 [--seeds 20] [--instants 50] [--jobs 2] [--results DIR]
    python scripts/acceptance/phases.py --table

Each part appends one line of JSON to DIR/phases.jsonl. A part whose line is there, of the same commit, is not run
again, so a killed script goes on. The commit is the last one that changed what a part depends on.

    4  campaigns on a subsystem whose anomaly shows only after other workloads: each claims it, with a history from
       which no phase can be left out, and `collie reproduce` and its bundle repeat it. On F no campaign claims one
    5  campaigns with phases that are killed at random instants and resumed: their records equal the uninterrupted ones
    7  a campaign with one phase per set-up, beside the same campaign of an earlier commit (--before)

--table prints what is asked and what was got. Its exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from collie import wiring
from collie.app import campaigns, cases, exports, sessions
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.events import Silence
from collie.content.spaces import load_space
from collie.ports import RunRecord
from collie.search.anomaly import Anomaly
from collie.simulator.truth import Truth
from collie.wiring import ADAPTERS
from collie.workloads.setup import SetUp
from tests.support.faults.kills import CAMPAIGN, SearchCourse, killed_and_resumed, uninterrupted
from tests.support.results import Result, append, last_commit, read_results

ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "tests" / "data" / "subsystems" / "idle-flows.yaml"
GUIDED = Path("search") / "recipes" / "guided.yaml"
SPACE = load_space("nsdi22")
REPEATS = 5
"""Runs of a reproduction."""
PHASES = 12
"""Limit on the phases of one set-up in the campaigns of the rows 4 and 5."""
KILLED_RUNS = "80runs"
DEADLINE_SECONDS = 900.0
BEFORE = "30654e1"
"""The last commit without phases."""
_DEPENDS_ON = ("collie", "workloads", "search", "counters", "tests/data/subsystems", "scripts/acceptance/phases.py")


@dataclass(frozen=True)
class Task:
    """One part of a row. `number` is the seed of a campaign, or that of a kill."""

    row: int
    case: str
    number: int
    options: tuple[str, ...]
    commit: str

    @property
    def key(self) -> tuple[object, ...]:
        """What a line in the results answers."""
        return self.row, self.case, self.number, list(self.options), self.commit


def key_of(result: Result) -> tuple[object, ...]:
    """Return the key of the task that a line answers."""
    return tuple(result[name] for name in ("row", "case", "number", "options", "commit"))


def tasks_of(options: argparse.Namespace, commit: str) -> Iterator[Task]:
    """Yield the parts of the chosen rows."""
    if 4 in options.rows:
        for seed in range(1, options.seeds + 1):
            for case in ("idle-flows", "F"):
                yield Task(4, case, seed, (options.budget,), commit)
    if 5 in options.rows:
        for number in range(options.instants):
            yield Task(5, ("idle-flows", "F")[number % 2], number, (str(options.instants),), commit)
    if 7 in options.rows:
        yield Task(7, "F", 1, (options.before, options.budget), commit)


def pending(tasks: Iterable[Task], results: Iterable[Result]) -> list[Task]:
    """Return the tasks without a line."""
    done = [key_of(result) for result in results]
    return [task for task in tasks if task.key not in done]


def run(task: Task) -> dict[str, Any]:
    """Run one part, and return plain values that say what it showed."""
    with tempfile.TemporaryDirectory(prefix="collie-phases-") as place:
        found = {4: _histories, 5: _kill, 7: _beside_an_earlier_commit}[task.row](task, Path(place))
    key = {"row": task.row, "case": task.case, "number": task.number, "options": task.options, "commit": task.commit}
    return {**key, **found}


# --- Row 4: histories ------------------------------------------------------------------------------------------------


def _histories(task: Task, folder: Path) -> dict[str, Any]:
    recipe, (budget,) = str(recipe_with(PHASES, folder)), task.options
    choice = SearchChoice(_testbed(task.case), space=SPACE.name, recipe=recipe, budget=budget, seed=task.number)
    directory = folder / "campaign"
    opened = campaigns.begin(ADAPTERS, choice, directory)
    try:
        summary = opened.run(Silence())
        in_phases = _in_phases(opened.store.runs(with_series=False))
    finally:
        opened.close()
    needing = [anomaly for anomaly in summary.anomalies if anomaly.history and anomaly.same_as is None]
    larger = [anomaly for anomaly in summary.anomalies if anomaly.made_for is not None and not anomaly.history]
    return {
        "runs": summary.runs,
        "in_phases": in_phases,
        "anomalies": len(summary.anomalies),
        "claims": [_claim(anomaly, task, directory) for anomaly in needing],
        "on_larger_set_ups": len(larger),
    }


def _in_phases(runs: Iterable[RunRecord]) -> int:
    """Count the runs that are further phases of a set-up."""
    return sum(record.set_up not in (None, record.run) for record in runs)


def _claim(anomaly: Anomaly, task: Task, directory: Path) -> dict[str, Any]:
    """Hold an anomaly with a history against the ground truth, and run it again by its record and by its bundle."""
    truth, on = _truth(task.case), anomaly.set_up
    assert on is not None
    shorter = (SetUp(on.made_for, on.before[:n] + on.before[n + 1 :]) for n in range(len(on.before)))
    named = cases.case_named(ADAPTERS, f"{directory}/{anomaly.id}")
    file = directory / f"{anomaly.id}.pyz"
    file.write_bytes(ADAPTERS.reports.bundle(exports.bundle_of(ADAPTERS, named)))
    return {
        "id": anomaly.id,
        "sentence": anomaly.sentence,
        "phases": len(on.before),
        "is_true": truth.verdict(anomaly.workload, on).is_anomalous and truth.verdict(anomaly.workload).is_normal,
        "is_shortest": not any(truth.verdict(anomaly.workload, each).is_anomalous for each in shorter),
        "by_record": _reproduced(named, task),
        "by_bundle": _reproduced(cases.case_named(ADAPTERS, str(file)), task),
    }


def _reproduced(named: cases.NamedCase, task: Task) -> str:
    choice = SearchChoice(_testbed(task.case), space=SPACE.name, seed=1000 + task.number)
    with sessions.open_session(ADAPTERS, choice, Silence()) as session:
        return str(session.reproduce(named.case, repeat=REPEATS, controls=False).answer)


def _testbed(case: str) -> TestbedChoice:
    return TestbedChoice(subsystem=_subsystem(case))


def _subsystem(case: str) -> str:
    return case if case == "F" else str(PLANTED)


@cache
def _truth(case: str) -> Truth:
    return Truth(wiring.subsystem_of(_testbed(case)), SPACE)


def recipe_with(phases: int, folder: Path) -> Path:
    """Write the recipe `guided` with another limit on the phases of a set-up."""
    lines = (ROOT / GUIDED).read_text().splitlines()
    kept = [line for line in lines if not line.startswith("phases:")]
    path = folder / "guided.yaml"
    path.write_text("\n".join([*kept, f"phases: {phases}", ""]))
    return path


# --- Row 5: kills ----------------------------------------------------------------------------------------------------


def _kill(task: Task, folder: Path) -> dict[str, Any]:
    words = ("search", "--campaign", CAMPAIGN, "--format", "json", "--seed", "1", "--budget", KILLED_RUNS)
    recipe = str(recipe_with(PHASES, folder))
    course = SearchCourse((*words, "--recipe", recipe, "--subsystem", _subsystem(task.case)))
    whole = uninterrupted(course, folder / "whole", DEADLINE_SECONDS)
    count, rng = int(task.options[0]), Random(f"{task.case} {task.number}")
    instants = [(task.number + rng.random()) * whole.cpu_seconds / count]
    if task.number % 4 >= 2:  # half of the campaigns of either case are killed again
        instants.append(rng.uniform(0, whole.cpu_seconds))
    killed = killed_and_resumed(course, folder / "killed", instants, whole, DEADLINE_SECONDS)
    with ADAPTERS.records.read(folder / "whole" / CAMPAIGN) as store:
        in_phases = _in_phases(store.runs(with_series=False))
    return {"landed": killed.landed, "differences": killed.differences, "in_phases": in_phases}


# --- Row 7: the paper's way ------------------------------------------------------------------------------------------


def _beside_an_earlier_commit(task: Task, folder: Path) -> dict[str, Any]:
    before, budget = task.options
    earlier = folder / "earlier"
    data = subprocess.run(["git", "-C", str(ROOT), "archive", before], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        archive.extractall(earlier, filter="data")
    words = ["search", "--subsystem", task.case, "--seed", str(task.number), "--budget", budget]
    now = _searched([*words, "--recipe", str(recipe_with(1, folder))], folder / "now", ROOT)
    then = _searched([*words, "--recipe", str(earlier / GUIDED)], folder / "then", earlier)
    pairs = list(zip_longest(then, now))
    first = next((number for number, (a, b) in enumerate(pairs, start=1) if not _alike(a, b)), None)
    return {"runs": [len(then), len(now)], "first_difference": first, "differing": first and pairs[first - 1]}


def _searched(words: Sequence[str], folder: Path, root: Path) -> list[dict[str, Any]]:
    """Return the runs of a search by the Collie in a folder, and then its anomalies."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(root)}

    def collie(*asked: str) -> str:
        command = [sys.executable, "-m", "collie", *asked]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout

    found = json.loads(collie(*words, "--campaign", "c", "--format", "json"))["anomalies"]
    return [*map(json.loads, collie("runs", "c", "--format", "jsonl").splitlines()), *found]


def _alike(then: dict[str, Any] | None, now: dict[str, Any] | None) -> bool:
    """Whether two lines agree in all that the earlier commit writes."""
    return then is not None and now is not None and all(now.get(name) == value for name, value in then.items())


# --- What is asked ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """One line of the acceptance table."""

    row: int
    what: str
    asked: str
    got: str
    holds: bool


def checks(results: Sequence[Result]) -> Iterator[Check]:
    """Yield the checks of every row that has results."""
    planted = [one for one in results if (one["row"], one["case"]) == (4, "idle-flows")]
    plain = [one for one in results if (one["row"], one["case"]) == (4, "F")]
    if planted:
        claims = [claim for one in planted for claim in one["claims"]]
        found = sum(any(claim["is_true"] for claim in one["claims"]) for one in planted)
        yield _all(4, "campaigns that claim the planted history", found, len(planted))
        for what, holds in (
            ("claims that are true", [claim["is_true"] for claim in claims]),
            ("claims without a phase that can be left out", [claim["is_shortest"] for claim in claims]),
            ("claims that reproduce", [claim["by_record"] == "yes" for claim in claims]),
            ("claims whose bundle reproduces", [claim["by_bundle"] == "yes" for claim in claims]),
        ):
            yield _all(4, what, sum(holds), len(holds))
    if plain:
        claimed = sum(len(one["claims"]) for one in plain)
        yield Check(4, f"histories claimed on F in {len(plain)} campaigns", "none", str(claimed), claimed == 0)
    if killed := [one for one in results if one["row"] == 5]:
        yield _all(5, "records equal after a kill", sum(not one["differences"] for one in killed), len(killed))
        phases = sum(one["in_phases"] > 0 for one in killed)
        yield _all(5, "killed campaigns with phases", phases, len(killed))
    for one in results:
        if one["row"] == 7:
            got = "equal" if one["first_difference"] is None else f"run {one['first_difference']} differs"
            what = f"the runs and anomalies of F, seed {one['number']}, beside commit {one['options'][0]}"
            yield Check(7, what, "equal", got, one["first_difference"] is None)


def _all(row: int, what: str, got: int, of: int) -> Check:
    return Check(row, what, "all", f"{got} of {of}", got == of)


def table(results: Sequence[Result]) -> str:
    """Return the acceptance table."""
    lines = ["| row | what | asked | got | |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {each.row} | {each.what} | {each.asked} | {each.got} | {'holds' if each.holds else 'FAILS'} |"
        for each in checks(results)
    ]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Run what has no result yet, or print the table."""
    options = _options(words)
    path, at = options.results / "phases.jsonl", last_commit(ROOT, _DEPENDS_ON)
    if options.table:
        results = [result for result in read_results(path) if result["commit"] == at]
        print(table(results))
        return 0 if results and all(check.holds for check in checks(results)) else 1
    options.results.mkdir(parents=True, exist_ok=True)
    tasks = pending(tasks_of(options, at), read_results(path))
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes are parallel; threads inside would fight over cores
    failed = 0
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        asked = {pool.submit(run, task): task for task in tasks}
        for number, done in enumerate(as_completed(asked), 1):
            task = asked[done]
            name = f"{number}/{len(tasks)} row {task.row}, {task.case} {task.number}"
            if error := done.exception():
                failed += 1
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                continue
            append(path, done.result())
            print(f"{name}: done", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", type=int, metavar="ROW", help="4, 5 or 7")
    parser.add_argument("--seeds", type=int, default=20, help="campaigns per case of row 4")
    parser.add_argument("--instants", type=int, default=50, help="kills of row 5")
    parser.add_argument("--budget", default="10h", help="of the campaigns of the rows 4 and 7")
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT", help="of row 7")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "phases", metavar="DIR")
    parser.add_argument("--table", action="store_true", help="print the table of the results")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
