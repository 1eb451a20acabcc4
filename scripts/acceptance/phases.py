"""Phases on the simulator: planted carry-over, kills, and the paper's way of one set-up for each run.

    .venv/bin/python scripts/acceptance/phases.py --state /tmp/phases
    .venv/bin/python scripts/acceptance/phases.py --state /tmp/phases --base 30654e1 one-phase

Four checks; without names all of them:

    history    campaigns on a subsystem that remembers earlier phases: the anomaly is reported with its shortest
               history, and `reproduce` and a bundle replay it
    healthy    campaigns on F, which remembers nothing: no anomaly is claimed to need a history
    killed     a campaign with phases, killed with SIGKILL at random instants and resumed: the record is the same
    one-phase  F, seed 1, one phase per set-up: the same runs as the commit `--base`

Each part is kept in `--state` when it ends, and a campaign that was cut short is resumed. So the script can be stopped
and started again. Prints a Markdown table; exit code 1 when a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from tests.support.faults.kills import SearchCourse, Whole, killed_and_resumed, uninterrupted
from tests.support.faults.processes import collie_command

ROOT = Path(__file__).parents[2]
REMEMBERS = ROOT / "tests" / "data" / "subsystems" / "idle-flows.yaml"
DEADLINE_SECONDS = 3600.0
CHECKS = ("history", "healthy", "killed", "one-phase")
Result = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """The size of the checks.

    Attributes:
        state: folder of the campaigns and of `results.json`.
        phases: most measurements of one set-up.
        base: the commit whose runs are compared, or None.
    """

    state: Path
    phases: int
    history_seeds: int
    healthy_seeds: int
    instants: int
    budget: str
    base: str | None

    @property
    def recipe(self) -> str:
        """The default recipe with phases, as a file."""
        path = self.state / "phases.yaml"
        path.write_text("\n".join([*_without_phases(ROOT), f"phases: {self.phases}", ""]))
        return str(path)


class Results:
    """Results by the name of the part, in a file that is replaced at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.parts: dict[str, Result] = json.loads(path.read_text()) if path.exists() else {}

    def of(self, name: str, make: Callable[[], Result]) -> Result:
        """Return the result of a part. It is made if it is not on file."""
        if name not in self.parts:
            self.parts[name] = make()
            beside = self._path.with_suffix(".new")
            beside.write_text(json.dumps(self.parts, indent=1))
            beside.replace(self._path)
            print(f"{name}: {json.dumps(self.parts[name])}", file=sys.stderr, flush=True)
        return self.parts[name]


def asked(folder: Path, words: Sequence[str], codes: Sequence[int] = (0,)) -> Result:
    """Return the JSON object of a command."""
    folder.mkdir(parents=True, exist_ok=True)
    ended = collie_command([*words, "--format", "json"], folder, DEADLINE_SECONDS)
    assert ended.code in codes, f"{' '.join(words)}: {ended.code}: {ended.err[-2000:]}"
    document: Result = json.loads(ended.out)
    return document


def searched(folder: Path, words: Sequence[str]) -> Result:
    """Return the JSON object of a search, which is begun or resumed as campaign `c`."""
    if (folder / "c" / "campaign.sqlite").exists():
        return asked(folder, ["search", "--resume", "c", "--score"])
    return asked(folder, ["search", *words, "--campaign", "c", "--score"])


def history(plan: Plan, seed: int) -> Result:
    """Search a subsystem that remembers, and replay what needs a history."""
    folder = plan.state / f"history-{seed}"
    words = ["--subsystem", str(REMEMBERS), "--recipe", plan.recipe, "--budget", plan.budget, "--seed", str(seed)]
    found = searched(folder, words)
    replayed, lengths = [], []
    for anomaly in found["anomalies"]:
        if anomaly["set_up"] is None or anomaly["same_as"] is not None:
            continue
        lengths.append(len(anomaly["set_up"]["before"]))
        name, bundle = f"c/{anomaly['id']}", f"{anomaly['id']}.pyz"
        if not (folder / bundle).exists():
            exported = collie_command(["export", name, "--as", "bundle", "-o", bundle], folder, DEADLINE_SECONDS)
            assert exported.code == 0, exported.err
        for again in (["reproduce", name], ["reproduce", bundle, "--subsystem", str(REMEMBERS)]):
            replayed.append(asked(folder, again, codes=(0, 1, 3, 4))["reproduced"])
    return {
        "runs": found["runs"],
        "found": found["score"]["found"],
        "false": found["score"]["false"],
        "history_lengths": lengths,
        "replayed": replayed,
    }


def healthy(plan: Plan, seed: int) -> Result:
    """Search F, where nothing needs a history."""
    folder = plan.state / f"healthy-{seed}"
    words = ["--subsystem", "F", "--recipe", plan.recipe, "--budget", plan.budget, "--seed", str(seed)]
    found = searched(folder, words)
    return {
        "runs": found["runs"],
        "claimed": sum(anomaly["set_up"] is not None for anomaly in found["anomalies"]),
        "false": found["score"]["false"],
        "explained": len(found["score"]["explained"]),
    }


def killed(plan: Plan, results: Results) -> None:
    """Kill one campaign at an instant in each of so many equal parts of its CPU time."""
    words = ("search", "--recipe", plan.recipe, "--budget", "80runs", "--seed", "1", "--campaign", "c")
    course = SearchCourse((*words, "--format", "json"))
    names = [f"killed/{index}" for index in range(plan.instants)]
    if all(name in results.parts for name in names):
        return
    folder = plan.state / f"killed-{os.getpid()}"
    whole = uninterrupted(course, folder / "whole", DEADLINE_SECONDS)
    for index, name in enumerate(names):
        rng = Random(f"killed {index}")
        instants = [(index + rng.random()) * whole.cpu_seconds / plan.instants]
        instants += [rng.uniform(0, whole.cpu_seconds)] * (index % 2)

        results.of(name, partial(kill, course, folder / str(index), instants, whole))


