"""What decides how a host performs, as values that can be kept and compared. Pure.

Three answers about a field of two fingerprints, never two: equal, different, or unknown on one side. Unknown on both
sides says nothing and is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
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
"""In the order in which people look. What a newer agent adds comes after them."""

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
"""Fields that tell hosts apart and do not change what they measure. Everything else may."""


NOBODY = "nobody"
"""Whom a host without a counterpart is compared with."""


class Significance(StrEnum):
    """What a difference means for results."""

    RESULTS = "results"
    """Results on either side must not be compared as if nothing had changed."""
    INFORMATIVE = "informative"


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that is not known to be equal.

    Attributes:
        field: `CATEGORY.NAME`.
        a, b: the values; None is unknown.
        significance: what it means for results.
    """

    field: str
    a: Any
    b: Any
    significance: Significance

    @property
    def unknown(self) -> bool:
        """Whether one side is unknown, so that nobody can say whether they differ."""
        return self.a is None or self.b is None

    @property
    def changes_results(self) -> bool:
        """Whether results must not be compared without a word about it."""
        return self.significance is Significance.RESULTS

    def __str__(self) -> str:
        return f"{self.field}: {show(self.a)} and {show(self.b)}"


@dataclass(frozen=True)
class Fingerprint:
    """One host, or one simulated subsystem.

    Attributes:
        values: by category, then by field; None is unknown.
    """

    values: Mapping[str, Mapping[str, Any]]

    @property
    def fields(self) -> dict[str, Any]:
        """Every field as `CATEGORY.NAME`, in the order of the categories."""
        known = [name for name in CATEGORIES if name in self.values]
        order = [*known, *(name for name in self.values if name not in CATEGORIES)]
        return {f"{category}.{name}": value for category in order for name, value in self.values[category].items()}

    @property
    def digest(self) -> str:
        """Name everything that may change results: equal digests, comparable results."""
        deciding = {name: value for name, value in self.fields.items() if name not in INFORMATIVE}
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]


def difference(a: Fingerprint, b: Fingerprint) -> tuple[Difference, ...]:
    """Return every field that is not known to be equal, in order; a field that one side lacks is unknown there."""
    left, right = a.fields, b.fields
    names = [*left, *(name for name in right if name not in left)]
    return tuple(
        Difference(name, left.get(name), right.get(name), _significance(name))
        for name in names
        if left.get(name) != right.get(name)
    )


@dataclass(frozen=True, slots=True)
class HostDifference:
    """How two fingerprints compare.

    Attributes:
        a, b: whose they are.
        differences: empty when nothing is known to differ.
    """

    a: str
    b: str
    differences: tuple[Difference, ...]

    @property
    def changes_results(self) -> bool:
        """Whether results of the two must not be compared without a word about it."""
        return any(found.changes_results for found in self.differences)


def compare(a: Mapping[str, Fingerprint], b: Mapping[str, Fingerprint]) -> tuple[HostDifference, ...]:
    """Compare hosts with hosts of the same name; with others in order, where the names are not the same.

    A host that has no counterpart is compared with nothing: all of it is unknown on the other side.
    """
    pairs = zip(a, a, strict=True) if set(a) == set(b) else zip_longest(a, b, fillvalue=NOBODY)
    nothing = Fingerprint({})
    return tuple(
        HostDifference(left, right, difference(a.get(left, nothing), b.get(right, nothing))) for left, right in pairs
    )


def show(value: Any) -> str:
    """Write a value for people."""
    if value is None:
        return "unknown"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _significance(name: str) -> Significance:
    return Significance.INFORMATIVE if name in INFORMATIVE else Significance.RESULTS
