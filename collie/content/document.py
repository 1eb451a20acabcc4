"""Safe YAML with the line of every key and value.

Scalars follow YAML 1.2's core schema. Thus `on`, `010` and `12:30` are text. Keys are always text. Aliases, merges,
tags, duplicate keys and a top level that is no mapping are refused.
"""

from __future__ import annotations

import copy
import math
import os
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from collie.content.locate import display_path
from collie.errors import ContentError, Problem, Problems
from collie.files import open_regular
from collie.untrusted import UNSAFE_CHARACTERS, sanitized

Location = tuple[str | int, ...]
"""Keys and indices from the top of a document to one value."""

_DEEPEST = 20  # content files nest up to 6 deep. 10,000 brackets would break a recursive parser

MAX_BYTES = 512 << 10  # a thousand hosts take 300 KB

MAX_VALUES = 100_000  # keys included. Four thousand hosts in the shortest form take 40,000

_MAX_DIGITS = 18  # a signed 64-bit number. No quantity needs more
_WHOLE = re.compile(rf"[-+]?[0-9]{{1,{_MAX_DIGITS}}}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,15}")
_REAL = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
_WORDS: Mapping[str, bool | None] = {
    "true": True,
    "false": False,
    "null": None,
    "~": None,
    "": None,
}
_PLAIN_TAGS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}


@dataclass(frozen=True, slots=True)
class Document:
    """One file's values and their lines. `path` is its name in messages."""

    path: str
    data: dict[str, Any]
    _lines: Mapping[Location, int] = field(default_factory=dict, repr=False)

    def line(self, *location: str | int) -> int:
        """Return the line of a value or of its innermost existing parent. A value in a mapping has its key's line."""
        for length in range(len(location), 0, -1):
            if location[:length] in self._lines:
                return self._lines[location[:length]]
        return 0

    def problem(self, message: str, *location: str | int) -> Problem:
        """Return a problem with the value at a location."""
        return Problem(self.path, self.line(*location), message)

    def part(self, *location: str | int) -> Any:
        """Return the value at a location, or None."""
        value: Any = self.data
        for step in location:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def mapping(self, *location: str | int) -> dict[str, Any]:
        """Return the mapping at a location, empty if there is none."""
        part = self.part(*location)
        return part if isinstance(part, dict) else {}

    def sequence(self, *location: str | int) -> list[Any]:
        """Return the list at a location, empty if there is none."""
        part = self.part(*location)
        return part if isinstance(part, list) else []

    def over(self, base: Document) -> Document:
        """Return this document, completed with the values of another one."""
        return Document(self.path, _merged(base.data, self.data), self._lines)

    def with_present_keys(
        self, present: Mapping[Location, Location], gone: Collection[Location] = ()
    ) -> tuple[Document, tuple[Problem, ...]]:
        """Move keys of an earlier release to their present place, and drop those without one. Remark on each.

        A file with both names keeps the old key, which is then refused as unknown.
        """
        data, lines, remarks = copy.deepcopy(self.data), dict(self._lines), []
        for old, new in [*present.items(), *((location, None) for location in gone)]:
            above = self.part(*old[:-1])
            if not isinstance(above, dict) or old[-1] not in above or (new and self.part(*new) is not None):
                continue
            value = _at(data, old[:-1]).pop(str(old[-1]))
            if new is None:
                remarks.append(self.problem(f"{old[-1]} is no longer used and is not read", *old))
                continue
            name = new[-1] if new[:-1] == old[:-1] else ": ".join(map(str, new))
            remarks.append(self.problem(f"{old[-1]} is now called {name}; the next release reads {name} alone", *old))
            lines[new] = lines[old]
            _at(data, new[:-1])[str(new[-1])] = value
        return Document(self.path, data, lines), tuple(remarks)


def _at(data: dict[str, Any], location: Location) -> dict[str, Any]:
    for step in location:
        data = data.setdefault(str(step), {})
    return data


def _merged(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}


def read_document(path: Path, name: str | None = None) -> Document:
    """Read a YAML file. Problems refer to `name`, by default its `display_path`."""
    name = name or display_path(path)
    return parse_document(read_text(path, name), name)


