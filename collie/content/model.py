"""Validates a YAML file as a dataclass or a pydantic model. Every problem names its line and the file's own keys.

A pydantic model is for a file whose shape differs from the dataclass. Only this module depends on pydantic's messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from collie.content.document import Document, Location
from collie.errors import Problem
from collie.suggest import nearest
from collie.workloads.parse import unknown_key

T = TypeVar("T")

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Strict(BaseModel):
    """Base of this package's file models. They refuse unknown keys, and never convert values from another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def validate(
    document: Document,
    kind: type[T],
    problems: list[Problem],
    at: Location = (),
    given: Mapping[str, Any] = _NOTHING,
    *,
    partial: bool = False,
) -> T | None:
    """Validate a document, or the part of it at a location. Return None if there is a problem.

    If `kind` is a pydantic model, it has `extra="forbid"`. `given` holds fields that the file must not state. If the
    document is `partial`, missing keys are not reported.
    """
    part = document.part(*at)
    found = []
    value: T | None = None
    if isinstance(part, dict) and given:
        found = [_unknown(document, kind, (*at, key), (key,), given) for key in given if key in part]
        part = {**part, **given}
    try:
        # Strict mode accepts a list for a tuple, and text for an enumeration, only in JSON.
        value = _schema(kind).validate_json(json.dumps([part]))[0]  # type: ignore[arg-type]  # types have a hash
    except ValidationError as failure:
        errors = [each for each in _root_errors(failure) if not (partial and each["type"] == "missing")]
        found += [_problem(document, kind, each, at, given) for each in errors]
    problems.extend(dict.fromkeys(found))  # a union reports the same problem once per member
    return None if found else value


def _root_errors(failure: ValidationError) -> list[ErrorDetails]:
    """Return the errors without those that follow from others: a list lacks the items that are wrong."""
    errors = failure.errors(include_url=False)
    return [
        each
        for each in errors
        if each["type"] != "too_short"
        or not any(other is not each and other["loc"][: len(each["loc"])] == each["loc"] for other in errors)
    ]


@cache
def _schema(kind: Any) -> TypeAdapter[tuple[Any]]:
    """Return the schema of a tuple of one value. A dataclass inherits settings only inside another type."""
    return TypeAdapter(tuple[kind], config=ConfigDict(extra="forbid", strict=True))


def _unknown(document: Document, kind: type, location: Location, steps: Location, given: Mapping[str, Any]) -> Problem:
    known = _keys(kind, steps[:-1]) - (given.keys() if len(steps) == 1 else set())
    return document.problem(unknown_key(str(location[-1]), sorted(known)), *location)


def _problem(document: Document, kind: type, details: ErrorDetails, at: Location, given: Mapping[str, Any]) -> Problem:
    loc = details["loc"][1:]
    steps = tuple(_inside(document, at, loc))
    location = at + steps
    if details["type"] in _UNKNOWN_KEY:
        return _unknown(document, kind, location, steps, given)
    if details["type"] == "missing":
        missing = loc[-1]
        parent = location[:-1] if location and location[-1] == missing else location
        owner = f" in {_named(parent)}" if parent else ""
        what = f"item {missing + 1}" if isinstance(missing, int) else f"key {missing!r}"
        return document.problem(f"{what} is missing{owner}", *parent)
    name = _named(location)
    return document.problem(f"{name}: {_wording(details)}" if name else _wording(details), *location)


def _named(location: Location) -> str:
    """Return a location with items counted from 1."""
    return ".".join(step if isinstance(step, str) else str(step + 1) for step in location)


def _inside(document: Document, at: Location, loc: Sequence[str | int]) -> Iterator[str | int]:
    """Yield the steps of an error's location that exist in the file, and the last one even if its key is missing.

    Pydantic adds names of union members and validators, and `[key]` behind a wrong key.
    """
    loc = [step for step in loc if step != "[key]"]
    here: Location = at
    for index, step in enumerate(loc):
        part = document.part(*here)
        known = (isinstance(part, dict) and step in part) or (isinstance(part, list) and isinstance(step, int))
        if known:
            here = (*here, step)
            yield step
        elif index == len(loc) - 1 and isinstance(part, dict):
            yield step


def _keys(kind: type, steps: Sequence[str | int]) -> set[str]:
    kinds = {kind}
    for step in steps:
        below = {each for one in kinds for each in _classes(fields_of(one).get(str(step)))}
        # This step is an index or the key of a plain mapping. `kinds` already holds the classes of its values.
        kinds = below or kinds
    return {key for one in kinds for key in fields_of(one)}


def fields_of(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a class by their keys in a file."""
    if not issubclass(kind, BaseModel):
        return get_type_hints(kind)
    return {info.alias or name: info.annotation for name, info in kind.model_fields.items()}


def _classes(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and (is_dataclass(annotation) or issubclass(annotation, BaseModel)):
        yield annotation
    for inner in get_args(annotation):
        yield from _classes(inner)


_UNKNOWN_KEY = {"extra_forbidden", "unexpected_keyword_argument"}

_WORDINGS: Mapping[str, str] = {
    "string_type": "should be text",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "finite_number": "should be a finite number",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "list_type": "should be a list",
    "tuple_type": "should be a list",
    "dict_type": "should be keys and values",
    "model_type": "should be keys and values",
    "dataclass_type": "should be keys and values",
    "model_attributes_type": "should be keys and values",
    "none_required": "should be left out",
    "greater_than": "should be more than {gt}",
    "greater_than_equal": "should be at least {ge}",
    "less_than": "should be less than {lt}",
    "less_than_equal": "should be at most {le}",
    "multiple_of": "should be a multiple of {multiple_of}",
    "string_too_short": "should have at least {min_length} character(s)",
    "string_too_long": "should have at most {max_length} character(s)",
    "string_pattern_mismatch": "should match {pattern}",
    "too_short": "should have at least {min_length} item(s)",
    "too_long": "should have at most {max_length} item(s)",
}


def _wording(details: ErrorDetails) -> str:
    context = {
        key: f"{value:g}" if isinstance(value, float) else value for key, value in details.get("ctx", {}).items()
    }
    kind, given = details["type"], details["input"]
    if kind in {"value_error", "assertion_error"}:
        return str(context.get("error", details["msg"]))
    if kind in {"enum", "literal_error"}:
        expected = str(context["expected"])
        choices = re.findall(r"'([^']*)'", expected) or [expected]
        if isinstance(given, str) and given == expected:  # a number in quotes
            return f"{given!r} is text; write {expected} without quotes"
        if " or " in choices[0]:  # numbers, which nobody misspells
            return f"{_worded(given)} should be one of {expected}"
        meant = nearest(str(given), choices)
        hint = f"did you mean {meant!r}? " if meant is not None else ""
        return f"{_worded(given)} is unknown; {hint}one of {', '.join(choices)}"
    if kind.startswith("float_") and isinstance(given, str) and re.fullmatch(r"\d{1,3}(\.\d{1,9})?\s*%", given):
        return f"{given!r} should be a share of 1; write {float(given.rstrip(' %')) / 100:g}"
    if kind in _WORDINGS:
        return f"{_worded(given)} {_WORDINGS[kind].format(**context)}"
    return f"{_worded(given)}: {details['msg'][:1].lower()}{details['msg'][1:]}"


def _worded(given: Any) -> str:
    if given is None or isinstance(given, bool):
        text = {None: "nothing", True: "true", False: "false"}[given]
    else:
        text = "a mapping" if isinstance(given, dict) else repr(given)
    return text if len(text) <= 60 else f"{text[:57]}..."
