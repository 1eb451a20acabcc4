"""The benchmark of the search."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from collie.search.recipe import Step
from tests.support.results import read_results
from tests.support.search_evidence import PARTS


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "search_efficiency.py"
    spec = importlib.util.spec_from_file_location("search_efficiency", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_benchmark_prints_its_tables_and_writes_its_files(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--contenders random,nsdi22-diag --seeds 5 --budget 120runs --quality-points 20 --jobs 1 --output"
    benchmark.main([*words.split(), str(tmp_path / "out")])

    printed = capsys.readouterr()
    assert "| *paper: Collie (Diag)* | 3 (3) | 14 (9) |" in printed.out
    assert "| random |" in printed.out
    results = read_results(tmp_path / "out.jsonl")
    assert [result["contender"] for result in results] == ["random", "nsdi22-diag"]
    assert all(result["runs"] == 120 and len(result["planted"]) == 13 for result in results)
    assert (tmp_path / "out.png").stat().st_size > 10_000

    benchmark.main([*words.split(), str(tmp_path / "out")])

    again = capsys.readouterr()
    assert again.out == printed.out
    assert "2/2 F nsdi22-diag, 1 phases, seed 5" in printed.err
    assert not again.err, "a campaign on record has run again"


def test_each_clock_has_campaigns_and_tables_of_its_own(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--contenders random,nsdi22-perf --phases 1,8 --seeds 5 --budget 60runs --quality-points 0 --jobs 1"
    benchmark.main(words.split())

    one, eight = capsys.readouterr().out.split("8 phases of a set-up at most:")
    assert "*paper: Collie (Perf)*" in one
    assert "*paper" not in eight
    assert all(f"| {name} |" in eight for name in ("random", "nsdi22-perf"))


def test_a_contender_can_change_fields_of_its_recipe(benchmark: ModuleType) -> None:
    task = benchmark.Task("F", 'nsdi22-diag+schedule.decay=0.9+schedule.step="one"+audits=2', 1, phases=8)

    recipe = benchmark.recipe_of(task)

    assert (recipe.schedule.decay, recipe.schedule.step, recipe.audits, recipe.phases) == (0.9, Step.ONE, 2, 8)
    assert recipe.schedule.start == benchmark.recipe_of(benchmark.Task("F", "nsdi22-diag", 1)).schedule.start
    with pytest.raises(ValueError, match="Schedule has no field 'decays'"):
        benchmark.recipe_of(benchmark.Task("F", "nsdi22-diag+schedule.decays=0.9", 1))


def test_campaigns_of_the_page_that_another_commit_ran_are_run_again(benchmark: ModuleType) -> None:
    part = PARTS["clocks"]
    before, now = (benchmark.evidence_tasks(part, 2, commit) for commit in ("a", "b"))
    assert len(now) == 2 * len(part.contenders) * len(part.phases)
    assert {task.seed for task in now[: len(now) // 2]} == {1}
    done = [{"asked": dataclasses.asdict(task)} for task in (*before, *now[:3])]

    assert benchmark.pending(now, done) == now[3:]
    assert benchmark.results_of(now, reversed(done)) == done[-3:]


def test_a_part_that_the_page_lacks_is_named(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.main(["--evidence", "clocks,clocc"])
    assert "no part clocc" in capsys.readouterr().err


def test_seeds_are_read_as_ranges_and_lists(benchmark: ModuleType) -> None:
    assert benchmark.parse_seeds("1-3,7") == [1, 2, 3, 7]
