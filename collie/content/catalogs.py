"""Counter catalogs in YAML, one per driver: counters/DRIVER/catalog.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from collie.content.document import Document, read_document
from collie.content.locate import Kind, find, shown
from collie.content.model import Strict, validate
from collie.counters.catalog import Catalog, Counter, Role, Unit
from collie.counters.catalog import Kind as CounterKind
from collie.errors import ContentError, Problem


class _CounterFile(Strict):
    name: str = Field(min_length=1)
    source: Literal["hw_counters", "counters", "ethtool", "netdev", "model"]
    unit: Annotated[Unit, Field(strict=False)]
    kind: Annotated[CounterKind, Field(strict=False)]
    component: str = Field(min_length=1)
    width: int = Field(64, ge=8, le=64)
    gauge: bool = False
    scale: int = Field(1, ge=1)
    role: Annotated[Role | None, Field(strict=False)] = None
    refresh_seconds: float = Field(0.0, ge=0, le=3600)
    meaning: str = Field(min_length=1)


class _CatalogFile(Strict):
    driver: str
    counters: list[_CounterFile] = Field(min_length=1)


def load_catalog(driver: str, overlay: Path | None = None) -> Catalog:
    """Read the catalog of a driver, or the one at a path.

    Raises:
        ContentError: unknown driver, or every problem of the file.
    """
    path = find(Kind.CATALOG, driver, overlay)
    document = read_document(path, shown(path))
    problems: list[Problem] = []
    file = validate(document, _CatalogFile, problems)
    problems += _twice(document)
    if file and path.name == "catalog.yaml" and file.driver != path.parent.name:
        message = f"driver {file.driver} stands in the folder of {path.parent.name}; name both the same"
        problems.append(document.problem(message, "driver"))
    if problems or file is None:
        raise ContentError(problems)
    return Catalog(file.driver, tuple(Counter(**counter.model_dump()) for counter in file.counters))


def _twice(document: Document) -> list[Problem]:
    problems = []
    first: dict[str, int] = {}
    counters = document.part("counters")
    for index, counter in enumerate(counters if isinstance(counters, list) else ()):
        name = counter.get("name") if isinstance(counter, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            message = f"counter {name} stands twice, first on line {first[name]}; keep one"
            problems.append(document.problem(message, "counters", index, "name"))
        first.setdefault(name, document.line("counters", index, "name"))
    return problems
