"""Content files: every field, from the dataclasses and models that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, TypeAdapter
from words import attributes, below_fields, default_of, in_words, listed, row, table, type_of

from collie.content import anomalies, applications, catalogs, dimensions, spaces
from collie.counters.catalog import Counter, Ignored
from collie.detect.confirm import Confirmation
from collie.detect.noise import Noise
from collie.detect.thresholds import Thresholds
from collie.inventory import file, hosts
from collie.search.recipe import Bayesian, Extraction, Guide, Recipe, Schedule
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.application import Application
from collie.workloads.constraint import HostLimits
from collie.workloads.feature import DERIVED, Condition
from collie.workloads.reference import ReferenceAnomaly
from collie.workloads.workload import Workload


@dataclass(frozen=True)
class Section:
    """A table of fields.

    Attributes:
        title: of the section.
        model: the dataclass or the pydantic model that reads it.
        described_by: a class of the program whose docstring says what the fields of the same names mean.
        intro: what comes before the table.
        without: fields that no file states.
    """

    title: str
    model: type
    described_by: type | None = None
    intro: str = ""
    without: tuple[str, ...] = ()


_FILES: Mapping[str, tuple[Section, ...]] = {
    "Space: `workloads/spaces/NAME.yaml`": (
        Section("", spaces._SpaceFile),
        Section("limits", spaces._LimitsFile, HostLimits),
        Section("dimensions.NAME", dimensions._DimensionFile, None, "NAME is a [field of a workload](#workload)."),
    ),
    "Anomaly: `workloads/anomalies/COLLECTION-NN.yaml`": (
        Section("", anomalies._AnomalyFile, ReferenceAnomaly),
        Section("conditions[]", anomalies._ConditionFile, Condition),
        Section("severity", anomalies._SeverityFile),
        Section("fix", anomalies._FixFile),
    ),
    "Application: `workloads/applications/NAME.yaml`": (
        Section("", applications._ApplicationFile, Application),
        Section(
            "traffic.NAME.DIMENSION", applications._ReachFile, None, "Or one value, or `any` for all of the space."
        ),
    ),
    "Recipe: `search/recipes/NAME.yaml`": (
        Section("", Recipe, without=("name",)),
        Section("schedule", Schedule),
        Section("thresholds", Thresholds),
        Section("noise", Noise),
        Section("confirmation", Confirmation),
        Section("extraction", Extraction),
        Section("guide", Guide),
        Section("bayesian", Bayesian),
    ),
    "Counter catalog: `counters/DRIVER/catalog.yaml`": (
        Section("", catalogs._CatalogFile),
        Section("counters[]", catalogs._CounterEntry, Counter),
        Section("ignored[]", Ignored),
    ),
    "Inventory: a hosts file": (
        Section("", file.InventoryFile),
        Section("hosts.NAME", file.HostEntry, hosts.Host),
        Section("hosts.NAME.devices.NAME", file.DeviceEntry, hosts.Host, "Or its `data_address` alone."),
        Section("hosts.NAME.specification", hosts.HostSpecification),
        Section("safety", file.SafetyEntry),
    ),
}


def content_blocks() -> Iterator[str]:
    """Yield the page, block by block."""
    yield (
        "Fields in the order of the program, from the models that read them. [Files](files.md) explains "
        "the formats with examples; `hosts.example.yaml` every line of an inventory. Sizes "
        "take `4KiB`, rates `200Gbit`, times `10s`. A field without a default has to be there."
    )
    yield "## Workload"
    yield f"Any path; also `trigger` of an anomaly. Derived features for conditions: {listed(DERIVED)}."
    meanings = attributes(Workload)
    kinds = get_type_hints(Workload)
    rows = (
        row(each.name, in_words(kinds[each.name]), default_of(each.default), meanings[each.name])
        for each in fields(Workload)
    )
    yield table(rows)
    for title, sections in _FILES.items():
        yield f"## {title}"
        for section in sections:
            yield from _section(section)
    yield "## Subsystem: `collie/simulator/subsystems/NAME.yaml`"
    yield (
        "[Files](files.md#subsystem) explains the format, and `based_on` and `without`; "
        "[`simulator.md`](../explanation/simulator.md) has the equations."
    )
    yield from _subsystem(SubsystemFile, "")


def _subsystem(model: type[BaseModel], title: str) -> Iterator[str]:
    yield from _section(Section(title, model))
    for name, info in model.model_fields.items():
        for part in _models(info.annotation):
            where = f"{title}.{name}".strip(".")
            yield from _subsystem(part, f"{where}[]" if "tuple" in str(info.annotation) else where)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models(inner)


def _section(section: Section) -> Iterator[str]:
    if section.title:
        yield f"### `{section.title}`"
    if section.intro:
        yield section.intro
    schema = TypeAdapter(section.model).json_schema(mode="validation")
    own = {name: text for kind in reversed(section.model.__mro__) for name, text in below_fields(kind).items()}
    meanings = {**attributes(section.described_by or section.model), **own}
    rows = []
    found = schema.get("properties", {})
    order = [each.name for each in fields(section.model)] if is_dataclass(section.model) else list(found)
    for name in order:
        if name in section.without:
            continue
        described = found[name]
        default = "" if name in schema.get("required", ()) else default_of(described.get("default", _made(described)))
        meaning = described.get("description") or meanings.get(name) or _of_model(described, schema)
        if not meaning:
            raise SystemExit(f"{section.model.__qualname__}.{name} says nowhere what it means; write a text below it")
        rows.append(row(name, type_of(described, schema.get("$defs", {})), default, " ".join(meaning.split())))
    yield table(iter(rows))


def _made(described: Mapping[str, Any]) -> object:
    """Return a stand-in for the default that a schema leaves out, as the class makes it anew for each value."""
    return {"made": "by the class"} if "$ref" in described else None


def _of_model(described: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return what a model that stands in a field says of itself."""
    inner = described.get("items") or described.get("additionalProperties") or described
    reference = inner.get("$ref", "").rsplit("/", 1)[-1] if isinstance(inner, dict) else ""
    return str(schema.get("$defs", {}).get(reference, {}).get("description", "")).split("\n", 1)[0]
