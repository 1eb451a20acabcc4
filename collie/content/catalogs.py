"""Counter catalogs, one per driver: counters/DRIVER/catalog.yaml."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from collie.content.document import Document, Location, read_document, read_text
from collie.content.kinds import require_kind
from collie.content.locate import ContentKind, available, display_path, find
from collie.content.model import Strict, validate
from collie.counters.catalog import Catalog, Counter, Ignored, Names, Source, discovered
from collie.errors import ContentError, Problem, Problems
from collie.limits import Limits, Text

_PLACEHOLDER = re.compile(r"\{(\w*)\}")

_MAX_COUNTERS = 10_000  # limit on a catalog after expansion. The largest has some 250
_COSTLY = re.compile(r"\)[*+{]|\(\?|\\[1-9]|(?:[*+{].*){4}")
"""A repeated group, a look-around, a back reference, or more than three repetitions can make a match take for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CounterEntry(Counter):
    """A counter in a file. Its texts have placeholders, and more of its fields are required."""

    source: Source
    scale: Annotated[int, Limits(ge=1)] = 1
    meaning: Text = field()


class _CatalogFile(Strict):
    """This is no `Catalog`, because `expand` makes several counters of one entry."""

    driver: str
    """Name of the catalog and of its folder."""
    drivers: list[str] = Field(default_factory=list)
    """Kernel drivers of the catalog, if they have other names."""
    expand: dict[str, list[str | int]] = Field(default_factory=dict)
    """Values of the placeholders in names: an entry stands for one counter per combination."""
    counters: list[_CounterEntry] = Field(min_length=1)
    """Sampled counters."""
    ignored: list[Ignored] = Field(default_factory=list)
    """Counters of the driver that are not sampled."""


def load_catalog(driver: str) -> Catalog:
    """Read the catalog with this name, or with this driver under `drivers`."""
    return _load(_described_by(driver) or find(ContentKind.CATALOG, driver))


def find_catalog(driver: str) -> Catalog | None:
    """Read the catalog of a driver, if there is one."""
    path = _described_by(driver)
    return _load(path) if path else None


def load_catalogs() -> list[Catalog]:
    """Read the catalogs of all real drivers."""
    return [_load(path) for name, path in available(ContentKind.CATALOG).items() if name != "simulated"]


def discover_catalog(driver: str, names: Names) -> Catalog:
    """Make a catalog from the counters of a device. Known names get their description from other catalogs."""
    return discovered(driver, names, load_catalogs())


def _described_by(driver: str) -> Path | None:
    files = available(ContentKind.CATALOG)
    if driver in files:
        return files[driver]
    # Parsing a catalog takes a tenth of a second, so only catalogs that mention the driver are read.
    mentioning = (path for path in files.values() if driver in read_text(path, display_path(path)))
    return next((path for path in mentioning if driver in read_document(path).sequence("drivers")), None)


def _load(path: Path) -> Catalog:
    document = read_document(path)
    require_kind(document, ContentKind.CATALOG)
    problems = Problems()
    file = validate(document, _CatalogFile, problems)
    if file and path.name == "catalog.yaml" and file.driver != path.parent.name:
        message = f"driver {file.driver} stands in the folder of {path.parent.name}; name both the same"
        problems.append(document.problem(message, "driver"))
    problems += _twice(document)
    if file:
        problems += _wrong_patterns(document, file)
    if problems or file is None:
        raise ContentError(problems)
    counters = tuple(counter for entry in file.counters for counter in _expanded(entry, file.expand))
    return Catalog(file.driver, counters, tuple(file.drivers), tuple(file.ignored))


def _expanded(entry: _CounterEntry, values: Mapping[str, Sequence[str | int]]) -> Iterator[Counter]:
    written = asdict(entry)
    for chosen in _combinations(entry.name, values):
        fields: dict[str, Any] = {
            key: _filled(value, chosen) if type(value) is str else value for key, value in written.items()
        }
        yield Counter(**fields)


def _combinations(name: str, values: Mapping[str, Sequence[str | int]]) -> Iterator[dict[str, str]]:
    placeholders = dict.fromkeys(_PLACEHOLDER.findall(name))
    for chosen in itertools.product(*(values.get(placeholder, ()) for placeholder in placeholders)):
        yield dict(zip(placeholders, map(str, chosen), strict=True))


def _filled(text: str, chosen: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: chosen.get(found[1], found[0]), text)


def _twice(document: Document) -> Iterator[Problem]:
    """Yield a problem for each name, and each place in the driver, that two entries claim."""
    first: dict[str | tuple[str, str], int] = {}
    count = 0
    expand = document.mapping("expand")
    values = expand if all(isinstance(v, list) for v in expand.values()) else {}
    for index, entry in enumerate(document.sequence("counters")):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        at: Location = ("counters", index, "name")
        placeholders = set(_PLACEHOLDER.findall(name))
        if unknown := [one for one in _PLACEHOLDER.findall(name) if one not in values]:
            known = ", ".join(values) or "none"
            yield document.problem(f"{{{unknown[0]}}} stands for nothing; under expand: {known}", *at)
            continue
        count += math.prod(len(values[placeholder]) for placeholder in placeholders)
        if count > _MAX_COUNTERS:
            yield document.problem(f"more than {_MAX_COUNTERS} counters up to here; no NIC has as many", *at)
            break
        spelled = entry.get("spelled") or name
        for chosen in _combinations(name, values):
            one = _filled(name, chosen)
            key = (str(entry.get("source")), _filled(str(spelled), chosen))
            if one in first:
                yield document.problem(f"counter {one} stands twice, first on line {first[one]}; keep one", *at)
                break
            if key in first:
                message = f"{key[1]} of {key[0]} is read twice, first on line {first[key]}; keep one"
                yield document.problem(message, *at)
                break
            first[one] = first[key] = document.line(*at)


def _wrong_patterns(document: Document, file: _CatalogFile) -> Iterator[Problem]:
    for index, rule in enumerate(file.ignored):
        if _COSTLY.search(rule.pattern):
            message = (
                f"{rule.pattern!r} could take for ever; repeat no group, use no (?...) and no back reference, and at "
                "most three of * + {}"
            )
            yield document.problem(message, "ignored", index, "pattern")
            continue
        try:
            re.compile(rule.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            message = f"{rule.pattern!r} is no regular expression: {error}"
            yield document.problem(message, "ignored", index, "pattern")
