"""Converts values of the program to plain values, which JSON can hold, and back.

A `Codec` converts dataclasses field by field. A field's type decides how a value is written and which values are
read. Standard library only: bundles carry this module.

For example, `CODEC.write(Victim(27e6, math.nan))` is `{"alone_bps": 27e6, "beside_bps": None}`, as `beside_bps` is a
`float | None`. `CODEC.read(Victim, {"alone_bps": 27e6})` is `Victim(27e6)`. A text instead of the number is refused.
"""

from __future__ import annotations

import itertools
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

Reader = Callable[[Any], Any]
Writer = Callable[[Any], Any]

_MAX_MAGNITUDE = 1 << 128  # limit of counters, sizes and seeds. Smaller numbers fit into a float


@dataclass(frozen=True, slots=True)
class Shape:
    """Differences between the records of a dataclass and its fields.

    Attributes:
        first: fields that are written before the others.
        without: fields that are not written.
        keys: other names of fields in a record.
        sparse: a field at its default is not written.
        is_open: unknown keys are ignored, not refused.
    """

    first: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    sparse: bool = False
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """Writer and reader of a type that is not converted field by field."""

    write: Writer
    read: Reader


class Codec:
    """Writes and reads plain values. `forms` holds the types whose records differ from their fields."""

    def __init__(self, forms: Mapping[type, Shape | Form] | None = None) -> None:
        self._forms = forms or {}
        self._readers: dict[Any, Reader] = {}
        self._writers: dict[Any, Writer] = {}

    def write(self, value: Any) -> Any:
        """Return a value as plain values, which a round trip through JSON does not change.

        Infinity and NaN become None where the field may be None. Elsewhere they stay as they are. A value without a
        plain form raises `TypeError`.
        """
        match value:
            case Enum():
                return value.value
            case None | bool() | int() | float() | str():
                return value
            case Mapping():
                return {str(key): self.write(item) for key, item in value.items()}
            case Sequence() if not isinstance(value, bytes | bytearray):
                return [self.write(item) for item in value]
        if is_dataclass(value) and not isinstance(value, type):
            return self._writer(type(value))(value)
        raise TypeError(f"{value!r} cannot be recorded")

    def read(self, kind: Any, raw: Any) -> Any:
        """Return a plain value from `untrusted.read_json` as the type `kind`, or raise `ValueError` with the place.

        Only lists are converted, to tuples. A `TypedDict` ignores unknown keys, a dataclass refuses them. A number
        must be finite, and a whole number within 128 bits.
        """
        return self._reader(kind)(raw)

    def _writer(self, kind: Any) -> Writer:
        if kind not in self._writers:
            self._writers[kind] = self._make_writer(kind)
        return self._writers[kind]

    def _make_writer(self, kind: Any) -> Writer:
        form, origin = self._forms.get(kind, Shape()), get_origin(kind)
        if isinstance(form, Form):
            return form.write
        if kind in (bool, int, float, str):
            return _same
        if origin in (Union, types.UnionType):
            members = [each for each in get_args(kind) if each is not type(None)]
            return _optional(self._writer(members[0]), members[0]) if len(members) == 1 else self.write
        if is_dataclass(kind):
            return self._record_writer(kind, form)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return lambda value: value.value
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return _mapping_writer(self._writer(get_args(kind)[1]))
        items = [each for each in get_args(kind) if each is not ...]
        if isinstance(origin, type) and issubclass(origin, Sequence) and len(items) == 1:
            return _items_writer(self._writer(items[0]))
        return self.write

    def _record_writer(self, kind: Any, shape: Shape) -> Writer:
        hints, defaults = get_type_hints(kind), {each.name: each.default for each in fields(kind)}
        order = [name for name in dict.fromkeys((*shape.first, *defaults)) if name not in shape.without]
        plan = [(name, shape.keys.get(name, name), self._writer(hints[name])) for name in order]
        if shape.sparse:
            return lambda value: {
                key: writer(own) for name, key, writer in plan if (own := getattr(value, name)) != defaults[name]
            }
        return lambda value: {key: writer(getattr(value, name)) for name, key, writer in plan}

    def _reader(self, kind: Any) -> Reader:
        if kind not in self._readers:
            self._readers[kind] = self._make_reader(kind)
        return self._readers[kind]

    def _make_reader(self, kind: Any) -> Reader:
        form, origin, inner = self._forms.get(kind, Shape()), get_origin(kind), get_args(kind)
        if isinstance(form, Form):
            return form.read
        if kind is Any:
            return _same
        if origin is Literal:
            return _among(inner)
        if origin in (Union, types.UnionType):
            return _one_of([None if each is type(None) else self._reader(each) for each in inner])
        if origin is not None and issubclass(origin, Mapping):
            return _mapping(self._reader(inner[1]))
        if origin is not None and issubclass(origin, Sequence):
            return _items([self._reader(each) for each in inner if each is not ...])
        if is_dataclass(kind) or is_typeddict(kind):
            return self._record_reader(kind, form)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return lambda raw: kind(_text(raw))
        return _number if kind is float else _whole if kind is int else _of_type(type(None) if kind is None else kind)

    def _record_reader(self, kind: Any, shape: Shape) -> Reader:
        keys = {shape.keys.get(name, name): name for name in get_type_hints(kind)}
        readers = {key: self._reader(get_type_hints(kind)[name]) for key, name in keys.items()}
        needed = [shape.keys.get(name, name) for name in _needed(kind)]
        is_open = shape.is_open or not is_dataclass(kind)

        def read(raw: Any) -> Any:
            _require(isinstance(raw, Mapping), raw, "keys and values")
            if missing := [key for key in needed if key not in raw]:
                raise ValueError(f"{missing[0]} is missing")
            if not is_open and (unknown := [key for key in raw if key not in readers]):
                raise ValueError(f"{str(unknown[0])[:40]!r} is unknown here")
            return kind(**{keys[key]: _at(key, readers[key], value) for key, value in raw.items() if key in readers})

        return read


