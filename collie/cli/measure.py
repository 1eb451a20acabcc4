"""`collie measure`."""

from __future__ import annotations

from typing import Any

import click

from collie.app import cases, inputs, sessions
from collie.campaign.events import Silence
from collie.cli import complete
from collie.cli.base import CollieCommand
from collie.cli.options import noise_seed_option, print_json, print_safety, rerun_choice, run_options
from collie.detect.symptom import Outcome
from collie.report.json.objects import render_measure, with_safety
from collie.report.terminal.summary import render_measurement
from collie.wiring import ADAPTERS


@click.command("measure", cls=CollieCommand)
@click.argument("workload", shell_complete=complete.anomalies)
@click.option("--space", metavar="NAME|FILE", help="Gives the plain values.  [default: as in search]")
@click.option("--recipe", metavar="NAME|FILE", help="Gives the thresholds.  [default: as in search]")
@noise_seed_option
@run_options
@click.pass_context
def command(ctx: click.Context, /, workload: str, output: str, **_options: Any) -> int:
    """Run one workload and its plain sibling. Print the whole measurement and the verdict.

    WORKLOAD is a YAML file, an anomaly, or a file of the released prototype, such as collie-log/reproduce/12.sh. An
    anomaly is named as for `collie reproduce`, such as nsdi22-01 or campaigns/one/a1. It runs on its original testbed
    unless options choose another (a bundle names none).

    \b
    collie measure nsdi22-01
    collie measure my-workload.yaml --hosts hosts.yaml --format json
    """
    then, load = cases.workload_named(ADAPTERS, workload)
    choice = rerun_choice(then, ctx)
    asked = load(inputs.narrowed_space_of(ADAPTERS, choice))
    with sessions.open_session(ADAPTERS, choice, Silence()) as session:
        measured = session.measure(asked)
    if output == "json":
        print_json(with_safety(render_measure(measured), session.safety))
    else:
        click.echo(render_measurement(measured))
    if print_safety(session.safety) or measured.verdict is None:
        return 3
    return 4 if measured.verdict.outcome is Outcome.INCONCLUSIVE else 0
