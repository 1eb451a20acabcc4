"""The page of evidence on latency and isolation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tails_and_neighbours import page


def result(kind: str, **changes: Any) -> dict[str, Any]:
    plain = {
        "subsystem": "F",
        "budget": "10h",
        "planted": [],
        "found": [],
        "explained": [],
        "false": 0,
        "anomalies": [],
    }
    return {"kind": kind, **plain, **changes}


def aggressor(cause: str, severity: float, mfs: str, *, complete: bool = True) -> dict[str, Any]:
    return {"cause": cause, "severity": severity, "mfs": mfs, "complete": complete}


def test_each_kind_has_its_sums() -> None:
    text = page(
        [
            result("late", planted=["cold_regions", "long_lists"], found=["long_lists"], explained=[]),
            result(
                "late", planted=["cold_regions", "long_lists"], found=["long_lists"], explained=["long_lists"], false=1
            ),
            result("healthy", subsystem="F-healthy"),
        ],
        "abc",
    )
    assert "3 campaigns of 10h each at\ncommit abc" in text
    assert "| F | 2 | 2 of 4 (50%) | 1 of 4 (25%) | 1 |" in text
    assert "| F-healthy | 1 | - | - | 0 |" in text
    assert "recipe `isolate`" not in text


@pytest.mark.parametrize("kind", ["isolate", "verbs"])
def test_a_resource_has_its_worst_explained_aggressor(kind: str) -> None:
    anomalies = [
        aggressor("wire", 0.3, "qps >= 4"),
        aggressor("wire", 0.6, "qps >= 64"),
        aggressor("wire", 0.9, "qps >= 512", complete=False),
        aggressor("doorbells", 0.7, "wqe_batch <= 1", complete=False),
    ]
    planted = ["doorbells", "wire"]
    found = result(kind, planted=planted, found=planted, explained=["wire"], anomalies=anomalies)
    text = page([found, result(kind, planted=planted)], "abc")
    assert "| F | wire | 1 of 2 | 1 of 2 | 40% | `qps >= 64` |" in text
    assert "| F | doorbells | 1 of 2 | 0 of 2 | - | - |" in text
