"""Ticks of the axes of maps and sweeps."""

from __future__ import annotations

import pytest

from collie.report.figures.severity_map import ticks
from collie.workloads.sweep import Axis


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((1, 2, 4, 8), ["1", "2", "4", "8"]),
        ((10, 100, 3000), ["10", "100", "1000"]),
        ((1, 7, 30), ["1", "2", "5", "10", "20"]),
        ((300, 400), ["300", "400"]),
        ((3, 6, 9), ["3", "6", "9"]),
        ((30, 40, 80), ["30", "40", "80"]),
    ],
)
def test_an_axis_has_at_least_two_labels(values: tuple[int, ...], labels: list[str]) -> None:
    assert [label for _, label in ticks(Axis("qps", values, True, None))[0]] == labels
