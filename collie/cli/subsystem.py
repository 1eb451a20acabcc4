"""`collie subsystem`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from collie import wiring
from collie.app import severity_map
from collie.app.inputs import space_named
from collie.campaign.choice import DEFAULT_SUBSYSTEM, TestbedChoice
from collie.cli.base import CollieGroup
from collie.cli.complete import content, dimensions
from collie.cli.options import format_option, parse_settings, print_json, require_writable
from collie.cli.validation import validation_json, validation_lines
from collie.content.locate import ContentKind
from collie.content.subsystems import load_subsystems
from collie.errors import ContentError, Problem
from collie.report.figures.severity_map import value_text
from collie.report.figures.severity_map_figure import check_suffix, draw_map
from collie.simulator.claims import Audit
from collie.simulator.description import DescribedPart, describe
from collie.simulator.draws import POINTS
from collie.simulator.subsystem import SubsystemFile
from collie.wiring import ADAPTERS
from collie.workloads.space import Space
from collie.workloads.units import format_count, format_value
from collie.workloads.workload import FIELD_NAMES, Workload, render

_PIPE_WIDTH = 120

_subsystem_argument = click.argument(
    "subsystem", metavar="[NAME|FILE]", default=DEFAULT_SUBSYSTEM, shell_complete=content(ContentKind.SUBSYSTEM)
)
_set_option = click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting.")


@click.group("subsystem", cls=CollieGroup)
def command() -> None:
    """List, show, check and map simulated subsystems.

    A subsystem file describes NIC, PCIe, memory and host by physical quantities. docs/how-to/describe-a-subsystem.md
    shows how to write one for your NIC.
    """


@command.command("list", short_help="List the subsystems that --subsystem accepts by name.")
@format_option
def list_(output: str) -> int:
    """List the subsystems that --subsystem accepts by name, with their planted mechanisms.

    \b
    collie subsystem list
    """
    found, problems = load_subsystems(SubsystemFile)
    planted = {item.name: [witness.mechanism.value for witness in item.file.witnesses] for item in found}
    if output == "json":
        rows = [
            {"name": item.name, "title": item.file.title, "file": str(item.path), "mechanisms": planted[item.name]}
            for item in found
        ]
        print_json({"schema_version": 1, "subsystems": rows})
    else:
        with _printed() as console:
            for item in found:
                mechanisms = planted[item.name]
                console.print(Text.assemble((item.name, "bold"), f"  {item.file.title}"))
                console.print(_indented(3, f"{len(mechanisms)} planted: {', '.join(mechanisms) or 'none'}"))
    if problems:
        raise ContentError(problems)
    return 0


@command.command("show", short_help="Show every quantity, the settings and the witnesses.")
@_subsystem_argument
@_set_option
@format_option
def show(subsystem: str, settings: tuple[str, ...], output: str) -> int:
    """Show every quantity of a subsystem (F by default), its settings and its witnesses.

    \b
    collie subsystem show F --set pfc=disabled
    """
    loaded = wiring.subsystem_of(TestbedChoice(subsystem=subsystem, settings=parse_settings(settings)))
    parts = describe(loaded)
    if output == "json":
        print_json(_subsystem_json(loaded, parts))
        return 0
    with _printed() as console:
        console.print(Text.assemble((loaded.name, "bold"), f"  {loaded.title}"))
        for part in parts:
            _print_part(console, part)
        _print_settings(console, loaded)
        _print_witnesses(console, loaded)
    return 0


@command.command("validate", short_help="Check a file's claims.")
@click.argument(
    "subsystems", metavar="NAME|FILE...", nargs=-1, required=True, shell_complete=content(ContentKind.SUBSYSTEM)
)
@click.option("--space", metavar="NAME|FILE", help="Space of the workloads.  [default: nsdi22]")
@click.option("--survey", is_flag=True, help="List every mechanism that random workloads show.")
@click.option(
    "--points",
    metavar="N",
    type=click.IntRange(1, 1_000_000),
    default=POINTS,
    help=f"Random workloads to judge.  [default: {POINTS}]",
)
@format_option
def validate(subsystems: tuple[str, ...], space: str | None, survey: bool, points: int, output: str) -> int:
    """Check subsystem files and their claims.

    Each witness must be a valid workload that is anomalous because of its mechanism and no other. For each mechanism
    that a setting cures, some option must make the witness normal. Each mechanism that random workloads show must have
    a witness. Plain traffic that stays far below what line and PCIe can carry, or pauses, is noted. A witness that the
    space does not hold is skipped. Exits 1 when a claim is wrong, 2 when a file is.

    \b
    collie subsystem validate my-nic.yaml
    collie subsystem validate my-nic.yaml --survey --points 20000
    """
    loaded = _load_all(subsystems)
    terms = space_named(ADAPTERS, space)
    audits: dict[str, Audit] = {}
    for name, audited in loaded.items():
        with _working(f"{name}: judging {format_count(points, 'random workload')}"):
            audits[name] = audited(terms, points)
    if output == "json":
        checked = [validation_json(name, audit, survey=survey) for name, audit in audits.items()]
        print_json({"schema_version": 1, "valid": not any(a.problems for a in audits.values()), "subsystems": checked})
    else:
        for name, audit in audits.items():
            click.echo("\n".join(validation_lines(name, audit, terms.name, survey=survey)))
    return 1 if any(audit.problems for audit in audits.values()) else 0


@command.command("map", short_help="Draw a map of its anomalies.")
@_subsystem_argument
@click.option(
    "--x", metavar="DIM", required=True, help="Dimension of the horizontal axis.", shell_complete=dimensions("")
)
@click.option(
    "--y", metavar="DIM", required=True, help="Ordered dimension of the vertical axis.", shell_complete=dimensions("")
)
@click.option(
    "--workload",
    metavar="WHAT",
    help="Centre of the map: a workload file, an anomaly such as nsdi22-08 or CAMPAIGN/a1, or a mechanism, for "
    "its witness.  [default: the plain workload]",
)
@click.option("--fix", "fixes", multiple=True, metavar="DIM=VALUE", help="Change a value of that workload.")
@click.option("--space", metavar="NAME|FILE", help="Gives the dimensions.  [default: nsdi22]")
@click.option("-o", "--output", "path", metavar="FILE", help="Figure, .svg or .png.  [default: map-NAME-X-Y.svg here]")
@_set_option
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Output on stdout: the figure's path, or also all values.",
)
def map_(subsystem: str, settings: tuple[str, ...], path: str | None, output: str, **said: Any) -> int:
    """Draw where a subsystem (F by default) is anomalous over two dimensions, and the mechanisms behind it.

    This is the simulator's ground truth: no noise, against the plain sibling. `message_bytes` is the size of all
    messages. Memory regions grow with the messages and queues with the batch, unless they are fixed or an axis.

    \b
    collie subsystem map F --x qps --y message_bytes --workload context_cache
    """
    if path is not None:
        check_suffix(Path(path))
        require_writable("-o", Path(path))
    testbed = TestbedChoice(subsystem=subsystem, settings=parse_settings(settings))
    choice = severity_map.MapChoice(said["x"], said["y"], said["space"], said["workload"], said["fixes"])
    with _working(f"drawing a map of {subsystem}"):
        drawn = severity_map.severity_map(ADAPTERS, wiring.ground_truth(testbed), choice)
        written = Path(path or drawn.default_name)
        draw_map(drawn, written)
    if output == "json":
        print_json({**drawn.as_json(), "path": str(written)})
        return 0
    counts = ", ".join(f"{name} {count}" for name, count in drawn.counts().items())
    points = sum(value is not None for row in drawn.severity for value in row)
    click.echo(f"{format_count(points, 'workload')}; anomalous: {counts or 'none'}", err=True)
    click.echo(str(written))
    return 0


def _load_all(names: tuple[str, ...]) -> Mapping[str, Callable[[Space, int], Audit]]:
    loaded: dict[str, Callable[[Space, int], Audit]] = {}
    problems: list[Problem] = []
    for name in names:
        try:
            loaded[name] = wiring.ground_truth(TestbedChoice(subsystem=name)).audit
        except ContentError as error:
            problems.extend(error.problems)
    if problems:
        raise ContentError(problems)
    return loaded


def _working(what: str) -> AbstractContextManager[object]:
    """Say on a terminal what takes a while."""
    return Console(stderr=True).status(what)


@contextmanager
def _printed() -> Iterator[Console]:
    """Yield a console whose text is then printed without the blanks with which rich fills its lines."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        yield console
    click.echo("\n".join(line.rstrip() for line in capture.get().removesuffix("\n").split("\n")))


