"""Names that mistyped ones were meant to be."""

from __future__ import annotations

import pytest

from collie.suggest import did_you_mean, nearest

NAMES = ("qps", "qp_type", "READ", "F", "F-healthy")


@pytest.mark.parametrize(
    ("typed", "meant"), [("qsp", "qps"), ("read", "READ"), ("f", "F"), ("Qp_Type", "qp_type"), ("REED", "READ")]
)
def test_the_nearest_name_ignores_upper_and_lower_case(typed: str, meant: str) -> None:
    assert nearest(typed, NAMES) == meant
    assert did_you_mean(typed, NAMES) == f"; did you mean {meant!r}?"


def test_nothing_is_suggested_for_what_is_like_no_name() -> None:
    assert nearest("bandwidth", NAMES) is None
    assert did_you_mean("bandwidth", NAMES) == ""
    assert did_you_mean("x", ()) == ""
