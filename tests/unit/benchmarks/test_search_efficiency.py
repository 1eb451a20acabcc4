"""The benchmark of the search."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.contenders import CONTENDERS


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

    printed = capsys.readouterr().out
    assert "| *paper: Collie (Diag)* | 3 (3) | 14 (9) |" in printed
    assert "| random |" in printed
    document = json.loads((tmp_path / "out.json").read_text())
    assert [result["contender"] for result in document["results"]] == ["random", "nsdi22-diag"]
    assert all(result["runs"] == 120 and len(result["planted"]) == 13 for result in document["results"])
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_the_tables_of_the_benchmark_say_mean_spread_and_how_many_got_there(benchmark: ModuleType) -> None:
    anomaly = {"extraction_runs": 30, "complete": True, "precision": 0.9, "recall": 0.5, "joint_recall": 1.0}

    def result(**found: float) -> dict[str, object]:
        rest = {"runs": 800, "false": 1, "wall_seconds": 2.0, "budget_minutes": 600.0}
        joins = {"explained": ["x"], "joined": 4, "merged_wrong": {"a2": ["x", "y"]}}
        named = {"contender": "mine", "subsystem": "A", "planted": ["x", "y"]}
        return {**named, **rest, **joins, "found": found, "anomalies": [anomaly, anomaly]}

    results = [result(x=10.0, y=40.0), result(y=20.0)]

    assert "| mine | 15 (7) [2] | 40 (0) [1] |" in benchmark.minutes_table(results)
    cells = "1.50 (1 to 2) | 1.00 | 2 | 2 of 8 | 320 | 1.5 | 30, 30 | 100% | 0.900 | 0.500 | 1.000 | 800 | 2.0"
    assert f"| mine | {cells} |" in benchmark.summary_table(results)


def test_seeds_are_read_as_ranges_and_lists(benchmark: ModuleType) -> None:
    assert benchmark.parse_seeds("1-3,7") == [1, 2, 3, 7]


def test_every_contender_of_the_paper_has_its_figures(benchmark: ModuleType) -> None:
    assert all(benchmark.paper_of(name) for name in CONTENDERS)
    assert len(benchmark.paper_of("nsdi22-diag")[1]) == 13
