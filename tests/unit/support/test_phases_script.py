"""The acceptance of phases: what is asked, and which parts are still to run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from collie.wiring import ADAPTERS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("phases", ROOT / "scripts" / "acceptance" / "phases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


CLAIM = {"is_true": True, "is_shortest": True, "by_record": "yes", "by_bundle": "yes"}
GOOD: tuple[dict[str, Any], ...] = (
    {"row": 4, "case": "idle-flows", "claims": [CLAIM]},
    {"row": 4, "case": "F", "claims": []},
    {"row": 5, "case": "F", "differences": [], "in_phases": 3},
    {"row": 7, "case": "F", "number": 1, "options": ["abc", "10h"], "first_difference": None},
)


def failing(script: ModuleType, *results: dict[str, Any]) -> list[str]:
    return [check.what for check in script.checks(results) if not check.holds]


def test_good_results_hold_every_check(script: ModuleType) -> None:
    assert failing(script, *GOOD) == []
    assert {check.row for check in script.checks(GOOD)} == {4, 5, 7}


@pytest.mark.parametrize(
    ("number", "wrong", "what"),
    [
        (0, {"claims": []}, ["campaigns that claim the planted history"]),
        (0, {"claims": [CLAIM, {**CLAIM, "is_true": False}]}, ["claims that are true"]),
        (0, {"claims": [{**CLAIM, "is_shortest": False}]}, ["claims without a phase that can be left out"]),
        (0, {"claims": [{**CLAIM, "by_record": "no"}]}, ["claims that reproduce"]),
        (0, {"claims": [{**CLAIM, "by_bundle": "inconclusive"}]}, ["claims whose bundle reproduces"]),
        (1, {"claims": [CLAIM]}, ["histories claimed on F in 1 campaigns"]),
        (2, {"differences": ["runs 7"]}, ["records equal after a kill"]),
        (2, {"in_phases": 0}, ["killed campaigns with phases"]),
        (3, {"first_difference": 30}, ["the runs and anomalies of F, seed 1, beside commit abc"]),
    ],
)
def test_what_is_wrong_fails_its_check(script: ModuleType, number: int, wrong: dict[str, Any], what: list[str]) -> None:
    assert failing(script, {**GOOD[number], **wrong}) == what


def test_parts_with_a_result_are_not_run_again(script: ModuleType) -> None:
    options = script._options(["4", "5", "7", "--seeds", "1", "--instants", "2"])
    tasks = list(script.tasks_of(options, "abc"))
    assert [(task.row, task.case, task.number) for task in tasks] == [
        (4, "idle-flows", 1), (4, "F", 1), (5, "idle-flows", 0), (5, "F", 1), (7, "F", 1),
    ]  # fmt: skip
    done = {"row": 4, "case": "F", "number": 1, "options": ["10h"], "commit": "abc"}
    assert script.pending(tasks, [done]) == [task for task in tasks if (task.row, task.case) != (4, "F")]
    assert script.pending(tasks, [{**done, "commit": "older"}]) == tasks


def test_lines_agree_in_what_the_earlier_commit_writes(script: ModuleType) -> None:
    assert script._alike({"run": 1}, {"run": 1, "stands": True})
    assert not script._alike({"run": 1}, {"run": 2})
    assert not script._alike({"run": 1, "gone": 1}, {"run": 1})
    assert not script._alike({"run": 1}, None)


def test_the_recipe_has_the_wanted_number_of_phases(script: ModuleType, tmp_path: Path) -> None:
    for phases in (1, 12):
        assert ADAPTERS.content.recipe(str(script.recipe_with(phases, tmp_path))).phases == phases
