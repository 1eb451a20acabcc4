"""Reading of untrusted text from agents, campaign files and bundles.

Text that could control a terminal is neutralized. Standard library only: bundles carry this module.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import re
from typing import Any, NoReturn

UNSAFE_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that control a terminal, disguise text, or cannot be printed. Line breaks and tabs are allowed."""

_NOT_IN_A_LINE = re.compile(rf"[\t\n]|{UNSAFE_CHARACTERS.pattern}")

_MAYBE_STEERING = re.compile(r"\\[ubfr]|[^\x20-\x7e\n\t\r]")  # most texts do not match, and need no further check

_DEEPEST = 40  # levels of nesting. Collie's files have fewer than ten
_MAX_DIGITS = 20


def sanitized(text: str) -> str:
    """Replace each character that could control a terminal."""
    return UNSAFE_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text)


def escaped(text: str) -> str:
    """Return a text on one line, with control characters escaped."""
    return _NOT_IN_A_LINE.sub(lambda found: ascii(found[0])[1:-1], text)


class LineFormatter(logging.Formatter):
    """Formats each record as one line, followed by an indented traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record without the traceback that another handler may have cached."""
        own = copy.copy(record)
        own.exc_text = None  # another handler may have cached an unindented traceback
        return super().format(own)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Escape the line of a record."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Indent a traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """Indent a stack."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"    {escaped(line)}" for line in text.split("\n"))


def whole_number(text: str) -> int | None:
    """Return the number that up to 20 ASCII digits spell. None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else None


def read_json(text: str) -> Any:
    """Read untrusted JSON, with its texts neutralized. `ValueError` for deep nesting, NaN, infinity or invalid JSON."""
    try:
        raw = json.loads(text, parse_constant=no_number, parse_float=_finite)
        if isinstance(raw, dict | list) and text.count("[") + text.count("{") > _DEEPEST:
            _require_shallow(raw, _DEEPEST)
        return _defused_in(raw) if _MAYBE_STEERING.search(text) else raw
    except RecursionError:
        raise ValueError("nested too deep") from None


def _require_shallow(raw: Any, levels: int) -> None:
    """Refuse nesting that later recursion could not handle."""
    if not levels:
        raise ValueError("nested too deep")
    for item in raw.values() if isinstance(raw, dict) else raw:
        if isinstance(item, dict | list):
            _require_shallow(item, levels - 1)


def no_number(name: str) -> NoReturn:
    """Refuse NaN and infinity in JSON."""
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else no_number(text[:40])


def _defused_in(raw: Any) -> Any:
    match raw:
        case str():
            return sanitized(raw)
        case dict():
            return {sanitized(key): _defused_in(value) for key, value in raw.items()}
        case list():
            return [_defused_in(item) for item in raw]
    return raw
