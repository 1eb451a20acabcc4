"""What schemas, annotations and docstrings say, in words and tables."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Any, get_args, get_origin

_LARGEST_SHOWN = 1e6  # larger limits only keep typing errors out


def type_of(described: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    """Say in words what may stand there."""
    if "$ref" in described:
        target = models[described["$ref"].rsplit("/", 1)[-1]]
        return type_of(target, models) if "enum" in target else "keys and values"
    if "allOf" in described:
        return type_of(described["allOf"][0], models)
    if "anyOf" in described:
        kinds = dict.fromkeys(type_of(each, models) for each in described["anyOf"] if each.get("type") != "null")
        return " or ".join(kinds)
    if "const" in described:
        return f"`{described['const']}`"
    if "enum" in described:
        return listed(str(value) for value in described["enum"] if value != "")
    kind = described.get("type")
    if kind == "array":
        inner = described.get("items") or next(iter(described.get("prefixItems", ())), {})
        return f"list of {type_of(inner, models)}" if inner else "list"
    if kind == "object":
        return "keys and values"
    word = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}.get(
        kind, "any"
    )
    return f"{word} {', '.join(limits(described))}".strip()


def limits(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield the limits of a number, as a schema states them."""
    for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        if key in described and described[key] <= _LARGEST_SHOWN:
            yield f"{sign} {described[key]:g}"


def attributes(kind: type) -> dict[str, str]:
    """Return what the `Attributes:` of a docstring say, by name; `a, b: text` says it of both."""
    text = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    lines = re.split(r"\n(?! |\n)", text, maxsplit=1)[0]
    found: dict[str, str] = {}
    for match in re.finditer(r"^    (\w+(?:, \w+)*): ((?:.*\n?)(?:^ {8,}.*\n?)*)", lines, re.MULTILINE):
        for name in match[1].split(", "):
            found[name] = " ".join(match[2].split())
    return found


def below_fields(kind: type) -> dict[str, str]:
    """Return the texts that stand below the fields of a class."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError):
        return {}
    statements = getattr(body, "body", [])
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(statements)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def in_words(annotation: Any) -> str:
    """Say in words what a field of a dataclass holds."""
    arguments = [each for each in get_args(annotation) if each is not Ellipsis]
    if get_origin(annotation) is tuple:
        return f"list of {in_words(arguments[0])}"
    if arguments:
        return " or ".join(map(in_words, arguments))
    if issubclass(annotation, StrEnum):
        return listed(annotation)
    return {bool: "true or false", int: "whole number", str: "text"}[annotation]


def default_of(value: Any) -> str:
    """Say in words what holds where nothing is written."""
    if value in (None, "", {}, [], ()):
        return "none"
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case float():
            return f"`{value:g}`"
        case list() | tuple():
            return f"`[{', '.join(str(getattr(item, 'value', item)) for item in value)}]`"
        case dict():
            return "see below"
    return f"`{getattr(value, 'value', value)}`"


def row(*cells: str) -> str:
    """Return a row of a table of fields: name, values, meaning."""
    name, *others = cells
    *values, meaning = others
    return " | ".join((f"| `{name}`", *values, f"{meaning[:1].upper()}{meaning[1:]} |"))


def table(rows: Iterator[str]) -> str:
    """Return a table of fields."""
    return "\n".join(["| field | value | default | meaning |", "|---|---|---|---|", *rows])


def listed(names: Any) -> str:
    """Return names as code, one after another."""
    return ", ".join(f"`{name}`" for name in names)
