"""What strangers wrote, read as data: agents, campaign files and bundles that somebody else made.

JSON that nests too deep, names no number or holds no JSON raises a `ValueError` and nothing else. Text that would steer
a terminal is made harmless. `collie.plain` makes typed values of the rest. Standard library only: a bundle takes this
along.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import re
from typing import Any, NoReturn

STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What could steer a terminal, make a line of text read as something else, or cannot be printed at all. Line breaks and
tabs may stand."""

_NOT_IN_A_LINE = re.compile(rf"[\t\n]|{STEERING.pattern}")

_MAYBE_STEERING = re.compile(r"\\[ubfr]|[^\x20-\x7e\n\t\r]")
"""What JSON text holds wherever one of its values could match `STEERING`: most texts need no second look."""

_DEEPEST = 40
"""Levels. Nothing that Collie writes has ten."""
_MAX_DIGITS = 20


def defused(text: str) -> str:
    """Return a text with a replacement character in the place of each that could steer a terminal."""
    return STEERING.sub("\N{REPLACEMENT CHARACTER}", text)


def escaped(text: str) -> str:
    """Return a text on one line: each control character, and each that could steer a terminal, as its escape."""
    return _NOT_IN_A_LINE.sub(lambda found: ascii(found[0])[1:-1], text)


class LineFormatter(logging.Formatter):
    """Gives each record one line of its own: no message can break it, and a traceback follows indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text."""
        own = copy.copy(record)
        own.exc_text = None  # another handler may have left a traceback here that is not indented
        return super().format(own)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line of a record."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return a traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """Return where a record comes from."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"    {escaped(line)}" for line in text.split("\n"))


def whole_number(text: str) -> int | None:
    """Return the number that a text of plain digits is; None of any other, or of one that no setting of a host is."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else None


def read_json(text: str) -> Any:
    """Read JSON of a stranger; texts in it are defused.

    Raises:
        ValueError: it is none, nests too deep, or holds NaN, an infinity, or a number too large for a float.
    """
    try:
        raw = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        if isinstance(raw, dict | list) and text.count("[") + text.count("{") > _DEEPEST:
            _require_shallow(raw, _DEEPEST)
        return _defused_in(raw) if _MAYBE_STEERING.search(text) else raw
    except RecursionError:
        raise ValueError("nested too deep") from None


def _require_shallow(raw: Any, levels: int) -> None:
    """Refuse what whoever walks through it later could not get to the bottom of."""
    if not levels:
        raise ValueError("nested too deep")
    for item in raw.values() if isinstance(raw, dict) else raw:
        if isinstance(item, dict | list):
            _require_shallow(item, levels - 1)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text[:40])


def _defused_in(raw: Any) -> Any:
    match raw:
        case str():
            return defused(raw)
        case dict():
            return {defused(key): _defused_in(value) for key, value in raw.items()}
        case list():
            return [_defused_in(item) for item in raw]
    return raw
