"""Subsystem files: complete ones, and differences from another subsystem."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from collie.content.document import Document, read_document
from collie.content.locate import ContentKind, available, find
from collie.content.model import validate
from collie.errors import ContentError, Problem, Problems

M = TypeVar("M", bound=BaseModel)

_BASED_ON = "based_on"
_WITHOUT = "without"
_LONGEST_CHAIN = 8


def load_subsystem(name_or_path: str, kind: type[M]) -> M:
    """Read a subsystem. With `based_on: NAME` it inherits from that, except the witnesses under `without`."""
    document = _complete(find(ContentKind.SUBSYSTEM, name_or_path), ())
    problems = Problems()
    model = validate(document, kind, problems)
    if model is None:
        raise ContentError(problems)
    return model


@dataclass(frozen=True)
class NamedSubsystem(Generic[M]):
    """A subsystem under the name that `--subsystem` takes."""

    name: str
    path: Path
    file: M


def load_subsystems(kind: type[M]) -> tuple[tuple[NamedSubsystem[M], ...], tuple[Problem, ...]]:
    """Load every subsystem, and the problems of those that are wrong."""
    found: list[NamedSubsystem[M]] = []
    problems: list[Problem] = []
    for name, path in available(ContentKind.SUBSYSTEM).items():
        try:
            found.append(NamedSubsystem(name, path, load_subsystem(name, kind)))
        except ContentError as error:
            problems.extend(error.problems)
    return tuple(found), tuple(problems)


def _complete(path: Path, above: tuple[Path, ...]) -> Document:
    read = read_document(path)
    base, without = read.data.get(_BASED_ON), read.data.get(_WITHOUT, [])
    document = replace(read, data={key: value for key, value in read.data.items() if key not in {_BASED_ON, _WITHOUT}})
    if base is None:
        if without:
            raise ContentError([document.problem(f"{_WITHOUT!r} needs {_BASED_ON!r}", _WITHOUT)])
        return document
    if not isinstance(base, str):
        raise ContentError([document.problem(f"{_BASED_ON}: should name a subsystem", _BASED_ON)])
    if not isinstance(without, list):
        raise ContentError([document.problem(f"{_WITHOUT}: should be a list of mechanisms", _WITHOUT)])
    # A path is relative to the file that names it.
    beside = path.parent / base
    is_there = beside.suffix in {".yaml", ".yml"} and os.path.lexists(beside)
    below = beside if is_there else find(ContentKind.SUBSYSTEM, base)
    if below in above or len(above) >= _LONGEST_CHAIN:
        raise ContentError([document.problem(f"{_BASED_ON}: {base} leads back here", _BASED_ON)])
    inherited = _complete(below, (*above, path))
    named = [witness.get("mechanism") for witness in _witnesses(inherited)]
    if unknown := [name for name in without if name not in named]:
        message = f"{_WITHOUT}: {base} has no witness of {unknown[0]!r}; it has {', '.join(map(str, named))}"
        raise ContentError([document.problem(message, _WITHOUT)])
    own = [witness.get("mechanism") for witness in _witnesses(document)]
    replaced = [*without, *own]  # no set: the entries are not validated yet
    kept = [witness for witness in _witnesses(inherited) if witness.get("mechanism") not in replaced]
    whole = document.over(inherited)
    return replace(whole, data={**whole.data, "witnesses": [*_witnesses(document), *kept]})


def _witnesses(document: Document) -> Iterable[dict[str, Any]]:
    return [witness for witness in document.sequence("witnesses") if isinstance(witness, dict)]
