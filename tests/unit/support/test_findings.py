"""The acceptance of findings: what is asked, what was got, and which campaigns are still to run."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from collie.detect.symptom import Symptom
from collie.search.anomaly import Anomaly
from collie.workloads.workload import Workload
from tests.support.campaigns import PAUSING
from tests.support.findings import (
    Check,
    acceptance_table,
    binomial_limit,
    checks,
    claim_of,
    holds,
    lacking_one,
    of_commits,
    page,
)

ROOT = Path(__file__).parents[3]
NOT_PLAIN = {"first_planted": True, "holds_witness": False, "times": 1}
ANOMALY = Anomaly("a1", Symptom.PAUSE, 0.2, Workload(), Workload(), PAUSING, "", "b", 1, 30.0, 12, True, 10, 9)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("findings", ROOT / "scripts" / "acceptance" / "findings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def a_set(**changes: Any) -> dict[str, Any]:
    plain = {"complete": True, "precision": 1.0, "shows": 1.0, "recall": 1.0, "unneeded": 0}
    return {**plain, "fresh": True, "k": 12, "n": 12, "interval": [0.75, 1.0], **changes}


def result(row: int = 1, case: str = "F", **changes: Any) -> dict[str, Any]:
    score = {"planted": ["x", "y"], "found": ["x", "y"], "explained": ["x", "y"], "hidden": []}
    joins = {"joined": 50, "merged_wrong": {}, "merged_unrelated": [], "false": 0, "false_chance": 0.01}
    first = {"first_planted": True, "holds_witness": True, "times": 1}
    rest = {"sets": [a_set()], "first": first, "runs": 900, "wall_seconds": 20.0, "scoring_seconds": 30.0}
    key = {"row": row, "case": case, "seed": 1, "budget": "10h", "commit": "abc"}
    return {**key, **score, **joins, **rest, **changes}


def broken(*results: dict[str, Any]) -> set[str]:
    return {check.what for check in checks(results) if not check.holds}


def test_good_campaigns_hold_every_check() -> None:
    rows = [result(), result(2, "nested"), result(3, "sick"), result(5, "F-healthy --drift 0.1")]
    assert broken(*rows) == set()
    assert {check.row for check in checks(rows)} == {1, 2, 3, 5, 6}


@pytest.mark.parametrize(
    ("campaign", "what"),
    [
        (result(merged_wrong={"a2": ["x", "y"], "a3": ["x", "y"]}), "wrong joins"),
        (result(hidden=["x"]), "mechanisms hidden by a join"),
        (result(explained=["x"]), "found - explained"),
        (result(2, "nested", explained=["x"]), "both explained"),
        (result(3, "sick", first=None), "plain anomaly named first"),
        (result(3, "sick", first=NOT_PLAIN), "plain anomaly named first"),
        (result(3, "sick", false=1), "false anomalies"),
        (result(4, "F --flaky all=0.6"), "found, mean"),
        (result(4, "F --flaky all=0.3", false=1), "false anomalies"),
        (result(5, "F --noise 2"), "explained, mean"),
        (result(5, "F-healthy --noise 2", false=1), "with a false anomaly"),
        (result(5, "F-healthy --noise 2", false_chance=0.02), "printed chance, mean"),
        (result(sets=[a_set(recall=0.7)]), "recall, median"),
        (result(sets=[a_set(shows=0.7)]), "claims of fresh runs that hold"),
        (result(sets=[a_set(interval=[0.4, 1.0])]), "claims of fresh runs that hold"),
    ],
)  # fmt: skip
def test_each_shortfall_breaks_its_check(campaign: dict[str, Any], what: str) -> None:
    assert what in broken(campaign)


def test_one_wrong_join_in_fifty_is_allowed() -> None:
    assert "wrong joins" not in broken(result(merged_wrong={"a2": ["x", "y"]}))


def test_a_flaky_case_counts_needless_conditions_and_show_rates() -> None:
    many = [a_set(unneeded=1, shows=0.6, interval=[0.7, 1.0])]
    assert {"needless conditions per set", "show rate within its interval"} <= broken(
        result(4, "F --flaky all=0.6", sets=many)
    )


def test_precision_counts_sets_not_campaigns() -> None:
    good, bad = [a_set()] * 19, a_set(precision=0.5)
    assert "sets of precision 0.9" not in broken(result(sets=[*good, bad]))
    assert "sets of precision 0.9" in broken(result(sets=[*good, bad, bad]))


def test_claims_of_few_runs_and_cut_explanations_do_not_count() -> None:
    sets = [a_set(), a_set(n=8, shows=0.1), {"complete": False}]
    claims = next(check for check in checks([result(sets=sets)]) if check.what.startswith("claims"))
    assert claims.got == "1 of 1 (100.0%)"


def test_claims_of_runs_that_are_not_fresh_are_named() -> None:
    assert any("not all fresh" in check.what for check in checks([result(sets=[a_set(fresh=False)])]))


def test_the_table_counts_the_campaigns_of_each_case() -> None:
    lines = acceptance_table([result(), result(seed=2), result(case="G", hidden=["x"])]).splitlines()
    assert "| 1 | F | 2 | mechanisms hidden by a join | 0 | 0 | yes |" in lines
    assert "| 1 | G | 1 | mechanisms hidden by a join | 0 | 1 | **no** |" in lines


def test_the_binomial_limit_is_not_exceeded_in_95_of_100() -> None:
    assert binomial_limit(100, 0.01) == 3  # P(at most 2) = 92.1 %, P(at most 3) = 98.2 %
    assert binomial_limit(100, 0.0) == 0
    assert binomial_limit(3, 1.0) == 3


def test_an_interval_holds_its_ends() -> None:
    assert holds(a_set(shows=0.75))
    assert not holds(a_set(shows=0.749))
    assert not holds(a_set(interval=None))


def test_a_set_lacks_one_condition_at_a_time() -> None:
    first, second = PAUSING.conditions
    assert [each.conditions for each in lacking_one(PAUSING)] == [(second,), (first,)]


def test_a_claim_is_of_the_runs_inside_until_fresh_ones_are_counted() -> None:
    claim = claim_of(replace(ANOMALY, fresh_runs=10, fresh_shows=9))
    assert (claim["k"], claim["n"]) == (9, 10)
    assert claim["interval"] == pytest.approx([0.596, 0.982], abs=0.001)
    assert claim_of(replace(ANOMALY, fresh_runs=0))["interval"] is None


def test_a_page_names_the_commit_of_each_row() -> None:
    rows = [result(1), result(3, "sick"), result(2, "nested", commit="def"), result(2, "nested", commit="older")]
    chosen = of_commits([*rows, result(1, commit="def")], ["abc", "def", "older"])
    assert [(each["row"], each["commit"]) for each in chosen] == [(1, "abc"), (3, "abc"), (2, "def")]
    assert "rows 1, 3 at commit abc and row 2 at commit def" in page(chosen)
    assert of_commits(rows, ["def"]) == [rows[2]]


def test_what_is_on_record_is_not_run_again(script: ModuleType, tmp_path: Path) -> None:
    cases = [case for case in script.CASES if case.row == 1][:2]
    tasks = script.tasks_of(cases, 2, 1, "10h", "abc")
    assert [(task.case.name, task.seed) for task in tasks] == [("F", 1), ("G", 1), ("F", 2), ("G", 2)]
    path = tmp_path / "findings.jsonl"
    script.append(path, result())
    script.append(path, result(case="G", seed=2, commit="older"))
    left = script.pending(tasks, script.read_results(path))
    assert [(task.case.name, task.seed) for task in left] == [("G", 1), ("F", 2), ("G", 2)]


def test_a_line_that_a_kill_cut_is_run_again_and_spoils_no_other(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"
    script.append(path, result())
    with path.open("a") as file:
        file.write('{"row": 1, "ca')
    script.append(path, result(seed=3))
    assert [each["seed"] for each in script.read_results(path)] == [1, 3]


def test_healthy_subsystems_get_five_times_the_campaigns(script: ModuleType) -> None:
    tasks = script.tasks_of([case for case in script.CASES if case.row == 5], 20, 1, "10h", "abc")
    assert sum(task.case.subsystem == "F-healthy" for task in tasks) == 4 * 100
    assert sum(task.case.subsystem == "F" for task in tasks) == 4 * 20


def test_every_case_without_new_options_is_a_testbed_of_collie_search(script: ModuleType) -> None:
    cases = [case for case in script.CASES if case.row in {1, 2, 3}]
    assert script.refused(cases) == {}
    assert all(case.testbed().is_simulated for case in cases)
    odd = script.Case(4, "F", ("--no-such-option", "1"))
    assert "--no-such-option" in script.refused([odd])[odd.name]


def test_a_campaign_ends_as_a_line_with_its_sets(script: ModuleType, tmp_path: Path) -> None:
    task = script.tasks_of([script.CASES[0]], 1, 3, "60runs", "abc")[0]
    script.append(tmp_path / "findings.jsonl", script.run(task))
    (line,) = script.read_results(tmp_path / "findings.jsonl")
    assert script.key_of(line) == task.key
    assert line["runs"] == 60
    assert len(line["planted"]) == 13
    assert line["sets"]
    assert isinstance(next(checks([line])), Check)