CODEC = Codec()

typed = CODEC.read


def _same(value: Any) -> Any:
    return value


def known(value: float | None) -> float | None:
    """Return a reading, or None for one that is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(value)  # numpy's numbers become plain ones


def _optional(writer: Writer, kind: Any) -> Writer:
    if writer is _same:
        return known if kind is float else _same
    return lambda value: None if value is None else writer(value)


def _mapping_writer(writer: Writer) -> Writer:
    return dict if writer is _same else lambda value: {name: writer(item) for name, item in value.items()}


def _items_writer(writer: Writer) -> Writer:
    return list if writer is _same else lambda value: [writer(item) for item in value]


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


def _among(choices: Sequence[Any]) -> Reader:
    def read(raw: Any) -> Any:
        _require(raw in choices, raw, f"one of {', '.join(map(repr, choices))}")
        return raw

    return read


def _mapping(reader: Reader) -> Reader:
    def read(raw: Any) -> Any:
        _require(isinstance(raw, Mapping), raw, "keys and values")
        try:
            return {key: reader(value) for key, value in raw.items()}
        except ValueError:  # read again to name the place, at no cost for the many valid mappings
            return {key: _at(key, reader, value) for key, value in raw.items()}

    return read


def _items(readers: Sequence[Reader]) -> Reader:
    alike = len(readers) == 1

    def read(raw: Any) -> Any:
        _require(isinstance(raw, list | tuple), raw, "a list")
        _require(alike or len(raw) == len(readers), raw, f"a list of {len(readers)}")
        each = itertools.repeat(readers[0]) if alike else readers
        return tuple([_at(index, reader, item) for index, (reader, item) in enumerate(zip(each, raw, strict=False))])

    return read


def _needed(kind: Any) -> tuple[str, ...]:
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

_text = _of_type(str)


def _require(holds: bool, raw: Any, wanted: str) -> None:
    if not holds:
        raise _refusal(raw, wanted)


def _refusal(raw: Any, wanted: str) -> ValueError:
    displayed = f"a {type(raw).__name__}" if isinstance(raw, dict | list) else ascii(raw)
    return ValueError(f"{displayed[:60]} is not {wanted}")
