"""Data of strangers: a JSON text is read or refused by a `ValueError`, and a value has the type it should or none."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from collie.errors import CollieError, HostUnreachable, UsageError
from collie.untrusted import UNSAFE_CHARACTERS, read_json, sanitized, whole_number


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
