"""`collie isolate` on a simulated subsystem."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command import collie


def test_an_aggressor_is_found_explained_and_reproduced(tmp_path: Path) -> None:
    search = (
        "isolate",
        "--subsystem",
        "F",
        "--budget",
        "150runs",
        "--seed",
        "3",
        "--campaign",
        "c",
        "--format",
        "json",
    )
    found = json.loads(collie(*search, cwd=tmp_path).stdout)
    symptoms = {anomaly["symptom"] for anomaly in found["anomalies"]}
    assert symptoms == {"victim_loss"}
    worst = max(found["anomalies"], key=lambda anomaly: anomaly["severity"])
    assert "a plain flow keeps" in worst["sentence"]
    again = collie("reproduce", f"c/{worst['id']}", "--repeat", "2", cwd=tmp_path)
    assert "victim loss" in again.stdout


def test_a_plan_names_what_is_compared(tmp_path: Path) -> None:
    plan = json.loads(collie("isolate", "--dry-run", "--format", "json", cwd=tmp_path).stdout)
    assert (plan["recipe"], plan["space"]) == ("isolate", "offered-load")


def test_a_workload_is_measured_beside_a_victim(tmp_path: Path) -> None:
    done = collie("measure", "nsdi22-01", "--victim", cwd=tmp_path).stdout
    assert "victim  keeps" in done
