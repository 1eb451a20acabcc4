"""Values become plain values and come back, or are refused: a value has the type it should or none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypedDict

import pytest

from collie.plain import CODEC, Codec, Form, Shape, typed


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: float
    name: str = "p"
    tags: tuple[str, ...] = ()


class Counted(TypedDict):
    count: int


class Answer(Counted, total=False):
    note: str | None


def test_numbers_have_at_most_128_bits() -> None:
    assert typed(int, (1 << 128) - 1)
    for beyond in (1 << 128, -(1 << 128)):
        with pytest.raises(ValueError, match="not a whole number"):
            typed(int, beyond)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (Point, {"x": 1}, Point(1)),
        (Point, {"x": 1.5, "tags": ["a"]}, Point(1.5, tags=("a",))),
        (Answer, {"count": 3, "more": []}, {"count": 3}),
        (Answer, {"count": 3, "note": None}, {"count": 3, "note": None}),
        (Colour, "red", Colour.RED),
        (Mapping[str, int | None], {"a": None, "b": 1}, {"a": None, "b": 1}),
        (Sequence[int], [1, 2], (1, 2)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (int | str, "a", "a"),
        (bool, True, True),
        (Any, [{}], [{}]),
        (None, None, None),
        (Literal["a", "b"], "b", "b"),
    ],
)
def test_a_value_of_the_type_is_taken(kind: Any, raw: Any, value: Any) -> None:
    assert typed(kind, raw) == value


@pytest.mark.parametrize(
    ("kind", "raw", "said"),
    [
        (Point, {"x": "1"}, "x: '1' is not a number"),
        (Point, {}, "x is missing"),
        (Point, {"x": 1, "y": 2}, "'y' is unknown"),
        (Point, [], "a list is not keys and values"),
        (Point, {"x": 1, "tags": "ab"}, "tags: 'ab' is not a list"),
        (Answer, {"note": "n"}, "count is missing"),
        (Colour, "blue", "blue"),
        (Colour, [], "a list is not text"),
        (Mapping[str, float], {"a": {"b": 1}}, "a: a dict is not a number"),
        (tuple[int, str], [1], "a list of 2"),
        (int, True, "True is not a whole number"),
        (int, 1.0, "not a whole number"),
        (int, 1 << 128, "not a whole number"),
        (float, 10**400, "not a number"),
        (float, float("inf"), "not a number"),
        (float, float("nan"), "not a number"),
        (float | None, "x", "not a number"),
        (bool, 1, "not true or false"),
        (str, None, "None is not text"),
        (None, 1, "1 is not nothing"),
        (Literal["a", "b"], "c", "'c' is not one of 'a', 'b'"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Any, raw: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        typed(kind, raw)


@dataclass(frozen=True)
class Reading:
    name: str
    value: float | None = None
    seconds: float = 0.0
    counters: Mapping[str, float | None] = field(default_factory=dict)
    colour: Colour | None = None
    point: Point = Point(0.0)


READING = Reading("r", 1.5, 2.0, {"a": None, "b": 1}, Colour.RED, Point(1, tags=("x", "y")))
WRITTEN = {
    "name": "r",
    "value": 1.5,
    "seconds": 2.0,
    "counters": {"a": None, "b": 1},
    "colour": "red",
    "point": {"x": 1, "name": "p", "tags": ["x", "y"]},
}


def test_a_dataclass_is_written_field_by_field_and_read_back() -> None:
    assert CODEC.write(READING) == WRITTEN
    assert list(CODEC.write(READING)) == list(WRITTEN)
    assert typed(Reading, WRITTEN) == READING
    assert CODEC.write([{1: (READING,)}]) == [{"1": [WRITTEN]}]


def test_a_number_that_may_be_unknown_is_none_when_it_is_not_finite() -> None:
    written = CODEC.write(Reading("r", math.nan, math.inf, {"a": -math.inf}))
    assert (written["value"], written["seconds"], written["counters"]) == (None, math.inf, {"a": None})


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, Point])
def test_a_value_that_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be recorded"):
        CODEC.write({"key": value})


def test_a_shape_orders_renames_and_leaves_out() -> None:
    shape = Shape(first=("seconds",), without=("counters",), keys={"name": "called"}, sparse=True, is_open=True)
    codec = Codec({Reading: shape, Point: Form(lambda point: point.x, Point)})
    assert list(codec.write(READING).items()) == [
        *(("seconds", 2.0), ("called", "r"), ("value", 1.5), ("colour", "red"), ("point", 1))
    ]
    assert codec.write(Reading("r")) == {"called": "r"}
    assert codec.read(Reading, {"called": "r", "point": 3, "more": 1}) == Reading("r", point=Point(3))
    with pytest.raises(ValueError, match="called is missing"):
        codec.read(Reading, {"name": "r"})
