"""Catalogs for drivers without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from collie.counters.catalog import Catalog, Counter, CounterKind, Unit

Names = Mapping[str, Iterable[str]]
"""Counters by source, in the driver's spelling."""

UNKNOWN_COMPONENT = "unknown"


def discovered(driver: str, names: Names, known: Iterable[Catalog] = ()) -> Catalog:
    """Return a catalog of every counter of a device.

    The first of the `known` catalogs with the same source and spelling describes it, including the role. All others are
    taken as diagnostic 64-bit counts of events, so a search ranks and drives them.
    """
    described = {counter.key: counter for catalog in reversed(tuple(known)) for counter in catalog.counters}
    counters: dict[str, Counter] = {}
    for source in sorted(names):
        for name in sorted(names[source]):
            unique = name if name not in counters else f"{source}/{name}"
            typical = described.get((source, name), _undescribed(source, name))
            counters[unique] = replace(typical, name=unique, spelled="" if unique == name else name, availability="")
    return Catalog(driver, tuple(counters.values()))


def _undescribed(source: str, name: str) -> Counter:
    meaning = "found on the device; nobody has described it yet"
    return Counter(name, source, Unit.EVENTS, CounterKind.DIAGNOSTIC, UNKNOWN_COMPONENT, meaning=meaning)
