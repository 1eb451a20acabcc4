"""The payload that sinks receive, as curves over time."""

from __future__ import annotations

import pytest

from collie.readings.delivery import Curve


@pytest.mark.parametrize(
    ("seconds", "value"), [(-5.0, 10.0), (0.5, 10.0), (1.0, 10.0), (1.5, 15.0), (2.0, 20.0), (4.0, 50.0), (9.0, 80.0)]
)
def test_a_curve_is_linear_between_its_points_and_constant_outside(seconds: float, value: float) -> None:
    assert Curve([(1.0, 10.0), (2.0, 20.0), (6.0, 80.0)]).at(seconds) == value


def test_a_curve_grows_only_where_it_has_points() -> None:
    assert Curve([(1.0, 10.0), (2.0, 20.0)]).advance(0.0, 1.5) == 5.0
