"""A map of severity over two dimensions of a simulated subsystem."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from collie.app.adapters import Adapters
from collie.app.cases import case_named
from collie.app.inputs import space_of
from collie.campaign.choice import TestbedChoice
from collie.errors import UsageError
from collie.workloads.narrowing import parse_fixes
from collie.workloads.space import Space
from collie.workloads.sweep import Axis
from collie.workloads.workload import Workload, render

UNEXPLAINED: Final = "unexplained"


@dataclass(frozen=True, slots=True)
class SeverityMap:
    """Severity over two dimensions around a base workload.

    Attributes:
        settings: the settings that differ from the subsystem's file.
        base_severity: None if the base workload cannot run.
        severity: by y, then x. 0 is normal, None is a point that cannot run.
        mechanisms: by y, then x. None where no mechanism is credited.
        followed: other dimensions that are raised at some points to permit the values of the axes.
    """

    subsystem: str
    settings: Mapping[str, str]
    space: str
    base: Workload
    base_name: str
    fixed: tuple[str, ...]
    base_severity: float | None
    plain: Workload
    x: Axis
    y: Axis
    severity: tuple[tuple[float | None, ...], ...]
    mechanisms: tuple[tuple[str | None, ...], ...]
    followed: tuple[str, ...]

    @property
    def default_name(self) -> str:
        """The default name of the map's file."""
        words = (self.subsystem, self.x.dimension, self.y.dimension)
        return f"map-{'-'.join(re.sub(r'[^A-Za-z0-9_.-]+', '_', word) for word in words)}.svg"

    def kinds(self) -> list[list[str | None]]:
        """Return the content of each cell: a mechanism, an empty text if normal, None if nothing can run."""
        return [
            [
                None if value is None else (name or UNEXPLAINED) if value > 0 else ""
                for value, name in zip(*row, strict=True)
            ]
            for row in zip(self.severity, self.mechanisms, strict=True)
        ]

    def counts(self) -> dict[str, int]:
        """Return the number of points of each mechanism, most first."""
        names = [kind for row in self.kinds() for kind in row if kind]
        return dict(sorted(((name, names.count(name)) for name in set(names)), key=lambda item: (-item[1], item[0])))

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values: sizes in bytes, severity 0..1."""
        return {
            "schema_version": 1,
            "subsystem": self.subsystem,
            "settings": dict(self.settings),
            "space": self.space,
            "base": {"name": self.base_name, "severity": self.base_severity, "workload": render(self.base)},
            "followed": list(self.followed),
            "x": {"dimension": self.x.dimension, "values": [_plain(value) for value in self.x.values]},
            "y": {"dimension": self.y.dimension, "values": [_plain(value) for value in self.y.values]},
            "severity": [[None if value is None else round(value, 6) + 0.0 for value in row] for row in self.severity],
            "mechanism": [list(row) for row in self.mechanisms],
        }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class MapChoice:
    """An operator's choice of a map of severity over two dimensions.

    Attributes:
        workload: the base workload: a file, an anomaly, a mechanism's witness, or None for the plain workload.
        fix: dimensions fixed to another value, as the operator wrote them.
    """

    x: str
    y: str
    space: str | None = None
    workload: str | None = None
    fix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MapBase:
    """The workload around which a map lies."""

    name: str
    workload: Workload
    fixed: tuple[str, ...]


class MappedSubsystem(Protocol):
    """A simulated subsystem with known ground truth."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def witnesses(self) -> Mapping[str, Workload]:
        """A workload for each planted mechanism, by the mechanism's name."""

    def severity_map(self, space: Space, base: MapBase, axes: tuple[str, str]) -> SeverityMap:
        """Judge, without noise, every workload over two dimensions."""


def severity_map(adapters: Adapters, subsystem: MappedSubsystem, choice: MapChoice) -> SeverityMap:
    """Map a subsystem as chosen."""
    space = space_of(adapters, TestbedChoice(), choice.space)
    fixes = parse_fixes(choice.fix)
    try:
        plain = space.narrowed(fixes, {}).base if fixes else space.base
    except ValueError as error:
        raise UsageError(str(error)) from None
    name, base = _named_base(adapters, choice.workload, subsystem, space) or ("plain workload", plain)
    name = name if choice.workload is None or not fixes else f"{name}, changed"
    return subsystem.severity_map(space, MapBase(name, base.with_(**fixes), tuple(fixes)), (choice.x, choice.y))


def _named_base(
    adapters: Adapters, named: str | None, subsystem: MappedSubsystem, space: Space
) -> tuple[str, Workload] | None:
    if named is None:
        return None
    witnesses = subsystem.witnesses
    if named in witnesses:
        return f"witness of {named}", witnesses[named]
    if Path(named).suffix in {".yaml", ".yml"}:
        return Path(named).name, adapters.content.workload(Path(named), space)
    if "/" not in named and not adapters.content.names_reference(named):
        raise UsageError(
            f"--workload {named!r} is no file, no anomaly such as nsdi22-01 or CAMPAIGN/a1, and no mechanism that "
            f"subsystem {subsystem.name} has a witness of; it has {', '.join(witnesses) or 'none'}"
        )
    return named, case_named(adapters, named).case.workload