def _print_part(console: Console, part: DescribedPart) -> None:
    console.print()
    console.print(Text.assemble((part.name, "bold"), f"  {part.description}"))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=34)
    table.add_column(no_wrap=True, justify="right", min_width=14)
    table.add_column()
    for quantity in part.quantities:
        by = f" (setting {quantity.setting})" if quantity.setting else ""
        table.add_row(f"  {quantity.name}", quantity.text, f"{quantity.description}{by}")
    console.print(table)


def _print_settings(console: Console, subsystem: SubsystemFile) -> None:
    console.print()
    console.print(Text("settings", "bold"))
    for name, setting in subsystem.settings.items():
        cures = f"  cures {', '.join(setting.cures)}" if setting.cures else ""
        console.print(f"  {name} = {setting.value}{cures}")
        for option, changes in setting.options.items():
            described = [
                f"{part}.{field} = {format_value(value)}"
                for part, fields in changes.items()
                for field, value in fields.items()
            ]
            console.print(_indented(6, f"{option}: {', '.join(described) or 'as described'}"))


def _print_witnesses(console: Console, subsystem: SubsystemFile) -> None:
    console.print()
    console.print(Text("witnesses", "bold"))
    default = Workload()
    for witness in subsystem.witnesses:
        trigger = witness.trigger
        changed = [name for name in FIELD_NAMES if trigger.get(name) != default.get(name)]
        console.print(_indented(2, f"{witness.mechanism}: {witness.title}"))
        console.print(_indented(6, ", ".join(f"{name} {value_text(name, trigger.get(name))}" for name in changed)))


def _indented(columns: int, text: str) -> Padding:
    return Padding(text, (0, 0, 0, columns), expand=False)


def _subsystem_json(subsystem: SubsystemFile, parts: tuple[DescribedPart, ...]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "name": subsystem.name,
        "title": subsystem.title,
        "parts": {
            part.name: {
                "description": part.description,
                "quantities": {
                    each.name: {"value": each.value, "setting": each.setting, "description": each.description}
                    for each in part.quantities
                },
            }
            for part in parts
        },
        "settings": {name: setting.model_dump(mode="json") for name, setting in subsystem.settings.items()},
        "witnesses": [
            {"mechanism": witness.mechanism.value, "title": witness.title, "workload": render(witness.trigger)}
            for witness in subsystem.witnesses
        ],
    }
