"""Subsystem files: complete ones, and differences from another subsystem (`based_on`).

Rules.
1. A derived file inherits every value that it does not state. It also inherits the witnesses, except those of
   mechanisms for which it states its own witness or that it lists under `without`.
2. A mechanism under `without` is also removed from the inherited `cures`.
3. A quantity that a file states must be in force, so that no inherited option silently replaces it. One exception: the
   same file chooses the option that overrides it, and another option of that setting leaves the quantity as stated.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from collie.content.document import Document, read_document
from collie.content.kinds import require_kind
from collie.content.locate import ContentKind, available, find
from collie.content.model import validate
from collie.errors import ContentError, Problem, Problems
from collie.workloads.units import format_value

_BASED_ON = "based_on"
_WITHOUT = "without"
_LONGEST_CHAIN = 8


class SubsystemModel(Protocol):
    """The model of a subsystem file."""

    def overridden(self) -> Iterable[tuple[str, str, str]]:
        """Yield part, field and setting of each quantity that an option in force changes to another value."""


M = TypeVar("M", bound=SubsystemModel)


def load_subsystem(name_or_path: str, kind: type[M]) -> M:
    """Read a subsystem by the rules of this module. One error lists the problems of the file and of its bases."""
    problems = Problems()
    loaded = _load(find(ContentKind.SUBSYSTEM, name_or_path), kind, problems, ())
    if loaded is None or problems:
        raise ContentError(problems)
    return loaded.model


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


@dataclass(frozen=True)
class _Loaded(Generic[M]):
    """A valid file. `own` holds what it states, `whole` also what it inherits."""

    own: Document
    whole: Document
    base: _Loaded[M] | None
    model: M

    def place(self, *location: str | int) -> str:
        """Return `path:line` of a value in the file that states it."""
        if self.base is not None and self.own.part(*location) is None:
            return self.base.place(*location)
        return f"{self.own.path}:{self.own.line(*location)}"


def _load(path: Path, kind: type[M], problems: Problems, above: tuple[Path, ...]) -> _Loaded[M] | None:
    read = read_document(path)
    require_kind(read, ContentKind.SUBSYSTEM)
    own = replace(read, data={key: value for key, value in read.data.items() if key not in {_BASED_ON, _WITHOUT}})
    without = read.data.get(_WITHOUT, [])
    if not isinstance(without, list):
        problems.append(own.problem(f"{_WITHOUT}: should be a list of mechanisms", _WITHOUT))
        without = []
    is_derived = read.data.get(_BASED_ON) is not None
    if without and not is_derived:
        problems.append(own.problem(f"{_WITHOUT!r} needs {_BASED_ON!r}", _WITHOUT))
    base = _base(read, path, kind, problems, above) if is_derived else None
    whole = own
    if base is not None:
        problems.extend(_unknown_mechanisms(read, base, without))
        whole = _over(own, base.whole, without)
    # Without its base a derived file is incomplete, but its other problems can be reported.
    model = validate(whole, kind, problems, partial=is_derived and base is None)
    if model is None:
        return None
    loaded = _Loaded(own, whole, base, model)
    problems.extend(_overrides(loaded))
    return loaded


def _base(read: Document, path: Path, kind: type[M], problems: Problems, above: tuple[Path, ...]) -> _Loaded[M] | None:
    """Load the base that a file names. Return None if it names none or the base is not valid."""
    named = read.data[_BASED_ON]
    if not isinstance(named, str):
        problems.append(read.problem(f"{_BASED_ON}: should name a subsystem", _BASED_ON))
        return None
    # A path is relative to the file that names it.
    beside = path.parent / named
    is_there = beside.suffix in {".yaml", ".yml"} and os.path.lexists(beside)
    above = (*above, path)
    try:
        below = beside if is_there else find(ContentKind.SUBSYSTEM, named)
    except ContentError as error:
        problems.extend(read.problem(f"{_BASED_ON}: {each}", _BASED_ON) for each in error.problems)
        return None
    if below in above or len(above) > _LONGEST_CHAIN:
        problems.append(read.problem(f"{_BASED_ON}: {named} leads back here", _BASED_ON))
        return None
    try:
        return _load(below, kind, problems, above)
    except ContentError as error:
        problems.extend(error.problems)
        return None


def _unknown_mechanisms(read: Document, base: _Loaded[Any], without: Sequence[Any]) -> Iterator[Problem]:
    named = _mechanisms(base.whole)
    for index, mechanism in enumerate(without):
        if mechanism not in named:
            known = ", ".join(named) or "none"
            message = f"{_WITHOUT}: {read.data[_BASED_ON]} has no witness of {mechanism!r}; it has {known}"
            yield read.problem(message, _WITHOUT, index)


def _over(own: Document, base: Document, without: Sequence[Any]) -> Document:
    """Return a file's values over those of its base (rules 1 and 2)."""
    stated = _mechanisms(own)
    gone = [mechanism for mechanism in without if mechanism not in stated]
    settings = {
        name: {**setting, "cures": [mechanism for mechanism in setting.get("cures", ()) if mechanism not in gone]}
        for name, setting in base.mapping("settings").items()
    }
    kept = [each for each in base.sequence("witnesses") if each["mechanism"] not in [*without, *stated]]
    whole = own.over(replace(base, data={**base.data, "settings": settings}))
    if not isinstance(own.data.get("witnesses", []), list):
        return whole  # the validation refuses it
    return replace(whole, data={**whole.data, "witnesses": [*own.sequence("witnesses"), *kept]})


def _mechanisms(document: Document) -> list[Any]:
    return [each.get("mechanism") for each in document.sequence("witnesses") if isinstance(each, dict)]


def _overrides(loaded: _Loaded[Any]) -> Iterator[Problem]:
    """Yield a problem for each quantity that the file states without effect (rule 3)."""
    own, whole = loaded.own, loaded.whole
    for part, field, setting in loaded.model.overridden():
        option, options = (whole.part("settings", setting, key) for key in ("value", "options"))
        at = "settings", setting, "options", option, part, field
        chosen = own.part("settings", setting, "value") is not None or own.part(*at) is not None
        leaving = [name for name, changes in options.items() if field not in changes.get(part, {})]
        if own.part(part, field) is None or (chosen and leaving):
            continue
        stated, in_force = format_value(own.part(part, field)), format_value(whole.part(*at))
        remedy = f"state it as {'.'.join(at)}, as no option of {setting} leaves it as described"
        if leaving:
            remedy = f'choose the option in this file: settings.{setting}.value: "{leaving[0]}" puts it in force'
            remedy += f', "{option}" keeps it for the other options'
        message = (
            f"{part}.{field}: {stated} has no effect, as option {option!r} of setting {setting} is in force and makes "
            f"it {in_force} ({loaded.place(*at)}). Leave it out, or {remedy}"
        )
        yield own.problem(message, part, field)
