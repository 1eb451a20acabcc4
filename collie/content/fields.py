"""Workloads in files. Each field is read alone, then the constraints are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from collie.content.document import Document, Location
from collie.errors import Problem
from collie.workloads.constraint import Constraint
from collie.workloads.parse import parse_value, unknown_key
from collie.workloads.workload import FIELD_NAMES, Workload


def read_value(
    document: Document, field: str, raw: Any, at: Location, problems: list[Problem], *, item: bool = False
) -> Any:
    """Read one value of a field, or one element of a list field. Return None if it has a problem."""
    if raw is None:
        problems.append(document.problem(f"{field} has no value; give one or leave the line out", *at))
        return None
    try:
        value = parse_value(field, [raw] if item else raw)
    except ValueError as error:
        problems.append(document.problem(f"{field}: {error}", *at))
        return None
    return value[0] if item else value


def read_fields(document: Document, raw: Mapping[str, Any], at: Location, problems: list[Problem]) -> dict[str, Any]:
    """Read a mapping of workload fields. Wrong fields are left out."""
    values: dict[str, Any] = {}
    for field, value in raw.items():
        if field not in FIELD_NAMES:
            problems.append(document.problem(unknown_key(field, FIELD_NAMES), *at, field))
            continue
        before = len(problems)
        read = read_value(document, field, value, (*at, field), problems)
        if len(problems) == before:
            values[field] = read
    return values


def read_workload(
    document: Document,
    at: Location,
    base: Workload,
    constraints: Sequence[Constraint],
    problems: list[Problem],
) -> Workload | None:
    """Read the mapping at a location as a workload, with missing fields from `base`. None if there is a problem.

    Constraints are checked between all readable fields, so that a wrong value does not hide other problems.
    """
    raw: dict[str, Any] = document.part(*at)
    before = len(problems)
    values = read_fields(document, raw, at, problems)
    wrong = {field for field in raw if field not in values}
    draft = SimpleNamespace(**{field: values.get(field, base.get(field)) for field in FIELD_NAMES})
    for constraint in constraints:
        if constraint.fields & wrong:
            continue
        if complaint := constraint.check(draft):
            stated = [(*at, field) for field in sorted(constraint.fields) if field in raw]
            place = max(stated, key=lambda location: document.line(*location), default=at)
            problems.append(document.problem(complaint, *place))
    return None if len(problems) > before else base.with_(**values)
