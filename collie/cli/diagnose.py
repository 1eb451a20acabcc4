"""`collie diagnose`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from collie.app import cases, inputs
from collie.app.checks import names_application
from collie.app.diagnoses import diagnose_application, diagnose_workload
from collie.campaign.choice import SearchChoice
from collie.campaign.safety import SafetyRecord
from collie.cli.base import CollieCommand
from collie.cli.named import ANOMALY, KNOWN
from collie.cli.options import print_json, print_safety
from collie.cli.progress import ConsoleProgress
from collie.cli.rerun import perftest_option, rerun_choice, rerun_options
from collie.detect.symptom import Verdict
from collie.errors import UsageError
from collie.report.json.diagnosis import render_application as application_json, render_diagnosis as diagnosis_json
from collie.report.json.objects import with_safety
from collie.report.terminal.diagnosis import render_application, render_diagnosis
from collie.wiring import ADAPTERS


@click.command("diagnose", cls=CollieCommand)
@click.argument("name", metavar="[WORKLOAD|APPLICATION]", required=False, type=ANOMALY)
@perftest_option
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
    help="Try changes that are dearer than one that cures, too, and each smaller step.",
)
@rerun_options("plain values and steps")
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
    of few set-ups, the cheapest change first: the one that takes the fewest steps from the values of this workload.
    `collie check` counts the steps by which the limits of an application move, so that none of its workloads meets the
    conditions. What is dearer than a change that cures is left out. WORKLOAD is named as for `collie measure`. Of an
    application, the workloads that known anomalies name and the heaviest ones are measured, and the worst of each kind
    of traffic is diagnosed within its values. Exits 4 when nothing could be judged.

    \b
    collie diagnose nsdi22-04
    collie diagnose my-workload.yaml --hosts my-hosts.yaml
    collie diagnose rpc-library
    collie diagnose --perftest 'ib_send_bw -c UD -s 1024 -q 16 -l 64'
    """
    if (name is None) == (line is None):
        raise UsageError("name one workload, or paste one command line after --perftest")
    if name is not None and names_application(ADAPTERS, name):
        return _application(ctx, name, against, output, every=every_change)
    given = cases.workload_given(ADAPTERS, name, line)
    choice = rerun_choice(given.choice or SearchChoice(), ctx)
    workload = given.load(inputs.narrowed_space_of(ADAPTERS, choice))
    with ConsoleProgress() as progress:
        diagnosed = diagnose_workload(ADAPTERS, choice, workload, against, progress, every=every_change)
    diagnosed = replace(diagnosed, recorded_hint=given.hint)
    if output == "json":
        print_json(with_safety(diagnosis_json(diagnosed), diagnosed.safety))
    else:
        click.echo(render_diagnosis(diagnosed))
    return _code(diagnosed.safety, [diagnosed.diagnosis.run.verdict])


def _application(ctx: click.Context, name: str, against: str, output: str, *, every: bool) -> int:
    if ctx.params["space"] is not None:
        raise UsageError(f"{name} is an application, whose values are the space of a diagnosis; leave --space out")
    choice = rerun_choice(SearchChoice(space=name), ctx)
    with ConsoleProgress() as progress:
        diagnosed = diagnose_application(ADAPTERS, choice, name, against, progress, every=every)
    if output == "json":
        print_json(with_safety(application_json(diagnosed), diagnosed.safety))
    else:
        click.echo(render_application(diagnosed))
    return _code(diagnosed.safety, [run.verdict for _, run in diagnosed.corners])


def _code(safety: SafetyRecord | None, verdicts: Sequence[Verdict | None]) -> int:
    """Return 3 if nothing was measured or queue pairs are left, 4 if nothing could be judged, else 0."""
    measured = [verdict for verdict in verdicts if verdict is not None]
    if print_safety(safety) or not measured:
        return 3
    return 4 if all(verdict.is_inconclusive for verdict in measured) else 0
