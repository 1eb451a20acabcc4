"""Published anomalies: workloads/anomalies/COLLECTION-NN.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from collie.content.document import Document, read_document
from collie.content.fields import read_value, read_workload
from collie.content.kinds import require_kind
from collie.content.locate import ContentKind, available, find
from collie.content.model import Strict, validate
from collie.errors import ContentError, Problem, Problems
from collie.workloads.constraint import VERBS, HostLimits, within
from collie.workloads.feature import DERIVED, FEATURE_NAMES, Condition, Mfs, Op, feature_value
from collie.workloads.parse import unknown_key
from collie.workloads.reference import FixStatus, ReferenceAnomaly, Severity
from collie.workloads.units import parse_bytes, parse_rate
from collie.workloads.workload import Workload

_Text = Annotated[str, Field(min_length=1)]


class _SeverityFile(Strict):
    """A `Severity` as written in the file: `delivered` is still text with a unit."""

    text: _Text
    """The severity as published."""
    pause_ratio: float | None = Field(None, gt=0, le=1)
    """Share of the time that a host sent pause."""
    delivered: str | None = None
    """Remaining throughput, such as `60Gbit`."""
    throughput_deficit: float | None = Field(None, gt=0, le=1)
    """Share of the throughput that was missing."""


class _FixFile(Strict):
    """The two fields of a `ReferenceAnomaly` about its fix."""

    status: FixStatus
    """State of the fix."""
    text: str = ""
    """The cure, or the published statement."""


class _ConditionFile(Strict):
    """A `Condition` as written in the file. `feature` and `op` decide how `value` is read."""

    feature: str
    """A field of a workload or a derived feature."""
    op: Op
    value: Any


class _AnomalyFile(Strict):
    """A `ReferenceAnomaly` as written in the file, made of the parts above."""

    title: _Text
    subsystem: _Text
    settings: dict[str, str] = Field(default_factory=dict)
    source: _Text
    trigger: dict[str, Any]
    conditions: list[_ConditionFile] = Field(min_length=1)
    symptom: Literal["pause", "low_throughput"]
    """Observed symptom."""
    severity: _SeverityFile
    cause: _Text
    fix: _FixFile
    note: str = ""


def load_references(collection: str = "nsdi22") -> tuple[ReferenceAnomaly, ...]:
    """Read all anomalies of a collection, in order of id."""
    collections: dict[str, list[Path]] = {}
    for name, path in available(ContentKind.ANOMALY).items():
        collections.setdefault(name.rpartition("-")[0], []).append(path)
    if collection not in collections:
        known = ", ".join(sorted(collections)) or "none"
        message = f"neither a campaign nor a collection of anomalies has this name; known: {known}"
        raise ContentError([Problem(collection, 0, message)])
    found: list[ReferenceAnomaly] = []
    problems = Problems()
    for path in collections[collection]:
        try:
            found.append(_load(path))
        except ContentError as error:
            problems.extend(error.problems)
    if problems:
        raise ContentError(problems)
    return tuple(found)


def load_reference(name_or_path: str) -> ReferenceAnomaly:
    """Read one anomaly by id or path."""
    return _load(find(ContentKind.ANOMALY, name_or_path))


def _load(path: Path) -> ReferenceAnomaly:
    document = read_document(path)
    require_kind(document, ContentKind.ANOMALY)
    problems = Problems()
    file = validate(document, _AnomalyFile, problems)
    trigger = None
    if isinstance(document.part("trigger"), dict):
        trigger = read_workload(document, ("trigger",), Workload(), VERBS + within(HostLimits()), problems)
    conditions = _conditions(document, trigger, problems)
    delivered = _delivered(document, problems)
    if problems or file is None or trigger is None:
        raise ContentError(problems)
    return ReferenceAnomaly(
        id=path.stem,
        title=file.title,
        subsystem=file.subsystem,
        source=file.source,
        trigger=trigger,
        conditions=Mfs(tuple(conditions)),
        symptom=file.symptom,
        severity=Severity(file.severity.text, file.severity.pause_ratio, delivered, file.severity.throughput_deficit),
        cause=file.cause,
        fix=file.fix.status,
        fix_text=file.fix.text,
        settings=file.settings,
        note=file.note,
    )


def _delivered(document: Document, problems: list[Problem]) -> float | None:
    raw = document.part("severity", "delivered")
    if not isinstance(raw, str):
        return None
    try:
        return parse_rate(raw)
    except ValueError as error:
        problems.append(document.problem(f"delivered: {error}", "severity", "delivered"))
        return None


def _conditions(document: Document, trigger: Workload | None, problems: list[Problem]) -> list[Condition]:
    found = []
    for index in range(len(document.sequence("conditions"))):
        file = validate(document, _ConditionFile, [], ("conditions", index))  # its problems were reported before
        if file is None:
            continue
        condition = _condition(document, index, file, problems)
        if condition is None:
            continue
        if trigger is not None and not condition.holds(trigger):
            value = feature_value(trigger, condition.dimension)
            shown_value = list(value) if isinstance(value, tuple) else value
            message = f"the trigger does not satisfy {condition}: its {condition.dimension} is {shown_value}"
            problems.append(document.problem(message, "conditions", index))
        found.append(condition)
    return found


def _condition(document: Document, index: int, file: _ConditionFile, problems: list[Problem]) -> Condition | None:
    at = ("conditions", index)
    if file.feature not in FEATURE_NAMES:
        message = unknown_key(file.feature, FEATURE_NAMES).replace("unknown key", "unknown feature", 1)
        problems.append(document.problem(message, *at, "feature"))
        return None
    before = len(problems)
    if file.op is Op.ONE_OF:
        if not isinstance(file.value, list) or not file.value:
            problems.append(document.problem("value: `in` wants a list of values", *at, "value"))
            return None
        value: Any = tuple(_value(document, index, file.feature, item, problems) for item in file.value)
    else:
        value = _value(document, index, file.feature, file.value, problems)
    if len(problems) > before:
        return None
    if file.op in {Op.AT_LEAST, Op.AT_MOST} and (isinstance(value, bool) or not isinstance(value, int)):
        problems.append(document.problem(f"{file.feature} has no order; compare with == or in", *at, "op"))
        return None
    return Condition(file.feature, file.op, value)


def _value(document: Document, index: int, feature: str, raw: Any, problems: list[Problem]) -> Any:
    at = ("conditions", index, "value")
    if feature not in DERIVED:
        return read_value(document, feature, raw, at, problems)
    try:
        # Sizes and rates can have a unit. Counts are plain numbers, which `parse_bytes` also reads.
        if feature.endswith("_bps"):
            return int(parse_rate(raw))
        if not feature.endswith("_bytes") and not isinstance(raw, int):
            raise ValueError(f"{raw!r} is no whole number")
        return parse_bytes(raw)
    except ValueError as error:
        problems.append(document.problem(f"{feature}: {error}", *at))
        return None
