"""`collie reproduce`."""

from __future__ import annotations

from typing import Any

import click

from collie.app import cases, sessions
from collie.cli.base import CollieCommand
from collie.cli.named import ANOMALY
from collie.cli.options import print_json, print_safety
from collie.cli.progress import ConsoleProgress
from collie.cli.rerun import rerun_choice, rerun_options
from collie.report.json.objects import render_reproduction, with_safety
from collie.report.terminal.summary import render_trials
from collie.report.terminal.trials import NO_CONTROLS
from collie.wiring import ADAPTERS


@click.command("reproduce", cls=CollieCommand)
@click.argument("anomaly", type=ANOMALY)
@click.option("--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Runs of each workload.")
@click.option("--controls", is_flag=True, help="Also break each condition in turn. These runs must be normal.")
@rerun_options(default="the campaign's, or as in search")
@click.pass_context
def command(ctx: click.Context, /, anomaly: str, repeat: int, controls: bool, output: str, **_options: Any) -> int:
    """Run an anomaly again.

    ANOMALY is one of the paper's, such as nsdi22-01; CAMPAIGN/ID, such as campaigns/20261120T101500Z-F-1/a1; a bundle,
    such as a1.pyz, which is read and not run; or a file of the released prototype, such as collie-log/result/12.
    CAMPAIGN/ID runs on the testbed of that campaign unless options choose another. The anomaly is reproduced when at
    least 60% of the runs show the same symptom.

    \b
    collie reproduce nsdi22-01
    collie reproduce campaigns/one/a1 --repeat 5 --controls
    collie reproduce nsdi22-04 --hosts my-hosts.yaml --repeat 10 --controls
    """
    named = cases.case_named(ADAPTERS, anomaly)
    choice = rerun_choice(named.choice, ctx)
    if controls and not named.case.mfs.conditions:
        click.echo(NO_CONTROLS, err=True)
    ceilings, known = named.ceilings(choice.testbed), named.case.at_discovery
    levels = known.levels if known else None
    with (
        ConsoleProgress() as progress,
        sessions.open_session(ADAPTERS, choice, progress, ceilings, named.fingerprints, levels) as session,
    ):
        changed = named.difference(session.testbed.info.fingerprints)
        found = session.reproduce(named.case, repeat=repeat, controls=controls)
    if output == "json":
        print_json(with_safety(render_reproduction(named.case.name, found, changed), session.safety))
    else:
        click.echo(render_trials(named.case.name, found, changed))
        click.echo(f"measured on {session.testbed.info.title}")
        if named.note:
            click.echo(named.note)
    return 3 if print_safety(session.safety) else found.exit_code