def kill(course: SearchCourse, folder: Path, instants: Sequence[float], whole: Whole) -> Result:
    """Kill a campaign at each of the instants, and compare its record."""
    done = killed_and_resumed(course, folder, instants, whole, DEADLINE_SECONDS)
    return {"landed": list(done.landed), "differences": list(done.differences)}


def one_phase(plan: Plan) -> Result:
    """Compare the runs of F, seed 1, with those of the base commit."""
    assert plan.base is not None
    tree = plan.state / "base"
    if not tree.exists():
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), plan.base], cwd=ROOT, check=True)
    lines = []
    for name, root in (("then", tree), ("now", ROOT)):
        folder = plan.state / f"one-phase-{name}"
        folder.mkdir(exist_ok=True)
        words = ["--resume", "c"]
        if not (folder / "c" / "campaign.sqlite").exists():
            words = ["--subsystem", "F", "--seed", "1", "--budget", plan.budget, "--campaign", "c"]
            words += ["--recipe", _guided(plan, root)]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        command = [sys.executable, "-m", "collie", "search", *words, "--format", "json"]
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        lines.append([_stated(line) for line in (folder / "c" / "results.jsonl").read_text().splitlines()])
    subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    then, now = lines
    equal = 0
    for one, other in zip_longest(then, now):
        if one is None or other is None or any(other.get(key) != value for key, value in one.items()):
            break
        equal += 1
    return {"runs": [len(then), len(now)], "equal_from_the_start": equal}


def _guided(plan: Plan, root: Path) -> str:
    """Return the default recipe of a tree, with one phase per set-up."""
    path = plan.state / f"one-phase-{root.name}.yaml"
    path.write_text("\n".join([*_without_phases(root), ""]))
    return str(path)


def _without_phases(root: Path) -> list[str]:
    lines = (root / "search" / "recipes" / "guided.yaml").read_text().splitlines()
    return [line for line in lines if not line.startswith("phases:")]


def _stated(line: str) -> Result:
    run: Result = json.loads(line)
    del run["purpose"]  # a later version has finer purposes
    return run


def checked(plan: Plan, names: Sequence[str], results: Results) -> Iterator[tuple[str, str, bool]]:
    """Yield a row for each check: what it is, what it showed, and whether that is as it should be."""
    if "history" in names:
        parts = _parts(results, "history", plan.history_seeds, partial(history, plan))
        with_history = [part for part in parts if part["history_lengths"]]
        lengths = sorted({length for part in parts for length in part["history_lengths"]})
        replays = [answer for part in parts for answer in part["replayed"]]
        told = f"reported in {len(with_history)} of {len(parts)} campaigns, histories of {lengths} phases"
        told += f", replayed in {replays.count('yes')} of {len(replays)}; {sum(part['false'] for part in parts)} false"
        good = bool(parts) and len(with_history) == len(parts) and set(lengths) == {1} and {*replays} == {"yes"}
        yield "planted carry-over", told, good and not any(part["false"] for part in parts)
    if "healthy" in names:
        parts = _parts(results, "healthy", plan.healthy_seeds, partial(healthy, plan))
        claimed, false = (sum(part[key] for part in parts) for key in ("claimed", "false"))
        yield "none on F", f"{claimed} claimed, {false} false in {len(parts)} campaigns", not claimed
    if "killed" in names:
        killed(plan, results)
        parts = [results.parts[f"killed/{index}"] for index in range(plan.instants)]
        differ = [part for part in parts if part["differences"]]
        kills = sum(len(part["landed"]) for part in parts)
        yield "SIGKILL", f"{kills} kills of {len(parts)} campaigns, {len(differ)} records differ", not differ
    if "one-phase" in names:
        part = results.of("one-phase", lambda: one_phase(plan))
        told = f"{part['equal_from_the_start']} of {part['runs'][0]} runs are those of {plan.base}"
        yield "one phase", told, part["runs"] == [part["equal_from_the_start"]] * 2


def _parts(results: Results, name: str, seeds: int, make: Callable[[int], Result]) -> list[Result]:
    return [results.of(f"{name}/{seed}", partial(make, seed)) for seed in range(1, seeds + 1)]


def main() -> int:
    """Run the checks, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", choices=[*CHECKS, []], metavar="CHECK", help=", ".join(CHECKS))
    parser.add_argument("--state", type=Path, required=True, help="folder that keeps what is done")
    parser.add_argument("--phases", type=int, default=8)
    parser.add_argument("--history-seeds", type=int, default=5)
    parser.add_argument("--healthy-seeds", type=int, default=20)
    parser.add_argument("--instants", type=int, default=50)
    parser.add_argument("--budget", default="10h", help="of each search")
    parser.add_argument("--base", help="commit before phases, for one-phase")
    options = parser.parse_args()
    names = options.checks or CHECKS
    if "one-phase" in names and options.base is None:
        parser.error("one-phase needs --base COMMIT")
    state = options.state.absolute()
    state.mkdir(parents=True, exist_ok=True)
    sizes = (options.phases, options.history_seeds, options.healthy_seeds, options.instants, options.budget)
    plan, results = Plan(state, *sizes, options.base), Results(state / "results.json")
    rows = list(checked(plan, names, results))
    print("| check | result | as it should be |\n|---|---|---|")
    print("\n".join(f"| {name} | {told} | {'yes' if good else 'NO'} |" for name, told, good in rows))
    return 0 if all(good for _, _, good in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
