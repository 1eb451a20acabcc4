"""A catalog for a driver that nobody has written one for: whatever the device exposes, under its own name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from collie.counters.catalog import Catalog, Counter, CounterKind, Unit

Names = Mapping[str, Iterable[str]]
"""By source, the counters that a device exposes, as its driver spells them."""

UNKNOWN_COMPONENT = "unknown"


def discovered(driver: str, names: Names, known: Iterable[Catalog] = ()) -> Catalog:
    """Return a catalog of everything that a device exposes.

    What another catalog describes under the same source and spelling is taken from there, role and all: the port
    counters of InfiniBand, the pause counters of a family of drivers. Everything else is taken to count events in 64
    bits and to be diagnostic, so that a search ranks it like the rest and drives what varies.

    Args:
        driver: as the kernel names it.
        names: what the device exposes.
        known: other catalogs, the first one that describes a counter wins.
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
