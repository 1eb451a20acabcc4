"""Untrusted text as data: from agents, campaign files and bundles.

Invalid JSON, deep nesting and invalid numbers raise `ValueError` and nothing else. Text that could control a
terminal is neutralized. Values have the reader's types, or are refused. Standard library only: bundles carry this
module.
"""

from __future__ import annotations

import copy
import itertools
import json
import logging
import math
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints, is_typeddict

UNSAFE_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that control a terminal, disguise text, or cannot be printed. Line breaks and tabs are allowed."""

_NOT_IN_A_LINE = re.compile(rf"[\t\n]|{UNSAFE_CHARACTERS.pattern}")

_MAYBE_STEERING = re.compile(r"\\[ubfr]|[^\x20-\x7e\n\t\r]")
"""JSON text that may contain `UNSAFE_CHARACTERS`. Most texts need no second look."""

_DEEPEST = 40
"""Levels of nesting. Collie's files have fewer than ten."""
_MAX_DIGITS = 20
_MAX_MAGNITUDE = 1 << 128
"""Whole numbers are counters of 64 bits, sizes, and seeds, which may be longer. All fit into a float."""


def sanitized(text: str) -> str:
    """Return a text with each character that could control a terminal replaced."""
    return UNSAFE_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text)


def escaped(text: str) -> str:
    """Return a text on one line, with control characters escaped."""
    return _NOT_IN_A_LINE.sub(lambda found: ascii(found[0])[1:-1], text)


class LineFormatter(logging.Formatter):
    """Formats each record as one line, followed by an indented traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text."""
        own = copy.copy(record)
        own.exc_text = None  # another handler may have cached an unindented traceback
        return super().format(own)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line of a record."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return a traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """Return the stack of a record."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"    {escaped(line)}" for line in text.split("\n"))


def whole_number(text: str) -> int | None:
    """Return the number that plain digits spell. None for other text, or more digits than a host's setting has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else None


def read_json(text: str) -> Any:
    """Read untrusted JSON. Its texts are neutralized.

    Raises:
        ValueError: invalid JSON, deep nesting, NaN, infinity, or a number too large for a float.
    """
    try:
        raw = json.loads(text, parse_constant=_no_number, parse_float=_finite)
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


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text[:40])


def _defused_in(raw: Any) -> Any:
    match raw:
        case str():
            return sanitized(raw)
        case dict():
            return {sanitized(key): _defused_in(value) for key, value in raw.items()}
        case list():
            return [_defused_in(item) for item in raw]
    return raw


def typed(kind: Any, raw: Any) -> Any:
    """Return a plain value as a Python type, or refuse it. Only lists are converted, to tuples.

    Args:
        kind: `bool`, `int`, `float`, `str`, `None`, `Any`, a string enumeration, a union, `tuple[X, ...]`,
            `tuple[X, Y]`, `Sequence[X]`, `Mapping[str, X]`, a dataclass (extra keys are refused), or a `TypedDict`
            (extra keys are dropped). Numbers are finite, integers within 128 bits.
        raw: from `read_json`.

    Raises:
        ValueError: names the place and the type of a mismatch.
    """
    return _reader(kind)(raw)


Reader = Callable[[Any], Any]


@cache
def _reader(kind: Any) -> Reader:
    origin = get_origin(kind)
    if kind is Any:
        return lambda raw: raw
    if origin in (Union, types.UnionType):
        return _one_of([None if each is type(None) else _reader(each) for each in get_args(kind)])
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(_reader(get_args(kind)[1]))
    if origin is not None and issubclass(origin, Sequence):
        return _items(get_args(kind))
    if is_dataclass(kind) or is_typeddict(kind):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda raw: kind(_reader(str)(raw))
    return _number if kind is float else _whole if kind is int else _of_type(type(None) if kind is None else kind)


def _one_of(readers: Sequence[Reader | None]) -> Reader:
    nothing, (*others, last) = None in readers, [reader for reader in readers if reader is not None]

    def read(raw: Any) -> Any:
        if raw is None and nothing:
            return None
        for reader in others:
            with suppress(ValueError):
                return reader(raw)
        return last(raw)

    return read


def _mapping(reader: Reader) -> Reader:
    def read(raw: Any) -> Any:
        _require(isinstance(raw, Mapping), raw, "keys and values")
        try:
            return {key: reader(value) for key, value in raw.items()}
        except ValueError:  # again, to name the place: the quick path serves large mappings of counters
            return {key: _at(key, reader, value) for key, value in raw.items()}

    return read


def _items(kinds: tuple[Any, ...]) -> Reader:
    readers = [_reader(kind) for kind in kinds if kind is not ...]
    alike = len(readers) == 1

    def read(raw: Any) -> Any:
        _require(isinstance(raw, list | tuple), raw, "a list")
        _require(alike or len(raw) == len(readers), raw, f"a list of {len(readers)}")
        each = itertools.repeat(readers[0]) if alike else readers
        return tuple([_at(index, reader, item) for index, (reader, item) in enumerate(zip(each, raw, strict=False))])

    return read


def _record(kind: Any) -> Reader:
    hints, needed, closed = get_type_hints(kind), _needed(kind), is_dataclass(kind)
    readers = {name: _reader(hint) for name, hint in hints.items()}

    def read(raw: Any) -> Any:
        _require(isinstance(raw, Mapping), raw, "keys and values")
        if missing := [name for name in needed if name not in raw]:
            raise ValueError(f"{missing[0]} is missing")
        if closed and (unknown := [name for name in raw if name not in readers]):
            raise ValueError(f"{str(unknown[0])[:40]!r} is unknown here")
        return kind(**{name: _at(name, readers[name], value) for name, value in raw.items() if name in readers})

    return read


def _needed(kind: Any) -> tuple[str, ...]:
    """Return the required keys of a record."""
    if is_typeddict(kind):
        return tuple(sorted(kind.__required_keys__))
    return tuple(field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING)


def _at(where: object, reader: Reader, raw: Any) -> Any:
    try:
        return reader(raw)
    except ValueError as error:
        raise ValueError(f"{str(where)[:40]}: {error}") from None


def _number(raw: Any) -> Any:
    if type(raw) in (int, float) and abs(raw) <= sys.float_info.max:
        return raw
    raise _refusal(raw, "a number")


def _whole(raw: Any) -> Any:
    if type(raw) is int and abs(raw) < _MAX_MAGNITUDE:
        return raw
    raise _refusal(raw, "a whole number")


def _of_type(kind: type) -> Reader:
    def read(raw: Any) -> Any:
        _require(type(raw) is kind, raw, _NAMES.get(kind, "nothing"))
        return raw

    return read


_NAMES: Mapping[Any, str] = {bool: "true or false", str: "text"}


def _require(holds: bool, raw: Any, wanted: str) -> None:
    if not holds:
        raise _refusal(raw, wanted)


def _refusal(raw: Any, wanted: str) -> ValueError:
    displayed = f"a {type(raw).__name__}" if isinstance(raw, dict | list) else ascii(raw)
    return ValueError(f"{displayed[:60]} is not {wanted}")
