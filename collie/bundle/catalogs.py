"""Counter catalogs as data, so that a bundle needs no YAML files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from collie.counters.catalog import Catalog, Counter, Names, discovered
from collie.plain import Codec, Shape

_CODEC = Codec({Catalog: Shape(first=("driver", "drivers")), Counter: Shape(sparse=True)})


class Catalogs:
    """The catalogs of all real NICs."""

    def __init__(self, catalogs: Iterable[Catalog]) -> None:
        self._catalogs = tuple(catalogs)

    def find(self, driver: str) -> Catalog | None:
        """Return the catalog of a driver, if there is one."""
        named = (catalog for catalog in self._catalogs if catalog.driver == driver)
        return next(named, None) or next((each for each in self._catalogs if driver in each.drivers), None)

    def discover(self, driver: str, names: Names) -> Catalog:
        """Make a catalog from the counters of a device."""
        return discovered(driver, names, self._catalogs)

    def encode(self) -> list[dict[str, Any]]:
        """Return plain values. A field at its default is left out."""
        return [_CODEC.write(catalog) for catalog in self._catalogs]

    @classmethod
    def decode(cls, raw: Iterable[Mapping[str, Any]]) -> Catalogs:
        """Inverse of `encode`."""
        return cls(_CODEC.read(Catalog, each) for each in raw)
