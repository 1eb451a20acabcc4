"""`collie diagnose`."""

from __future__ import annotations

from typing import Any

import click

from collie.app import cases, inputs
from collie.app.diagnoses import diagnose_workload
from collie.campaign.choice import SearchChoice
from collie.cli.base import CollieCommand
from collie.cli.named import ANOMALY, KNOWN
from collie.cli.options import noise_seed_option, print_json, print_safety, rerun_choice, run_options
from collie.cli.progress import ConsoleProgress
from collie.errors import UsageError
from collie.report.json.objects import render_diagnosis as diagnosis_json, with_safety
from collie.report.terminal.diagnosis import render_diagnosis
from collie.wiring import ADAPTERS


@click.command("diagnose", cls=CollieCommand)
@click.argument("name", metavar="[WORKLOAD]", required=False, type=ANOMALY)
@click.option("--perftest", "line", metavar="LINE", help="A perftest command line in place of a workload.")
@click.option(
    "--against",
    default="nsdi22",
    show_default=True,
    metavar="CAMPAIGN|nsdi22",
    help="Known anomalies to look the workload up in.",
    type=KNOWN,
)
@click.option(
    "--every-change",
    is_flag=True,
    help="Try changes that are dearer than one that cures, too, and smaller steps of each.",
)
@click.option("--space", metavar="NAME|FILE", help="Gives plain values and steps.  [default: as in search]")
@click.option("--recipe", metavar="NAME|FILE", help="Gives the thresholds.  [default: as in search]")
@noise_seed_option
@run_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    name: str | None,
    line: str | None,
    against: str,
    every_change: bool,
    output: str,
    **_options: Any,
) -> int:
    """Find out why a workload is slow: which dimension costs how much, and the cheapest change that mends it.

    Measures the workload, then the workload with one dimension after another changed towards plain traffic, as phases
    of few set-ups, the cheapest change first. What is dearer than a change that cures is left out. WORKLOAD is named as
    for `collie measure`. An application with ranges of values is for `collie check`. Exits 4 when the workload itself
    could not be judged.

    \b
    collie diagnose nsdi22-04
    collie diagnose my-workload.yaml --hosts my-hosts.yaml
    collie diagnose --perftest 'ib_send_bw -c UD -s 1024 -q 16 -l 64'
    """
    if (name is None) == (line is None):
        raise UsageError("name one workload, or paste one command line after --perftest")
    then, load = (
        cases.workload_named(ADAPTERS, name)
        if name is not None
        else (None, lambda space: cases.workload_of_perftest(str(line), space))
    )
    choice = rerun_choice(then or SearchChoice(), ctx)
    workload = load(inputs.narrowed_space_of(ADAPTERS, choice))
    with ConsoleProgress() as progress:
        diagnosed = diagnose_workload(ADAPTERS, choice, workload, against, progress, every=every_change)
    if output == "json":
        print_json(with_safety(diagnosis_json(diagnosed), diagnosed.safety))
    else:
        click.echo(render_diagnosis(diagnosed))
    verdict = diagnosed.diagnosis.run.verdict
    if print_safety(diagnosed.safety) or verdict is None:
        return 3
    return 4 if verdict.is_inconclusive else 0
