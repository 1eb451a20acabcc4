"""`collie space`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import click

from collie.app import inputs
from collie.cli.base import CollieGroup
from collie.cli.complete import content
from collie.cli.options import format_option, print_json
from collie.content.locate import ContentKind
from collie.wiring import ADAPTERS
from collie.workloads.constraint import HostLimits
from collie.workloads.dimension import Choice, Dimension, Vector
from collie.workloads.setup import Changes
from collie.workloads.space import Space
from collie.workloads.units import format_bytes, format_count, format_field, format_short_seconds, format_size
from collie.workloads.workload import Workload


@click.group("space", cls=CollieGroup)
def command() -> None:
    """Show or validate a space of workloads."""


@command.command("show")
@click.argument("space", default="nsdi22", shell_complete=content(ContentKind.SPACE))
@format_option
def show(space: str, output: str) -> int:
    """Show the dimensions of a space or of an application's workloads, their values and its size.

    \b
    collie space show nsdi22
    """
    loaded = inputs.space_named(ADAPTERS, space)
    if output == "json":
        print_json(_as_json(loaded))
        return 0
    click.echo(f"space {loaded.name}: {format_size(loaded.log10_size())} before constraints\n")
    typical = Workload()
    always = {name: value for name, value in loaded.fixed.items() if value != typical.get(name)}
    width = max(map(len, [*loaded.dimensions, *always]))
    for name, dimension in loaded.dimensions.items():
        line = f"  {name:{width}}  {_values(dimension)}; plain {format_field(name, dimension.plain)}"
        click.echo(line if dimension.changes is Changes.TRAFFIC else f"{line}; new set-up")
    for name, value in always.items():
        click.echo(f"  {name:{width}}  always {format_field(name, value)}")
    limits = loaded.limits
    click.echo(f"\n  per host at most {limits.total_mrs} memory regions and {format_bytes(limits.pinned_bytes)} pinned")
    if (outstanding := _outstanding_bytes(limits)) is not None:
        click.echo(f"  per direction at most {format_bytes(outstanding)} in flight")
    if (seconds := _round_seconds(limits)) is not None:
        click.echo(f"  at an offered load, a round at least every {format_short_seconds(seconds)}")
    return 0


@command.command("validate")
@click.argument("space", shell_complete=content(ContentKind.SPACE))
@format_option
def validate(space: str, output: str) -> int:
    """Check a space file. Every problem is printed with its line.

    \b
    collie space validate my-space.yaml
    """
    loaded = inputs.space_named(ADAPTERS, space)
    if output == "json":
        print_json(_as_json(loaded))
    else:
        click.echo(f"{space}: {format_count(len(loaded.dimensions), 'dimension')}, {format_size(loaded.log10_size())}")
    return 0


def _as_json(space: Space) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "space": space.name,
        "log10_size": space.log10_size(),
        "limits": dataclasses.asdict(space.limits)
        | {"outstanding_bytes": _outstanding_bytes(space.limits), "round_seconds": _round_seconds(space.limits)},
        "dimensions": {
            name: {
                "kind": type(dimension).__name__.lower(),
                "size": dimension.size(),
                "candidates": list(dimension.candidates()),
                "plain": dimension.plain,
                "keep_in_sibling": dimension.keep_in_sibling,
                "changes": dimension.changes,
            }
            for name, dimension in space.dimensions.items()
        },
    }


def _outstanding_bytes(limits: HostLimits) -> int | None:
    """Return the limit on the payload in flight. The default is no limit."""
    return limits.outstanding_bytes if limits.outstanding_bytes < HostLimits().outstanding_bytes else None


def _round_seconds(limits: HostLimits) -> float | None:
    return limits.round_seconds if math.isfinite(limits.round_seconds) else None


def _values(dimension: Dimension) -> str:
    if isinstance(dimension, Choice):
        return ", ".join(format_field(dimension.name, value) for value in dimension.values)
    if isinstance(dimension, Vector):
        return f"1 to {dimension.max_length} values of {_values(dimension.element)}"
    low, high = (format_field(dimension.name, limit) for limit in (dimension.low, dimension.high))
    return f"{low} to {high} (ladder of {len(dimension.ladder)})"
