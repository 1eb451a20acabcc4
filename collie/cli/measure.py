"""`collie measure`."""

from __future__ import annotations

from typing import Any

import click

from collie.app import cases, inputs, sessions
from collie.campaign.choice import SearchChoice
from collie.campaign.events import Silence
from collie.cli.base import CollieCommand
from collie.cli.named import ANOMALY
from collie.cli.options import print_json, print_safety
from collie.cli.rerun import fixed_values, fixes_option, perftest_lines_option, rerun_choice, rerun_options
from collie.errors import UsageError
from collie.report.json.objects import render_measures, with_safety
from collie.report.terminal.summary import render_measurement
from collie.wiring import ADAPTERS


@click.command("measure", cls=CollieCommand)
@click.argument("names", metavar="[WORKLOAD]...", nargs=-1, type=ANOMALY)
@perftest_lines_option
@fixes_option
@click.option(
    "--phases",
    type=click.IntRange(min=1),
    metavar="N",
    help="Limit on the workloads of one set-up; 1 makes one for each.  [default: no limit]",
)
@rerun_options()
@click.pass_context
def command(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    lines: tuple[str, ...],
    fixes: tuple[str, ...],
    phases: int | None,
    output: str,
    **_options: Any,
) -> int:
    """Run workloads and their plain siblings. Print the whole measurements and the verdicts.

    The plain sibling of a workload has the same operation, message sizes and bytes in flight, and everything else
    plain. Its throughput is the reference of the verdict.

    WORKLOAD is a YAML file, an anomaly, or a file of the released prototype, such as collie-log/reproduce/12.sh. An
    anomaly is named as for `collie reproduce`, such as nsdi22-01 or campaigns/one/a1. It runs on its original testbed
    unless options choose another (a bundle names none). Each --perftest is a workload, too.

    Several workloads run in the given order. Those that can share a set-up of queue pairs and memory regions are its
    phases. A new set-up is made where the one before cannot serve, and the output says why. The exit code is that of
    the worst run.

    \b
    collie measure nsdi22-01
    collie measure nsdi22-08 --fix qps=64
    collie measure my-workload.yaml --hosts hosts.yaml --format json
    collie measure --perftest 'ib_write_bw -s 4096' --perftest 'ib_read_bw -s 4096'
    """
    if not names and not lines:
        raise UsageError("name a workload, or paste a command line after --perftest")
    named = [(name, cases.workload_named(ADAPTERS, name)) for name in names]
    choices = [(name, rerun_choice(each.choice, ctx)) for name, each in named if each.choice is not None]
    choice = cases.common_choice(choices) if choices else rerun_choice(SearchChoice(), ctx)
    space = inputs.narrowed_space_of(ADAPTERS, choice)
    asked = [each.load(space) for _, each in named] + [cases.workload_of_perftest(line, space) for line in lines]
    if values := fixed_values(fixes):
        asked = [cases.with_values(ADAPTERS, each, values, space) for each in asked]
    with sessions.open_session(ADAPTERS, choice, Silence()) as session:
        catalog = session.testbed.info.catalog
        measured = session.measure_all(asked, phases) if len(asked) > 1 else [session.measure(asked[0])]
    if output == "json":
        print_json(with_safety(render_measures(measured), session.safety))
    else:
        click.echo("\n\n".join(render_measurement(each, catalog) for each in measured))
    verdicts = [each.verdict for each in measured]
    if print_safety(session.safety) or None in verdicts:
        return 3
    return 4 if any(verdict is not None and verdict.is_inconclusive for verdict in verdicts) else 0
