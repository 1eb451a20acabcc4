"""Simulated subsystems: listed, described, audited, drawn."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from collie.campaign.choice import TestbedChoice
from collie.content.locate import ContentKind, available
from collie.content.subsystems import load_subsystem
from collie.content.workload_files import load_workload
from collie.errors import ContentError, Problem, UsageError
from collie.simulator.subsystem import SubsystemFile
from collie.wiring.benches import case_named
from collie.wiring.parts import space_of
from collie.wiring.testbeds import subsystem_of
from collie.workloads.narrowing import parse_fixes
from collie.workloads.space import Space
from collie.workloads.workload import Workload

if TYPE_CHECKING:
    from collie.report.figures.severity_map import SeverityMap
    from collie.simulator.description import Audit, DescribedPart


@dataclass(frozen=True)
class NamedSubsystem:
    """A subsystem that can be named on the command line.

    Attributes:
        name: as `--subsystem` takes it.
        path: of its file.
    """

    name: str
    path: Path
    file: SubsystemFile


def subsystems() -> tuple[tuple[NamedSubsystem, ...], tuple[Problem, ...]]:
    """Load every subsystem of the overlay and of Collie; what is wrong with some does not hide the others."""
    found: list[NamedSubsystem] = []
    problems: list[Problem] = []
    for name, path in available(ContentKind.SUBSYSTEM).items():
        try:
            found.append(NamedSubsystem(name, path, load_subsystem(name, SubsystemFile)))
        except ContentError as error:
            problems.extend(error.problems)
    return tuple(found), tuple(problems)


def describe_subsystem(subsystem: SubsystemFile) -> tuple[DescribedPart, ...]:
    """Return every quantity of a subsystem by part, with its settings in force."""
    from collie.simulator.description import describe as describe_parts

    return describe_parts(subsystem)


def audit_subsystem(subsystem: SubsystemFile, space: str | None) -> Audit:
    """Check what a subsystem file claims: every witness, every cure.

    Raises:
        ContentError: there is no such space, or it is wrong.
    """
    from collie.simulator.survey import audit

    return audit(subsystem, space_of(TestbedChoice(), space))


@dataclass(frozen=True)
class MapChoice:
    """What a user says about a map of severity.

    Attributes:
        x, y: dimensions.
        space: name or file; None for the usual one.
        workload: what the map lies around: a file, an anomaly, a mechanism's witness; None for the plain workload.
        fix: dimensions with another value, as the user wrote them.
    """

    x: str
    y: str
    space: str | None = None
    workload: str | None = None
    fix: tuple[str, ...] = ()


def severity_map(testbed: TestbedChoice, choice: MapChoice) -> SeverityMap:
    """Judge, without noise, every workload over two dimensions.

    Raises:
        ContentError: a file is wrong or absent.
        UsageError: the dimensions, the fixed values or the workload do not go together.
    """
    from collie.report.figures.severity_map import MapAxis, SeverityMap
    from collie.simulator.survey import survey
    from collie.simulator.truth import Truth

    described = load_subsystem(testbed.subsystem, SubsystemFile)
    subsystem = subsystem_of(testbed)
    space = space_of(testbed, choice.space)
    fixes = parse_fixes(choice.fix)
    try:
        plain = space.narrowed(fixes, {}).base if fixes else space.base
    except ValueError as error:
        raise UsageError(str(error)) from None
    name, base = _map_base(choice.workload, subsystem, space) or ("plain workload", plain)
    base = base.with_(**fixes)
    judged = survey(subsystem, space, base, (choice.x, choice.y), set(fixes))
    x, y = (MapAxis(axis.name, axis.values, axis.ordered, axis.position) for axis in (judged.x, judged.y))
    return SeverityMap(
        subsystem=subsystem.name,
        settings={
            name: setting.value
            for name, setting in subsystem.settings.items()
            if setting.value != described.settings[name].value
        },
        space=space.name,
        base=base,
        base_name=name if choice.workload is None or not fixes else f"{name}, changed",
        fixed=tuple(fixes),
        base_severity=float(Truth(subsystem, space).severities([base])[0]) if space.allows(base) else None,
        plain=space.base,
        x=x,
        y=y,
        severity=tuple(tuple(None if isnan(value) else value for value in row) for row in judged.severity.tolist()),
        mechanisms=tuple(tuple(name.value if name else None for name in row) for row in judged.mechanisms),
        followed=judged.followed,
    )


def _map_base(named: str | None, subsystem: SubsystemFile, space: Space) -> tuple[str, Workload] | None:
    if named is None:
        return None
    witnesses = {witness.mechanism.value: witness.trigger for witness in subsystem.witnesses}
    if named in witnesses:
        return f"witness of {named}", witnesses[named]
    if Path(named).suffix in {".yaml", ".yml"}:
        return Path(named).name, load_workload(Path(named), space)
    if "/" not in named and named not in available(ContentKind.ANOMALY):
        raise UsageError(
            f"--workload {named!r} is no file, no anomaly such as nsdi22-01 or CAMPAIGN/a1, and no mechanism that "
            f"subsystem {subsystem.name} has a witness of; it has {', '.join(witnesses) or 'none'}"
        )
    return named, case_named(named).case.workload
