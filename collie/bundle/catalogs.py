"""Counter catalogs as data: what a bundle knows of NICs, without the YAML files that Collie reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from collie.counters.catalog import Catalog, Counter
from collie.counters.discovery import Names, discovered
from collie.plain import Codec, Shape

_CODEC = Codec({Catalog: Shape(first=("driver", "drivers")), Counter: Shape(sparse=True)})


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
        return [_CODEC.write(catalog) for catalog in self._catalogs]

    @classmethod
    def decode(cls, raw: Iterable[Mapping[str, Any]]) -> Catalogs:
        """Inverse of `encode`."""
        return cls(_CODEC.read(Catalog, each) for each in raw)
