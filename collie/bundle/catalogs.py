"""Counter catalogs as data: what a bundle knows of NICs, without the YAML files that Collie reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from collie.counters.catalog import Catalog, Counter, CounterKind, Ignored, Role, Unit
from collie.counters.discovery import Names, discovered


class Catalogs:
    """The catalogs of a bundle.

    Args:
        catalogs: all that Collie has of real NICs.
    """

    def __init__(self, catalogs: Iterable[Catalog]) -> None:
        self._catalogs = tuple(catalogs)

    def find(self, driver: str) -> Catalog | None:
        """Return the catalog that describes a driver; None when there is none."""
        named = (catalog for catalog in self._catalogs if catalog.driver == driver)
        return next(named, None) or next((each for each in self._catalogs if driver in each.drivers), None)

    def discover(self, driver: str, names: Names) -> Catalog:
        """Make a catalog of what a device exposes."""
        return discovered(driver, names, self._catalogs)

    def encode(self) -> list[dict[str, Any]]:
        """Return plain values from which `decode` makes the same; what stands at its default is left out."""
        return [
            {
                "driver": catalog.driver,
                "drivers": list(catalog.drivers),
                "counters": [_said(counter) for counter in catalog.counters],
                "ignored": [asdict(rule) for rule in catalog.ignored],
            }
            for catalog in self._catalogs
        ]

    @classmethod
    def decode(cls, raw: Iterable[Mapping[str, Any]]) -> Catalogs:
        """Inverse of `encode`."""
        return cls(
            Catalog(
                each["driver"],
                tuple(_counter(counter) for counter in each["counters"]),
                tuple(each["drivers"]),
                tuple(Ignored(**rule) for rule in each["ignored"]),
            )
            for each in raw
        )


def _said(counter: Counter) -> dict[str, Any]:
    plainest = asdict(Counter("", "", counter.unit, counter.kind, ""))
    always = ("unit", "kind")
    return {name: value for name, value in asdict(counter).items() if name in always or value != plainest[name]}


def _counter(raw: Mapping[str, Any]) -> Counter:
    role = raw.get("role")
    read = {"unit": Unit(raw["unit"]), "kind": CounterKind(raw["kind"]), "role": None if role is None else Role(role)}
    return Counter(**{**raw, **read})
