"""`collie fleet`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from collie.app import fleets
from collie.campaign.choice import SearchChoice
from collie.campaign.fleet import FailedAttempt, Notify
from collie.cli import complete
from collie.cli.base import CollieCommand
from collie.cli.options import (
    CHANCE,
    noise_seed_option,
    print_json,
    print_safety,
    require_writable,
    safety_limits,
    safety_options,
    testbed_choice,
    testbed_options,
)
from collie.errors import UsageError
from collie.fleet.battery import MIN_HOSTS, is_large_enough
from collie.fleet.fault import Fault, FaultKind
from collie.fleet.judge import FALSE_ALARM
from collie.inventory.hosts import host_of
from collie.report.fleet import alike, fleet_json, fleet_text, render_fleet, repeated_attempts
from collie.report.html.page import write_page
from collie.report.json.objects import with_safety
from collie.wiring import ADAPTERS
from collie.workloads.units import format_count


@click.command("fleet", cls=CollieCommand)
@click.option(
    "--count",
    type=click.IntRange(2, fleets.MAX_SIMULATED),
    help=f"Hosts of the simulated fleet.  [default: {fleets.SIMULATED_HOSTS}]",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="HOST=KIND[:SIZE]",
    help=f"Give a simulated host a fault: {', '.join(FaultKind)}.",
    shell_complete=complete.faults,
)
@click.option("--repeat", type=click.IntRange(min=1), help="Repetitions of the battery.  [default: by fleet size]")
@click.option(
    "--pairs",
    type=click.IntRange(1, fleets.MAX_PAIRS),
    help="Pairs of real hosts that measure at once.  [default: all that share no host]",
)
@click.option(
    "--false-alarm",
    type=CHANCE,
    default=FALSE_ALARM,
    show_default=True,
    help="Largest probability of an odd host in a healthy fleet.",
)
@noise_seed_option
@click.option("-o", "page", metavar="FILE", help="Write a page with a heat map of all hosts.")
@safety_options
@testbed_options
def command(page: str | None, output: str, **options: Any) -> int:
    """Find the odd hosts of a fleet: run the same short battery on every host and compare each with its peers.

    Exits 1 when a host is odd, 3 when a host could not be measured in full, 4 when there are too few hosts to decide.

    \b
    collie fleet --hosts hosts.yaml -o fleet.html
    collie fleet --subsystem F --count 40 --fault host-007=pcie_half_width
    """
    require_writable("-o", Path(page) if page else None)
    search = SearchChoice(
        testbed_choice(options),
        seed=options["seed"],
        safety=safety_limits(options),
        shared_port=options["shared_port"],
    )
    choice = fleets.FleetChoice(
        search,
        options["count"],
        _faults(options["faults"]),
        options["repeat"],
        options["pairs"],
        options["false_alarm"],
    )
    result = fleets.fleet(ADAPTERS, choice, _print_first())
    for line in repeated_attempts(result.attempts):
        click.echo(line, err=True)
    if output == "json":
        print_json(with_safety(fleet_json(result), result.safety))
    else:
        click.echo(fleet_text(result))
    print_safety(result.safety)
    if not is_large_enough(result.hosts):
        click.echo(f"{_count(result.hosts)} are too few to find an odd one; at least {MIN_HOSTS} are needed", err=True)
    if page:  # last, so that the measurement is printed even if the page cannot be written
        write_page(render_fleet(result), Path(page), follow=True)
    return exit_code_of(result)


def _print_first() -> Notify:
    """Return a function that prints the first of the attempts that fail alike."""
    seen: set[str] = set()

    def notify(attempt: FailedAttempt) -> None:
        reason = alike(attempt.hosts, attempt.reason)
        if reason not in seen:
            seen.add(reason)
            click.echo(attempt, err=True)

    return notify


def exit_code_of(result: fleets.FleetResult) -> int:
    """Return the exit code."""
    if result.safety and result.safety.left_behind:
        return 3
    if result.verdict and result.verdict.odd:
        return 1
    if not is_large_enough(result.hosts):
        return 4
    missing = result.verdict is None or result.verdict.unjudged or result.survey.incomplete or result.survey.ended_by
    return 3 if missing else 0


def _count(endpoints: Sequence[str]) -> str:
    machines = len(set(map(host_of, endpoints)))
    hosts = format_count(machines, "host")
    return f"{hosts} with {format_count(len(endpoints), 'device')}" if machines < len(endpoints) else hosts


def _faults(words: Iterable[str]) -> dict[str, Fault]:
    """Parse words such as `HOST=KIND:SIZE`."""
    found: dict[str, Fault] = {}
    for word in words:
        host, sign, fault = word.partition("=")
        if not sign or not host:
            raise UsageError(f"--fault {word!r} is not HOST=KIND")
        if host in found:
            raise UsageError(f"--fault {word}: host {host} already has a fault; a host can have one")
        try:
            found[host] = Fault.parse(fault)
        except UsageError as error:
            raise UsageError(f"--fault {word}: {error}") from None
    return found
