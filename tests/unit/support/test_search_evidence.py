"""The tables and the page of the evidence on searches."""

from __future__ import annotations

from typing import Any

from tests.support.contenders import CONTENDERS
from tests.support.search_evidence import PARTS, Part, of_one_commit, page
from tests.support.search_tables import (
    best_schedule,
    clocks_table,
    minutes_table,
    paper_of,
    schedules_table,
    stage_runs,
    summary_table,
)

SCHEDULE = {"start": 1.0, "end": 0.1, "decay": 0.5, "runs_per_temperature": 1, "step": "group"}


def result(contender: str = "mine", **changes: Any) -> dict[str, Any]:
    anomaly = {"extraction_runs": 30, "complete": True, "precision": 0.9, "recall": 0.5, "joint_recall": 1.0}
    costs = {"runs": 800, "search_runs": 90, "false": 1, "wall_seconds": 2.0, "budget_minutes": 600.0}
    joins = {"explained": ["x"], "joined": 4, "merged_wrong": {"a2": ["x", "y"]}}
    named = {
        "contender": contender,
        "subsystem": "A",
        "planted": ["x", "y"],
        "seed": 1,
        "commit": "b",
        "phases": 1,
        "explains": True,
    }
    rest = {"schedule": SCHEDULE, "found": {"x": 10.0, "y": 40.0}, "anomalies": [anomaly, anomaly]}
    return named | costs | joins | rest | changes


def test_the_tables_have_medians_their_spread_and_how_many_got_there() -> None:
    results = [result(), result(found={"y": 20.0}), result(found={"x": 60.0})]

    assert "| mine | 20 (10 to 60) | > (40 to >) [1] |" in minutes_table(results)
    found = "3 | 1, 1.33 (1 to 2) | 1, 1.00 (1 to 1) | 3 | 3 of 12 | 413"
    assert f"| mine | {found} | 1.7 | 30, 30 | 100% | 0.900 | 0.500 | 1.000 | 800 | 90 | 2.0 |" in summary_table(
        results
    )


def test_the_paper_stands_beside_the_clock_that_it_has() -> None:
    def row(phases: int) -> bool:
        return "*paper: Collie (Diag)*" in minutes_table([result("nsdi22-diag", subsystem="F", phases=phases)])

    assert row(1)
    assert not row(8)


def test_every_contender_of_the_paper_has_its_figures() -> None:
    assert all(paper_of(name) for name in CONTENDERS)
    paper = paper_of("nsdi22-diag")
    assert paper is not None
    assert len(paper[1]) == 13


def test_a_schedule_is_a_row_with_both_clocks() -> None:
    results = [result(), result(found={"x": 1.0}), result(phases=8)]

    both = "2 | 1.50 (0.50) | 1.00 (0.00) | 90 | 1 | 2 | 1 | 90 |"
    assert f"| 1.0 | 0.1 | 0.5 | 1 | group | 4 | {both}" in schedules_table(results)
    assert f"| mine | {both}" in clocks_table(results)
    assert stage_runs(SCHEDULE | {"decay": 0.9, "runs_per_temperature": 5}) == 110


def test_a_schedule_is_better_by_so_many_standard_errors() -> None:
    first = [result(), result(found={"x": 1.0})]
    better = [result("other"), result("other")]

    said = "The best mean is 0.50 above that of the recipe, the first. Its standard error is 0.50."
    assert best_schedule(first + better) == said
    assert best_schedule(better + first) == "None finds more than that of the recipe, the first."
    assert best_schedule(first[:1] + better) == "One campaign of each does not tell schedules apart."


def test_results_of_two_commits_are_not_mixed() -> None:
    part = Part("both", ("mine", "yours"), (1,), range(1, 3))
    old = [result(commit="a"), result("yours", commit="a")]
    half, whole = [result()], [result(), result("yours")]

    assert of_one_commit(old + half, part) == old
    assert of_one_commit(old + whole, part) == whole
    assert of_one_commit([], part) == []


def test_the_page_says_which_campaigns_it_lacks() -> None:
    part = PARTS["clocks"]
    text = page(dict.fromkeys(PARTS.values(), ()) | {part: [result("random"), result("guided", phases=8)]}, ())

    assert "2 campaigns at commit b, seed 1, of 280 that the command asks for (seeds 1 to 20)." in text
    assert "### One run per set-up" in text
    assert "### 8 phases per set-up" in text
    assert "Not measured yet: 280 campaigns, seeds 201 to 220." in text
    assert "released prototype" not in text


def test_the_prototype_stands_beside_with_what_it_calls_anomalous() -> None:
    searches = [
        result("prototype-perf", points=1000, anomalous=800, unfounded=10),
        result("prototype-perf", points=1200, anomalous=900, unfounded=0, seed=2, found={"x": 3.0}),
    ]
    text = page(dict.fromkeys(PARTS.values(), ()), searches)

    assert "2 searches at commit b, seeds 1 to 2." in text
    assert "| prototype-perf | 3 (3 to 10) | 40 (40 to >) [1] |" in text
    assert "| prototype-perf | 2 | 1.5, 1.50 (1 to 2) | 1100 | 845 | 5 |" in text
