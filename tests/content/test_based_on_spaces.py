"""Spaces that are based on another one."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from collie.content.spaces import load_space
from collie.errors import ContentError

LOAD = "offered_bps: {range: [0, 5Gbit], ladder: [0, 5Gbit], plain: 0}"


def space(folder: Path, name: str, text: str) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return str(path)


def test_a_space_has_what_its_base_has_and_what_it_states(tmp_path: Path) -> None:
    base, mine = (
        load_space("nsdi22"),
        load_space(space(tmp_path, "mine", f"based_on: nsdi22\ndimensions: {{{LOAD}}}\n")),
    )
    assert list(mine.dimensions) == [*base.dimensions, "offered_bps"]
    assert mine.limits == base.limits
    assert mine.name == "mine"


def test_what_a_space_states_takes_the_place_of_its_base(tmp_path: Path) -> None:
    own = "limits: {total_mrs: 7}\nfixed: {mtu: 1024}\ndimensions: {qps: {ladder: [1, 2], plain: 2}}\n"
    mine = load_space(space(tmp_path, "mine", f"based_on: nsdi22\n{own}"))
    assert mine.base.qps == 2
    assert mine.base.mtu == 1024
    assert "mtu" not in mine.dimensions
    assert mine.limits.total_mrs == 7
    again = load_space(
        space(tmp_path, "again", "based_on: mine.yaml\ndimensions: {mtu: {ladder: [4096], plain: 4096}}\n")
    )
    assert again.base.mtu == 4096
    assert "mtu" not in again.fixed


def test_a_limit_that_a_space_states_leaves_the_others_of_its_base(tmp_path: Path) -> None:
    base = load_space("soft-roce").limits
    mine = load_space(
        space(tmp_path, "mine", f"based_on: soft-roce\nlimits: {{total_mrs: 7}}\ndimensions: {{{LOAD}}}\n")
    )
    assert mine.limits == replace(base, total_mrs=7)
    again = load_space(
        space(tmp_path, "again", f"based_on: mine.yaml\nlimits: {{pinned_bytes: 1MiB}}\ndimensions: {{{LOAD}}}\n")
    )
    assert again.limits == replace(base, total_mrs=7, pinned_bytes=1 << 20)


def test_rounds_of_a_load_are_limited_where_a_space_says_so(tmp_path: Path) -> None:
    assert load_space("soft-roce").limits.round_seconds == math.inf
    mine = load_space(space(tmp_path, "mine", f"based_on: soft-roce-load\ndimensions: {{{LOAD}}}\n"))
    assert mine.limits.round_seconds == 0.6
    with pytest.raises(ContentError, match="round_seconds"):
        load_space(space(tmp_path, "bad", f"limits: {{round_seconds: 0}}\ndimensions: {{{LOAD}}}\n"))


def test_a_base_that_leads_back_is_refused(tmp_path: Path) -> None:
    one = space(tmp_path, "one", f"based_on: two.yaml\ndimensions: {{{LOAD}}}\n")
    space(tmp_path, "two", f"based_on: one.yaml\ndimensions: {{{LOAD}}}\n")
    with pytest.raises(ContentError, match=r"two.yaml:1: based_on: one.yaml leads back here"):
        load_space(one)


def test_a_mistake_in_a_base_is_reported_where_the_base_is_named(tmp_path: Path) -> None:
    space(tmp_path, "one", "dimensions: {qps: {ladder: [1, 2], plain: 3}}\n")
    two = space(tmp_path, "two", f"based_on: one.yaml\ndimensions: {{{LOAD}}}\n")
    with pytest.raises(ContentError, match=r"two.yaml:1: based_on: .*one.yaml:1: "):
        load_space(two)
