"""`collie hosts`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from collie import wiring
from collie.app import inventories, sessions
from collie.app.hosts import diff as diff_hosts, take_fingerprints
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.safety import tightened
from collie.cli.base import CollieGroup
from collie.cli.named import CAMPAIGN
from collie.cli.options import format_option, print_json, print_safety, safety_limits, safety_options
from collie.cli.progress import ConsoleProgress
from collie.detect.bounds import CalibrationPoint
from collie.hosts.findings import CheckState, Finding
from collie.inventory.fingerprint import HostDifference, show
from collie.report.json.objects import plain, render_differences, with_safety
from collie.wiring import ADAPTERS
from collie.workloads.units import format_bytes, format_rate, format_short_seconds

_MARKS = {CheckState.OK: "[green]ok[/]", CheckState.MISSING: "[red]missing[/]", CheckState.ADVICE: "[yellow]advice[/]"}


_hosts_option = click.option("--hosts", metavar="FILE", required=True, help="Inventory. `lab` is the lab's.")


@click.group("hosts", cls=CollieGroup)
def command() -> None:
    """Check, calibrate and compare real hosts."""


@command.command("check")
@_hosts_option
@click.option("--no-traffic", is_flag=True, help="Do not test data paths: send no traffic except SSH.")
@safety_options
@format_option
def check(hosts: str, no_traffic: bool, output: str, **options: Any) -> int:
    """List what each host needs before it can measure, with the command that installs it. Changes nothing.

    Then send a few seconds of traffic both ways along a ring over the hosts and between the hosts of each pair, and
    name the layer of every broken data path.

    \b
    collie hosts check --hosts hosts.yaml
    collie hosts check --hosts hosts.yaml --no-traffic
    """
    inventory = inventories.open_inventory(ADAPTERS, hosts)
    limits = None if no_traffic else tightened(inventory.safety, safety_limits(options))
    findings = wiring.check_hosts(inventory, limits, shared_port=options["shared_port"])
    missing = any(finding.state is CheckState.MISSING for finding in findings)
    if output == "json":
        rows = [{**plain(finding), "command": finding.command or None} for finding in findings]
        print_json({"schema_version": 1, "ready": not missing, "findings": rows})
    else:
        _print(findings)
    return 3 if missing else 0


@command.command("calibrate")
@_hosts_option
@click.option("--space", metavar="NAME|FILE", help="Gives the plain values.  [default: as in search]")
@click.option("--repeat", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each. Medians count.")
@safety_options
@format_option
def calibrate(hosts: str, space: str | None, repeat: int, output: str, **options: Any) -> int:
    """Measure plain traffic of every opcode and transport at nine message sizes, and keep it as the ceiling.

    \b
    collie hosts calibrate --hosts hosts.yaml
    """
    choice = SearchChoice(
        TestbedChoice(hosts=hosts), space, safety=safety_limits(options), shared_port=options["shared_port"]
    )
    with ConsoleProgress() as progress:
        made = sessions.calibrate(ADAPTERS, choice, repeat, progress)
    points, links = made.calibration.points, made.calibration.links
    kept_in = str(made.path) if made.path else None
    if output == "json":
        document = {"schema_version": 1, "kept_in": kept_in, "points": plain(points), "links": plain(links)}
        print_json(with_safety(document, made.safety))
    else:
        _print_calibration(points)
        for link in links:
            half, most = (format_short_seconds(seconds) for seconds in (link.median_seconds, link.p99_seconds))
            offered = format_rate(link.workload.offered_bps)
            click.echo(f"link {link.link}  {offered} of plain traffic: half within {half}, 99% within {most}")
        if kept_in:
            click.echo(f"kept in {kept_in}; later searches, measurements and reproductions on these hosts use it")
        print_safety(made.safety)
    if made.failure:
        raise made.failure
    return 3 if made.safety and made.safety.left_behind else 0 if points else 5


def _print_calibration(points: Sequence[CalibrationPoint]) -> None:
    table = Table("transport", "opcode", "message", "delivered", "messages/s", "spread", box=None)
    for point in points:
        table.add_row(
            point.qp_type,
            point.opcode,
            format_bytes(point.message_bytes),
            format_rate(point.bps),
            f"{1 / point.seconds_per_message:,.0f}",
            f"{point.spread:.0%}",
        )
    Console().print(table)


@command.command("fingerprint")
@_hosts_option
@click.option("--host", "names", metavar="NAME", multiple=True, help="Only this host.  [default: all]")
@format_option
def fingerprint(hosts: str, names: tuple[str, ...], output: str) -> int:
    """Print the configuration that decides each host's performance, from firmware to flow control.

    \b
    collie hosts fingerprint --hosts hosts.yaml --host server-1
    """
    taken = take_fingerprints(ADAPTERS, hosts, names)
    if output == "json":
        displayed = {name: {"digest": each.digest, "fingerprint": each.values} for name, each in taken.items()}
        print_json({"schema_version": 1, "hosts": displayed})
        return 0
    for name, each in taken.items():
        click.echo(f"{name}  {each.digest}")
        for field, value in each.fields.items():
            click.echo(f"    {field:42} {show(value)}")
    return 0


@command.command("diff")
@click.argument("a", type=CAMPAIGN)
@click.argument("b", type=CAMPAIGN)
@click.option("--hosts", metavar="FILE", help="Inventory, when A or B is the name of a host. `lab` is the lab's.")
@format_option
def diff(a: str, b: str, hosts: str | None, output: str) -> int:
    """Show the differences between two hosts, or between a host now and then.

    A and B are hosts of the inventory, campaign directories, or fingerprint files (CAMPAIGN/fingerprint/HOST.json).
    Exits 1 when a field that changes results is not known to be equal.

    \b
    collie hosts diff server-1 server-2 --hosts hosts.yaml
    collie hosts diff campaigns/may campaigns/june
    """
    found = diff_hosts(ADAPTERS, a, b, hosts)
    if output == "json":
        print_json({"schema_version": 1, "compared": render_differences(found)})
    else:
        for each in found:
            _print_difference(each)
    return 1 if any(each.changes_results for each in found) else 0


def _print_difference(found: HostDifference) -> None:
    if not found.differences:
        click.echo(f"{found.a} and {found.b}: no known difference")
        return
    table = Table(box=None)
    for heading in ("field", found.a, found.b, ""):
        table.add_column(heading, overflow="fold")
    for each in found.differences:
        note = "informative" if not each.changes_results else "unknown on one side" if each.unknown else ""
        table.add_row(each.field, show(each.a), show(each.b), note)
    Console(highlight=False, markup=False).print(table)


def _print(findings: tuple[Finding, ...]) -> None:
    console = Console(highlight=False)
    for finding in findings:
        console.print(f"{finding.host:12} {_MARKS[finding.state]:16} {finding.item}: ", end="")
        console.print(finding.detail, markup=False)
        if finding.command:
            console.print(f"{'':12} mend it: {finding.command}", markup=False)
