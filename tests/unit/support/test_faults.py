"""The parts of the fault suite that decide: which faults strike, what differs, what has grown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER, measured
from tests.support.faults.flatness import Allowance, Reading, Value, table, trends
from tests.support.faults.lab import LAB
from tests.support.faults.plan import LEAST, Tally, drawn, grouped
from tests.support.faults.records import differences, rows, snapshot
from tests.support.faults.simulated import ENDING, PRETENDED, SIMULATED

KINDS = [*SIMULATED, *PRETENDED]


@pytest.mark.parametrize(("kinds", "count"), [(KINDS, 140), ([*LAB], 60)])
def test_every_kind_strikes_often_enough_and_a_seed_gives_one_plan(kinds: list[str], count: int) -> None:
    plan = drawn(kinds, count, Random(1))
    assert len(plan) == count
    assert set(plan) == set(kinds)
    assert min(Counter(plan).values()) >= LEAST
    assert plan == drawn(kinds, count, Random(1)) != drawn(kinds, count, Random(2))


def test_too_few_faults_for_all_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match=f"are {LEAST * len(KINDS)} faults, not 10"):
        drawn(KINDS, 10, Random(1))


def test_campaigns_share_faults_and_end_with_what_spoils_them() -> None:
    plan = drawn(KINDS, 140, Random(1))
    groups = grouped(plan, 4, ENDING)
    assert Counter(kind for group in groups for kind in group) == Counter(plan)
    assert all(kind not in ENDING for group in groups for kind in group[:-1])
    assert all(len(group) <= 5 for group in groups)


def test_a_violation_shows_in_the_table_with_its_fault() -> None:
    tally = Tally()
    tally.add("disk_full", "ended", [])
    tally.add("disk_full", "ended", ["a traceback"])
    assert "| disk full | 2 | ended (2) |" in tally.table()
    assert "2 faults, 1 violations" in tally.table()
    assert tally.violations == ["fault 2, disk_full: a traceback"]


def recorded(path: Path, runs: int) -> Path:
    with SqliteStore.create(path, HEADER) as store:
        for run in range(1, runs + 1):
            store.add_run(measured(run))
        store.add_anomaly(ANOMALY)
    return path


PRINTED = '{"runs": 3, "wall_seconds": 1.5}'


def test_records_of_one_campaign_are_equal_and_a_row_more_is_named(tmp_path: Path) -> None:
    whole, same, longer = (
        snapshot(recorded(tmp_path / name / "c", runs), PRINTED) for name, runs in (("a", 3), ("b", 3), ("d", 4))
    )
    assert set(whole.parts) >= {"runs", "anomalies", "calibration", "header", "results.jsonl", "standard output"}
    assert any(name.startswith("anomalies/") for name in whole.parts)
    assert differences(whole, same) == []
    found = differences(whole, longer)
    assert [each.split(":")[0] for each in found] == ["results.jsonl", "runs 4"]


def test_a_campaign_within_a_campaign_is_compared_too(tmp_path: Path) -> None:
    for name, runs in (("a", 2), ("b", 3)):
        recorded(tmp_path / name / "c", 1)
        recorded(tmp_path / name / "c" / "baseline", runs)
    found = differences(*(snapshot(tmp_path / name / "c", PRINTED) for name in ("a", "b")))
    assert [each.split(":")[0] for each in found] == ["baseline/results.jsonl", "baseline/runs 3"]


def test_rows_are_none_where_there_is_no_record(tmp_path: Path) -> None:
    assert rows(tmp_path) == {}
    assert list(rows(recorded(tmp_path / "c", 2))) == [1, 2]


def readings(grow: float, life: int = 1000) -> list[Reading]:
    """Of a process that is replaced after so many seconds, and takes 100 and what it has grown by since."""
    return [Reading(second, {"memory": Value(100.0 + grow * (second % life), second // life)}) for second in range(101)]


@pytest.mark.parametrize("life", [1000, 40])
@pytest.mark.parametrize(("grow", "flat"), [(0.0, True), (0.1, True), (1.0, False)])
def test_what_grows_within_one_life_beyond_its_allowance_is_not_flat(grow: float, flat: bool, life: int) -> None:
    (trend,) = trends(readings(grow, life), {"memory": Allowance(0.1, 5.0)}, 30.0)
    assert trend.flat is flat
    assert trend.seconds == min(100, life - 1)
    assert ("NO" in table([trend])) is not flat


@pytest.mark.parametrize("read", [readings(0.0, 10), readings(0.0)[:20], []])
def test_what_has_not_lived_long_enough_is_no_trend(read: list[Reading]) -> None:
    with pytest.raises(ValueError, match=r"memory: of [0-9]+ lives the longest took [0-9]+ s, not 30 s"):
        trends(read, {"memory": Allowance(0.1, 5.0)}, 30.0)
