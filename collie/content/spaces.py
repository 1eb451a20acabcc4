"""Spaces. docs/reference/files.md and workloads/spaces/nsdi22.yaml document the format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field

from collie.content.dimensions import read_dimension
from collie.content.document import Document, Location, read_document
from collie.content.fields import read_fields
from collie.content.kinds import require_kind
from collie.content.locate import ContentKind, available, find
from collie.content.model import Strict, validate
from collie.errors import ContentError, Problem, Problems
from collie.workloads.constraint import HostLimits
from collie.workloads.dimension import Dimension
from collie.workloads.parse import unknown_key
from collie.workloads.space import Space
from collie.workloads.units import parse_bytes
from collie.workloads.workload import FIELD_NAMES


class _LimitsFile(Strict):
    """This is no `HostLimits`, because sizes have units, and what is absent is that of `based_on`."""

    total_mrs: int | None = Field(None, ge=1)
    pinned_bytes: Any = None
    outstanding_bytes: Any = None
    round_seconds: float | None = Field(None, gt=0)


class _SpaceFile(Strict):
    """This is no `Space`, because its parts can only be read together."""

    based_on: str | None = None
    """Another space. This file then has only what differs: its dimensions take the place of those of the same name."""
    limits: dict[str, Any] = Field(default_factory=dict)
    """Capacity of one host, and what a measurement of it can tell."""
    fixed: dict[str, Any] = Field(default_factory=dict)
    """Fields that do not vary, with a value other than their default."""
    dimensions: dict[str, Any] = Field(min_length=1)
    """Fields that a search varies, in the order of an explanation."""


def load_space(name_or_path: str) -> Space:
    """Read a space."""
    return _load(find(ContentKind.SPACE, name_or_path), ())


def varied_in(dimension: str) -> list[str]:
    """Return the names of the available spaces in which a dimension varies."""
    found = []
    for name in available(ContentKind.SPACE):
        with suppress(ContentError):  # of a space that nobody asked for
            found += [name] if dimension in load_space(name).dimensions else []
    return found


def _load(path: Path, above: tuple[Path, ...]) -> Space:
    document = read_document(path)
    require_kind(document, ContentKind.SPACE)
    problems = Problems()
    read = validate(document, _SpaceFile, problems)
    base = _base(document, read.based_on, (*above, path), problems) if read and read.based_on else None
    limits = _limits(document, problems, HostLimits() if base is None else base.limits)
    dimensions = _dimensions(document, problems)
    fixed = _fixed(document, problems)
    if problems or limits is None:
        raise ContentError(problems)
    if base is not None:
        fixed = {name: value for name, value in base.fixed.items() if name not in dimensions} | fixed
        dimensions = {name: each for name, each in base.dimensions.items() if name not in fixed} | dimensions
    space = Space(path.stem, dimensions, limits, fixed)
    problems += _plain_problems(document, space)
    if problems:
        raise ContentError(problems)
    return space


def _base(document: Document, named: str, above: tuple[Path, ...], problems: list[Problem]) -> Space | None:
    """Load the space that a file is based on. A file beside it comes before a name."""
    beside = above[-1].parent / named
    try:
        path = beside if beside.suffix in {".yaml", ".yml"} and beside.is_file() else find(ContentKind.SPACE, named)
        if path not in above:
            return _load(path, above)
        problems.append(document.problem(f"based_on: {named} leads back here", "based_on"))
    except ContentError as error:
        problems.extend(document.problem(f"based_on: {each}", "based_on") for each in error.problems)
    return None


def _limits(document: Document, problems: list[Problem], otherwise: HostLimits) -> HostLimits | None:
    if not isinstance(document.part("limits"), dict):
        return otherwise  # the limits are absent, or reported as wrong
    read = validate(document, _LimitsFile, problems, ("limits",))
    sizes: dict[str, int] = {}
    for name in ("pinned_bytes", "outstanding_bytes"):
        written = document.part("limits", name)
        try:
            sizes[name] = getattr(otherwise, name) if written is None else parse_bytes(written)
        except ValueError as error:
            problems.append(document.problem(f"{name}: {error}", "limits", name))
    if read is None or len(sizes) < 2:
        return None
    return HostLimits(
        total_mrs=otherwise.total_mrs if read.total_mrs is None else read.total_mrs,
        round_seconds=otherwise.round_seconds if read.round_seconds is None else read.round_seconds,
        **sizes,
    )


def _dimensions(document: Document, problems: list[Problem]) -> dict[str, Dimension]:
    found: dict[str, Dimension] = {}
    for name in document.mapping("dimensions"):
        if name not in FIELD_NAMES:
            problems.append(document.problem(unknown_key(name, FIELD_NAMES), "dimensions", name))
        elif dimension := read_dimension(document, name, problems):
            found[name] = dimension
    return found


def _fixed(document: Document, problems: list[Problem]) -> dict[str, Any]:
    fixed = document.mapping("fixed")
    for name in fixed:
        if document.part("dimensions", name) is not None:
            message = f"{name} is a dimension too; keep it under fixed or under dimensions"
            problems.append(document.problem(message, "fixed", name))
    return read_fields(document, fixed, ("fixed",), problems)


def _plain_problems(document: Document, space: Space) -> Iterator[Problem]:
    for constraint in space.constraints:
        if complaint := constraint.check(space.base):
            places: list[Location] = [
                ("dimensions", name, "plain") for name in space.dimensions if name in constraint.fields
            ]
            places += [("fixed", name) for name in space.fixed if name in constraint.fields]
            place = max(places, key=lambda location: document.line(*location), default=("dimensions",))
            yield document.problem(f"the plain values do not go together: {complaint}", *place)