def read_text(path: Path, name: str) -> str:
    """Read a text file. Problems refer to `name`."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) <= MAX_BYTES:
            return data.decode("utf-8-sig")
        message = f"longer than {MAX_BYTES >> 10} KiB, which no file that a person writes is"
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot be read: {reason[:1].lower()}{reason[1:]}"
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is no UTF-8; save the file as UTF-8 text"
    except ValueError as error:  # a path with a NUL
        message = f"cannot be read: {error}"
    raise ContentError([Problem(name, 0, message)])


@lru_cache(maxsize=16)  # one command reads the same few files several times
def parse_document(text: str, name: str) -> Document:
    """Read YAML text. Callers share the document and must not change it."""
    events: deque[yaml.Event] = deque()
    problems = Problems()
    problems.extend(_refused(text, name, events))
    if problems:
        raise ContentError(problems)
    root = _Composer(events).get_single_node()
    if root is None:
        raise ContentError([Problem(name, 0, "the file is empty; it should hold keys and values")])
    if not isinstance(root, yaml.MappingNode):
        raise ContentError([Problem(name, root.start_mark.line + 1, "the file should hold keys and values at its top")])
    lines: dict[Location, int] = {}
    found = Problems()
    data = _build(root, (), lines, found, name)
    if found:
        raise ContentError(found)
    return Document(name, data, lines)


class _Composer(yaml.composer.Composer, yaml.resolver.BaseResolver):
    """Composes a document from stored events, because scanning twice is slow. `_scalar` resolves types."""

    def __init__(self, events: deque[yaml.Event]) -> None:
        yaml.composer.Composer.__init__(self)
        yaml.resolver.BaseResolver.__init__(self)
        self._events = events

    def check_event(self, *kinds: type[yaml.Event]) -> bool:
        return isinstance(self._events[0], kinds)

    def peek_event(self) -> yaml.Event:
        return self._events[0]

    def get_event(self) -> yaml.Event:
        return self._events.popleft()


def _refused(text: str, name: str, events: deque[yaml.Event]) -> Iterator[Problem]:
    """Store the parser's events and yield problems. After a problem, the composer must not use the events."""
    depth = documents = values = 0
    anchors: set[str] = set()
    try:
        for event in yaml.parse(text, Loader=yaml.BaseLoader):
            events.append(event)
            values += isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
            line = event.start_mark.line + 1 if event.start_mark else 0
            if values > MAX_VALUES:
                yield Problem(name, line, f"the file holds more than {MAX_VALUES:,} keys and values")
                return
            if not isinstance(event, yaml.AliasEvent) and (anchor := getattr(event, "anchor", None)):
                if anchor in anchors:
                    yield Problem(name, line, f"&{anchor} stands twice; leave it out, as aliases are refused")
                anchors.add(anchor)
            if isinstance(event, yaml.AliasEvent):
                yield Problem(name, line, f"*{event.anchor} is an alias; write the value out")
            elif isinstance(event, yaml.ScalarEvent) and UNSAFE_CHARACTERS.search(event.value):
                yield Problem(name, line, f"{sanitized(event.value)[:40]!r} holds characters that steer a terminal")
            elif isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _DEEPEST:
                    yield Problem(name, line, f"nested more than {_DEEPEST} deep")
                    return
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    yield Problem(name, line, "a second document starts here; keep one per file")
                    return
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        yield Problem(name, mark.line + 1 if mark else 0, f"no valid YAML: {what}")
    except yaml.YAMLError as error:
        yield Problem(name, 0, f"no valid YAML: {str(error).splitlines()[0]}")
    except (ValueError, OverflowError) as error:  # PyYAML calls chr() out of range for "\UFFFFFFFF"
        yield Problem(name, 0, f"no valid YAML: {error}")


def _build(node: yaml.Node, location: Location, lines: dict[Location, int], problems: list[Problem], name: str) -> Any:
    if node.tag not in _PLAIN_TAGS:
        problems.append(Problem(name, node.start_mark.line + 1, f"tag {node.tag} is not supported; leave it out"))
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, location, lines, problems, name)
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            lines[(*location, index)] = item.start_mark.line + 1
            items.append(_build(item, (*location, index), lines, problems, name))
        return items
    return _scalar(node)


def _mapping(
    node: yaml.MappingNode, location: Location, lines: dict[Location, int], problems: list[Problem], name: str
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            problems.append(Problem(name, line, "a key must be one word, not a list or a mapping"))
            continue
        key = str(key_node.value)
        if key in values:
            first = lines[(*location, key)]
            problems.append(Problem(name, line, f"key {key!r} stands twice, first on line {first}; keep one"))
            continue
        lines[(*location, key)] = line
        values[key] = _build(value_node, (*location, key), lines, problems, name)
    return values


def _scalar(node: yaml.Node) -> Any:
    text: str = node.value
    if node.style is not None:  # type: ignore[attr-defined]  # a quoted scalar or a block is text by intent
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _REAL.fullmatch(text) and len(text) <= _MAX_DIGITS and math.isfinite(number := float(text)):
        return number
    return text
