"""Thresholds of a search's explanations, against the ground truth of the subsystem."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from collie.cli.main import run
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.search.breaking import breakings
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.store.sqlite import SqliteStore
from collie.workloads.feature import Condition, feature_value
from collie.workloads.workload import FIELD_NAMES, Workload


def test_one_step_beyond_a_threshold_the_cause_is_gone(tmp_path: Path) -> None:
    """Seed 25 once took 128 KiB for the least message of loopback that pauses. No run had tried the 64 KiB."""
    where = tmp_path / "one"
    assert run(["search", "--subsystem", "F", "--budget", "1h", "--seed", "25", "--campaign", str(where)]) == 0
    space = load_space("nsdi22")
    truth = Truth(load_subsystem("F", SubsystemFile), space)
    store = SqliteStore.open(where, read_only=True)
    (anomaly,) = (each for each in store.anomalies() if each.complete)
    cause = truth.mechanism(anomaly.workload)
    assert cause is not None
    for condition in anomaly.mfs.conditions:
        outside = breakings(anomaly.workload, anomaly.mfs, condition, space)
        nearest = min(outside, key=partial(_distance, anomaly.workload, condition))
        assert truth.mechanism(nearest) is not cause, f"{condition} is not needed"


def _distance(found: Workload, condition: Condition, other: Workload) -> tuple[int, int]:
    value = feature_value(other, condition.dimension)
    changed = sum(found.get(name) != other.get(name) for name in FIELD_NAMES)
    return changed, abs(value - condition.value) if isinstance(value, int) else 0
