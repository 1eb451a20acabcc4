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


def test_a_number_without_its_leading_zero_means_that_number() -> None:
    assert nearest("nsdi22-8", ("nsdi22-08", "nsdi22-18", "nsdi22-10")) == "nsdi22-08"
    assert nearest("nsdi22-008", ("nsdi22-08", "nsdi22-18")) == "nsdi22-08"


def test_a_far_name_is_not_suggested() -> None:
    assert nearest("bogus", ("outs", "qp", "mtu")) is None
    assert nearest("sps", ("qps", "mtu")) is None
    assert nearest("dentries", ("entries",)) == "entries"


def test_nothing_is_suggested_for_what_is_like_no_name() -> None:
    assert nearest("bandwidth", NAMES) is None
    assert did_you_mean("bandwidth", NAMES) == ""
    assert did_you_mean("x", ()) == ""
