"""Data of strangers: a JSON text is read or refused by a `ValueError`, and a value has the type it should or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypedDict

import pytest
from hypothesis import given, strategies as st

from collie.errors import CollieError, HostUnreachable, UsageError
from collie.untrusted import UNSAFE_CHARACTERS, read_json, sanitized, typed, whole_number


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


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "NaN", '{"a": Infinity}', "{", "", "9" * 5000, "1e999", '{"a": [-1e999]}', '"\x00"', "[1,]"]
)
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text)


def test_text_that_steers_is_defused_wherever_it_stands() -> None:
    raw = read_json('{"a\\u001b[2J": ["\\ud800", "caf\u00e9\\n\\ttab", {"b": "\u202e\\u009b"}]}')
    assert raw == {"a\ufffd[2J": ["\ufffd", "caf\u00e9\n\ttab", {"b": "\ufffd\ufffd"}]}


@pytest.mark.parametrize("text", ["\u00b2", "9" * 5000, "-1", "1.0", "", "1 ", "\u0661"])
def test_a_number_of_a_host_is_of_plain_digits(text: str) -> None:
    assert whole_number(text) is None
    assert whole_number("3") == 3


@given(text=st.text())
def test_defused_text_can_be_printed(text: str) -> None:
    assert not UNSAFE_CHARACTERS.search(sanitized(text))
    sanitized(text).encode()


def test_no_error_steers_a_terminal() -> None:
    steering = "\x1b]0;owned\x07 \u202e"
    for error in (CollieError(steering), UsageError(steering), HostUnreachable(steering, steering, steering)):
        assert "owned" in str(error)
        assert not UNSAFE_CHARACTERS.search(str(error))


def test_levels_are_counted() -> None:
    assert read_json("[" * 40 + "]" * 40)
    with pytest.raises(ValueError, match="nested too deep"):
        read_json("[" * 41 + "]" * 41)


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
    ],
)
def test_a_value_of_another_type_is_refused(kind: Any, raw: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        typed(kind, raw)
