"""The properties that decide how a host performs. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

CATEGORIES = (
    "subsystem",
    "nic",
    "link",
    "pcie",
    "iommu",
    "numa",
    "memory",
    "cpu",
    "software",
    "platform",
    "flow_control",
    "congestion_control",
    "generator",
)
"""Categories in the order of display. Further categories of a newer agent follow."""

INFORMATIVE = frozenset(
    {
        "subsystem.title",
        "link.netdev",
        "pcie.address",
        "memory.total_bytes",
        "platform.product",
        "congestion_control.source",
    }
)
"""Fields that identify hosts without changing results."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that is not known to be equal. None is unknown.

    Attributes:
        field: `CATEGORY.NAME`.
    """

    field: str
    a: Any
    b: Any

    @property
    def unknown(self) -> bool:
        """Whether one side is unknown."""
        return self.a is None or self.b is None

    @property
    def changes_results(self) -> bool:
        """Whether results are not comparable."""
        return self.field not in INFORMATIVE

    def __str__(self) -> str:
        return f"{self.field}: {show(self.a)} and {show(self.b)}"


@dataclass(frozen=True)
class Fingerprint:
    """One host, or one simulated subsystem: values by category, then by field. None is unknown."""

    values: Mapping[str, Mapping[str, Any]]

    @property
    def fields(self) -> dict[str, Any]:
        """The value of every field by `CATEGORY.NAME`, in the order of the categories."""
        known = [name for name in CATEGORIES if name in self.values]
        order = [*known, *(name for name in self.values if name not in CATEGORIES)]
        return {f"{category}.{name}": value for category in order for name, value in self.values[category].items()}

    @property
    def digest(self) -> str:
        """Digest of all fields that may change results."""
        deciding = {name: value for name, value in self.fields.items() if name not in INFORMATIVE}
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]


def difference(a: Fingerprint, b: Fingerprint) -> tuple[Difference, ...]:
    """Return every field not known to be equal. A field that is unknown on both sides is left out."""
    left, right = a.fields, b.fields
    found = (Difference(name, left.get(name), right.get(name)) for name in {**left, **right})
    return tuple(each for each in found if each.a != each.b)


@dataclass(frozen=True, slots=True)
class HostDifference:
    """Comparison of two named hosts."""

    a: str
    b: str
    differences: tuple[Difference, ...]

    @property
    def changes_results(self) -> bool:
        """Whether results of the two are not comparable."""
        return any(found.changes_results for found in self.differences)


def compare(a: Mapping[str, Fingerprint], b: Mapping[str, Fingerprint]) -> tuple[HostDifference, ...]:
    """Compare hosts of the same name, or in order where the names differ. A missing host has only unknown fields."""
    pairs = zip(a, a, strict=True) if set(a) == set(b) else zip_longest(a, b, fillvalue="nobody")
    nothing = Fingerprint({})
    return tuple(
        HostDifference(left, right, difference(a.get(left, nothing), b.get(right, nothing))) for left, right in pairs
    )


def show(value: Any) -> str:
    """Format a value."""
    if value is None:
        return "unknown"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)
