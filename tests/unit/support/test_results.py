"""Results of long scripts."""

from __future__ import annotations

from pathlib import Path

from tests.support.results import append, last_commit, read_results


def test_a_line_that_a_kill_cut_is_left_out_and_the_next_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append(path, {"seed": 1})
    path.write_text(path.read_text() + '{"seed": ')
    append(path, {"seed": 2})

    assert read_results(path) == [{"seed": 1}, {"seed": 2}]


def test_outside_of_a_repository_the_commit_is_unknown(tmp_path: Path) -> None:
    assert last_commit(tmp_path, ("collie",)) == "unknown"
