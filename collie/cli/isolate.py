"""`collie isolate`."""

from __future__ import annotations

from typing import Any

import click

from collie.app.inputs import ISOLATE, require_judged_victim
from collie.app.reports import recorded_choice
from collie.campaign.choice import SearchChoice
from collie.cli import complete
from collie.cli.base import CollieCommand
from collie.cli.named import CAMPAIGN, NEW_DIRECTORY
from collie.cli.options import (
    existing_campaign,
    narrowing_options,
    safety_options,
    testbed_choice,
    testbed_options,
    victim_load_option,
)
from collie.cli.search import run_search
from collie.content.locate import ContentKind
from collie.wiring import ADAPTERS

_SPACE = "tenants"

_OF_A_SEARCH: dict[str, Any] = {
    "verify": False,
    "known": None,
    "phases": None,
    "pairs": 1,
    "scheduler": None,
    "accept_changes": False,
    "score": False,
    "prometheus": None,
}
"""Options of `collie search` that this command leaves at their default."""


@click.command("isolate", cls=CollieCommand)
@click.option(
    "--space",
    default=_SPACE,
    show_default=True,
    metavar="NAME|FILE",
    help="Space of the other tenant's workloads, with `offered_bps`.",
    shell_complete=complete.content(ContentKind.SPACE),
)
@click.option(
    "--recipe",
    default=ISOLATE,
    show_default=True,
    metavar="NAME|FILE",
    help="Recipe of the search, with `loss_of: victim`.",
    shell_complete=complete.content(ContentKind.RECIPE),
)
@narrowing_options
@click.option(
    "--budget", metavar="4h|45m|300runs", help="Budget: a time, or a number of runs.  [default: the recipe's]"
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice.")
@click.option(
    "--campaign",
    "directory",
    type=NEW_DIRECTORY,
    metavar="DIR",
    help="Directory of the record.  [default: campaigns/TIME-NAME-SEED]",
)
@click.option(
    "--resume", metavar="DIR", help="Resume an interrupted campaign. --budget sets another total.", type=CAMPAIGN
)
@click.option("--dry-run", is_flag=True, help="Print the plan and run nothing.")
@victim_load_option
@safety_options
@testbed_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Search the workloads with which one tenant holds up another.

    A plain flow, the victim, runs beside every workload. A workload is an anomaly if the victim keeps less than beside
    plain traffic of the same offered load. With `--victim-load` it is also one if the victim's messages are late. Each
    one is confirmed. Those that the budget allows are explained by their minimal feature sets. The record is that of a
    search, so `reproduce`, `export`, `report` and `status` take it.

    \b
    collie isolate --subsystem F --budget 2h
    collie isolate --subsystem F --victim-load 10Gbit/s
    collie isolate --subsystem H --limit "qps<=64"
    """
    chosen = {**_OF_A_SEARCH, "victim": True, **options}
    if chosen["resume"]:
        directory = existing_campaign(chosen["resume"])
        require_judged_victim(ADAPTERS, recorded_choice(ADAPTERS, directory), directory)
    else:
        choice = SearchChoice(testbed_choice(chosen), chosen["space"], chosen["recipe"])
        require_judged_victim(ADAPTERS, choice)
    return run_search(ctx, chosen)
