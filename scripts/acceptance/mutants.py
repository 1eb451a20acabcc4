"""Change one decision at a time in copies of the committed tree, and count the changes that the quick tests detect.

    scripts/acceptance/mutants --packages readings fleet advise --jobs 2

Cosmic Ray makes the mutants. They are drawn place by place with a fixed seed, so that a place with many possible
mutants counts once. Each runs against the quick tests that cover its statement, those of its own module first. A
second call continues with the results in --folder, which are kept by commit. Uncommitted changes are ignored.

No mutant changes a string, so docstrings, `__all__` and message texts stay as they are. These are left out as well,
because they decide nothing: annotations, type aliases, decorators, assertions, `strict=` of zip, the text of
exceptions, and the choice between two words inside a message. An operator becomes another of its family only, because
any test detects a TypeError. Prints a table and the survivors. Exit code 1 if a package falls below --at-least.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator, operator_names
from coverage import CoverageData
from junitparser import JUnitXml
from parso.python.tree import Name
from parso.tree import NodeOrLeaf

from collie.detect.interval import wilson

ROOT = Path(__file__).parents[2]
PACKAGES = ("detect", "search", "campaign", "readings", "fleet", "advise")
TESTS = ("tests/unit", "tests/property")
ELSEWHERE = tuple(f"tests/unit/{name}" for name in ("agent", "benchmarks", "lab", "ssh"))
"""Tests of code that uses none of the packages. They would only lengthen the first step."""
DEADLINE = 3.0  # times what its tests may take: a mutant that runs longer counts as detected


class SwapExtremes(Operator):
    """Takes the largest for the smallest, or one for all."""

    SWAPS = {"min": "max", "max": "min", "any": "all", "all": "any"}  # noqa: RUF012 (Cosmic Ray's classes are plain)

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Yield the position of a call."""
        called = isinstance(node, Name) and node.value in self.SWAPS and node.get_next_leaf().value == "("
        if called and getattr(node.get_previous_leaf(), "value", "") != ".":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Name, index: int) -> Name:  # noqa: ARG002 (Cosmic Ray's signature)
        """Swap."""
        node.value = self.SWAPS[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return an example."""
        return (Example("min(a)", "max(a)"),)


_FAMILIES = ({"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"}, {"BitOr", "BitAnd", "BitXor"})
_COMPARISONS = ({"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"}, {"Is", "IsNot"})
_LEFT_OUT = {"RemoveDecorator", "VariableReplacer", "VariableInserter"}


def _operators() -> dict[str, Operator]:
    """Return Cosmic Ray's operators that change decisions, and our own."""
    found: dict[str, Operator] = {"SwapExtremes": SwapExtremes()}
    for full in operator_names():
        name = full.split("/")[1]
        kind, *sides = name.split("_")
        families = {"ReplaceBinaryOperator": _FAMILIES, "ReplaceComparisonOperator": _COMPARISONS}.get(kind)
        if name in _LEFT_OUT or "Invert" in sides:
            continue
        if families is None or any(set(sides) <= family for family in families):
            found[name] = get_operator(full)()
    return found


OPERATORS = _operators()


@dataclass(frozen=True)
class Mutant:
    """One change: the `occurrence`-th place of an operator in a file."""

    package: str
    path: str
    line: int
    column: int
    operator: str
    occurrence: int

    def code(self, source: str) -> str | None:
        """Return the changed file, or None if Python refuses it or sees no change."""
        changed = mutate_code(source, OPERATORS[self.operator], self.occurrence)
        try:
            same = changed is None or ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
        except SyntaxError:
            return None
        return None if same else changed


def mutants_of(package: str, tree: Path, seed: int, count: int) -> list[Mutant]:
    """Draw mutants of a package: places first, then one change of each."""
    places: dict[tuple[str, Any, Any], list[Mutant]] = defaultdict(list)
    sources = {}
    for file in sorted((tree / "collie" / package).rglob("*.py")):
        path = str(file.relative_to(tree))
        sources[path] = file.read_text()
        seen: dict[str, int] = defaultdict(int)
        for node in ast_nodes(get_ast(sources[path])):
            for name, operator in OPERATORS.items():
                for start, end in operator.mutation_positions(node):
                    if not _decides_nothing(node):
                        places[path, start, end].append(Mutant(package, path, *start, name, seen[name]))
                    seen[name] += 1
    rng, drawn = Random(f"mutants {seed} {package}"), list[Mutant]()
    keys = sorted(places)
    rng.shuffle(keys)
    for key in keys:
        mutant = rng.choice(places[key])
        if len(drawn) < count and mutant.code(sources[mutant.path]) is not None:
            drawn.append(mutant)
    return drawn


_ANNOTATED = {"annassign": 1, "tfpdef": 2}
"""Nodes with an annotation, and its place among their children."""


def _decides_nothing(node: NodeOrLeaf) -> bool:
    """Whether a place belongs to what the module's docstring leaves out."""
    inside, child, in_message = node, None, False
    while inside is not None:
        kind, children = inside.type, getattr(inside, "children", [])
        if kind in {"decorator", "assert_stmt", "raise_stmt"}:
            return True
        if kind in _ANNOTATED and child is children[_ANNOTATED[kind]]:
            return True
        if kind == "funcdef" and child is not None and child is inside.annotation:
            return True
        if kind == "argument" and children[0].get_code().strip() == "strict":
            return True
        if kind == "if_stmt" and child is None and children[1].get_code().strip() == "TYPE_CHECKING":
            return True
        if kind == "expr_stmt" and re.match(r"\s*_?[A-Z][a-z]\w*\s*=[^=]", inside.get_code(include_prefix=False)):
            return True
        in_message = in_message or kind == "fstring_expr"
        child, inside = inside, inside.parent
    return in_message and _chooses_words(node)


def _chooses_words(node: NodeOrLeaf) -> bool:
    while node is not None and node.type != "fstring_expr":
        if node.type == "test" and all(node.children[each].type == "string" for each in (0, 4)):
            return True
        node = node.parent
    return False


class QuickTests:
    """The quick tests, what they cover and how long they take, measured once per commit."""

    def __init__(self, seconds: dict[str, float], covered: dict[str, dict[str, list[str]]]) -> None:
        self._seconds, self._covered = seconds, covered

    @classmethod
    def measured(cls, tree: Path, known: Path, tests: Sequence[str]) -> QuickTests:
        """Read what an earlier call measured, or run the tests."""
        if not known.exists():
            known.write_text(json.dumps(_measure(tree, tests)))
        return cls(*json.loads(known.read_text()))

    def of(self, mutant: Mutant, source: str, limit: float) -> list[str]:
        """Return the quickest tests that run a mutant's statement, which together take `limit` seconds at most.

        They are those of its module if it runs at import.
        """
        by_line = self._covered.get(mutant.path, {})
        lines = _statement(ast.parse(source), mutant.line)
        chosen = by_line.values() if lines is None else [by_line.get(str(line), []) for line in lines]
        names = {name for tests in chosen for name in tests}
        own = f"tests/unit/{mutant.package}/"
        module = own + f"test_{Path(mutant.path).stem}.py"
        order = sorted(
            names, key=lambda name: (not name.startswith(module), not name.startswith(own), self._seconds[name], name)
        )
        total, kept = 0.0, []
        for name in order:
            if total + self._seconds[name] <= limit or not kept:
                total += self._seconds[name]
                kept.append(name)
        return kept


def _measure(tree: Path, tests: Sequence[str]) -> tuple[dict[str, float], dict[str, dict[str, list[str]]]]:
    """Run the quick tests under coverage; return each test's seconds, and the tests of each line."""
    argv = [*_PYTEST, *tests, "-m", "not lab and not slow", "--junitxml=seconds.xml", "-o", "junit_family=xunit1"]
    argv += [f"--ignore={path}" for path in ELSEWHERE]
    argv += ["--cov-context=test", "--cov-report=", *(f"--cov=collie/{package}" for package in PACKAGES)]
    code, text = _run(argv, tree, None)
    if code:
        raise SystemExit(f"the quick tests fail without any mutant:\n{text}")
    seconds: dict[str, float] = defaultdict(float)
    for suite in JUnitXml.fromfile(str(tree / "seconds.xml")):
        for case in suite:
            file = case._elem.get("file")
            classes = (case.classname or "").removeprefix(file.removesuffix(".py").replace("/", "."))
            seconds["::".join([file, *classes.split(".")[1:], _function(case.name)])] += case.time or 0.0
    data = CoverageData(str(tree / ".coverage"))
    data.read()
    covered: dict[str, dict[str, list[str]]] = {}
    for file in data.measured_files():
        covered[str(Path(file).relative_to(tree))] = {
            str(line): sorted({_function(each.rpartition("|")[0]) for each in contexts if each} & seconds.keys())
            for line, contexts in data.contexts_by_lineno(file).items()
        }
    return seconds, covered


def _function(name: str) -> str:
    """Return a test without its parameters, which a mutant may rename."""
    return name.partition("[")[0]


def _statement(tree: ast.Module, line: int) -> range | None:
    """Return the lines of the innermost statement at a line. None if it runs when the module is imported."""
    best, inside = range(line, line + 1), False
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line <= (node.end_lineno or 0):
            inside = True
        if isinstance(node, (ast.stmt, ast.ExceptHandler)):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            if node.lineno <= line <= last and (len(best) == 1 or node.lineno >= best.start):
                best = range(node.lineno, last + 1)
    return best if inside else None


_PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--tb=line"]


def _run(argv: Sequence[str], tree: Path, seconds: float | None) -> tuple[int | None, str]:
    """Run a command in a copy of the tree; return its exit code, None after the deadline, and its output."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        argv,
        cwd=tree,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=seconds)
        return process.returncode, text
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def judged(mutant: Mutant, tree: Path, tests: Sequence[str], deadline: float) -> dict[str, object]:
    """Run a mutant's tests, and put the file back."""
    file = tree / mutant.path
    source = file.read_text()
    changed = mutant.code(source) or source
    diff = difflib.unified_diff(source.splitlines(), changed.splitlines(), lineterm="", n=0)
    record: dict[str, object] = {**asdict(mutant), "tests": len(tests), "diff": "\n".join(list(diff)[3:])}
    if not tests:
        return {**record, "outcome": "survived", "by": "no quick test runs it"}
    names = tree / "tests-of-mutant"
    names.write_text("\n".join(tests))
    file.write_text(changed)
    try:
        code, text = _run([*_PYTEST, f"@{names}"], tree, deadline)
    finally:
        file.write_text(source)
    fails_at_import = "ERROR collecting" in text
    if code not in {None, 0, 1} and not fails_at_import:
        raise SystemExit(f"pytest does not run for {mutant}: {text}")
    outcome = "timeout" if code is None else "killed" if code else "survived"
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
    return {**record, "outcome": outcome, "by": failed[0] if failed else ""}


def _copy(commit: str, folder: Path) -> Path:
    """Write the committed tree into a folder."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "--extract"], cwd=folder, input=archive, check=True)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "collie", "tests"], cwd=folder, check=False)
    return folder


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Judge every mutant that has no result yet, or survived fewer tests; return all results."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    options.folder.mkdir(parents=True, exist_ok=True)
    results = options.folder / f"{commit}.jsonl"
    lines = results.read_text().splitlines() if results.exists() else []
    known = {_key(record): record for record in map(json.loads, lines)}
    with tempfile.TemporaryDirectory(prefix="collie-mutants-") as place, ThreadPoolExecutor(options.jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            trees.put(first := _copy(commit, Path(place).resolve() / str(number)))
        quick = QuickTests.measured(first, options.folder / f"{commit}-tests.json", options.tests)
        drawn = [
            each for package in options.packages for each in mutants_of(package, first, options.seed, options.mutants)
        ]
        sources = {each.path: (first / each.path).read_text() for each in drawn}

        def tests_of(mutant: Mutant) -> list[str]:
            return quick.of(mutant, sources[mutant.path], options.test_seconds)

        def is_open(mutant: Mutant) -> bool:
            record = known.get(_key(asdict(mutant)))
            return record is None or (record["outcome"] == "survived" and record["tests"] < len(tests_of(mutant)))

        def judge(mutant: Mutant) -> dict[str, object]:
            tree = trees.get()
            try:
                return judged(mutant, tree, tests_of(mutant), DEADLINE * options.test_seconds)
            finally:
                trees.put(tree)

        waiting = [each for each in drawn if is_open(each)]
        with results.open("a") as file:
            for record in pool.map(judge, waiting):
                known[_key(record)] = record
                print(json.dumps(record), file=file, flush=True)
                print(f"{record['path']}:{record['line']} {record['outcome']} {record['by']}", file=sys.stderr)
    return [known[_key(asdict(each))] for each in drawn]


def _key(record: dict[str, Any]) -> tuple[object, ...]:
    return tuple(record[name] for name in ("path", "line", "column", "operator", "occurrence"))


def main() -> int:
    """Judge, and print the table and the survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=PACKAGES)
    parser.add_argument("--mutants", type=int, default=60, help="of each package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--test-seconds",
        type=float,
        default=20.0,
        help="of the tests of one mutant together; a second call with more judges the survivors again",
    )
    parser.add_argument(
        "--tests", nargs="+", default=TESTS, help="where the quick tests are; each choice needs its own --folder"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="of the results")
    parser.add_argument("--at-least", type=float, default=0.85, help="share that the tests must detect")
    options = parser.parse_args()
    records = run(options)
    print("| package | mutants | detected | of these timed out | share | 95 % interval |\n|---|---|---|---|---|---|")
    enough = True
    for package in options.packages:
        outcomes = [record["outcome"] for record in records if record["package"] == package]
        killed = sum(outcome != "survived" for outcome in outcomes)
        if interval := wilson(killed, len(outcomes)):
            share, late = killed / len(outcomes), outcomes.count("timeout")
            enough = enough and share >= options.at_least
            limits = f"{interval.low:.0%} to {interval.high:.0%}"
            print(f"| `{package}` | {len(outcomes)} | {killed} | {late} | {share:.0%} | {limits} |")
    for record in records:
        if record["outcome"] == "survived":
            why = f" ({record['by']})" if record["by"] else ""
            print(f"\n{record['path']}:{record['line']}{why}\n{record['diff']}")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
