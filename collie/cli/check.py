"""`collie check`."""

from __future__ import annotations

from typing import Any

import click

from collie.advise.check import Advice, check
from collie.app.checks import MeasuredHits, application_named, application_of_perftest, known_anomalies, measure_hits
from collie.campaign.choice import SearchChoice
from collie.cli.base import CollieCommand
from collie.cli.complete import content
from collie.cli.named import KNOWN, Named
from collie.cli.options import (
    SAFETY_PARAMETERS,
    TESTBED_PARAMETERS,
    given_options,
    noise_seed_option,
    print_json,
    print_safety,
    safety_limits,
    safety_options,
    testbed_options,
)
from collie.cli.progress import ConsoleProgress
from collie.cli.rerun import perftest_lines_option, rerun_testbed
from collie.content.locate import ContentKind
from collie.errors import UsageError
from collie.report.terminal.advice import Measured, render_advice, render_checks
from collie.wiring import ADAPTERS
from collie.workloads.application import Application

APPLICATION = Named(content(ContentKind.APPLICATION))

_OF_RUNS = {"seed", *SAFETY_PARAMETERS, *TESTBED_PARAMETERS} - {"subsystem"}  # which also chooses the anomalies


@click.command("check", cls=CollieCommand)
@click.argument("names", metavar="[WORKLOAD|APPLICATION]...", nargs=-1, type=APPLICATION)
@perftest_lines_option
@click.option(
    "--against",
    default="nsdi22",
    show_default=True,
    metavar="CAMPAIGN|nsdi22",
    help="Known anomalies to compare with.",
    type=KNOWN,
)
@click.option(
    "--space",
    metavar="NAME|FILE",
    help="Space of the comparison.  [default: its own; nsdi22]",
    shell_complete=content(ContentKind.SPACE),
)
@click.option("--measure", is_flag=True, help="Run an example of each hit, before and after the change.")
@noise_seed_option
@safety_options
@testbed_options
@click.pass_context
def command(ctx: click.Context, /, names: tuple[str, ...], lines: tuple[str, ...], **options: Any) -> int:
    """List the known anomalies that an application can hit, and the cheapest change that avoids them.

    Check an application file or its id, a workload file, the id of an anomaly, or perftest command lines. Several
    --perftest run at the same time. The cheapest change moves the limits of the application by the fewest steps, so
    that none of its workloads meets the conditions; `collie diagnose` changes one workload until it runs well. With
    --subsystem only the anomalies published for it count. If none is published for it, all count. Exit 1 if any is
    hit; with --measure, if the example of any is not normal. Exit 4 if the application is too wide for an exact answer,
    or if the campaign has anomalies that are not explained, with which nothing can be compared.

    \b
    collie check rpc-library --subsystem F
    collie check my-app.yaml --against campaigns/20261120T101500Z-F-1
    collie check --perftest 'ib_read_bw -m 1024 -s 4194304 -q 8'
    """
    if not names and not lines:
        raise UsageError("name an application or a workload, or paste a command line after --perftest")
    if not options["measure"] and (unused := given_options(ctx, _OF_RUNS)):
        raise UsageError(f"{', '.join(unused)}: only for the runs of examples; give --measure with it")
    compared = known_anomalies(ADAPTERS, options["against"], options["subsystem"])
    asked: list[tuple[Application, tuple[str, ...]]] = [
        (application_named(ADAPTERS, name, options["space"]), ()) for name in names
    ]
    if lines:
        asked.append(application_of_perftest(ADAPTERS, lines, options["space"]))
    checks, left_behind = [], False
    for application, remarks in asked:
        advice = check(application, compared.known)
        measured = _measured(ctx, advice, options)
        checks.append((advice, measured.runs, remarks))
        for record in measured.safety:
            left_behind |= print_safety(record)
    if options["output"] == "json":
        print_json(render_checks(options["against"], compared, checks))
    else:
        click.echo("\n\n".join(render_advice(advice, compared, runs, said) for advice, runs, said in checks))
    if left_behind:
        return 3
    if any(_is_bad(advice, runs) for advice, runs, _ in checks):
        return 1
    return 4 if compared.unexplained or any(advice.open for advice, _, _ in checks) else 0


def _measured(ctx: click.Context, advice: Advice, options: dict[str, Any]) -> MeasuredHits:
    if not options["measure"] or not advice.hits:
        return MeasuredHits({}, ())

    def choose(then: SearchChoice) -> SearchChoice:
        return SearchChoice(
            rerun_testbed(then.testbed, ctx),
            recipe=then.recipe,
            seed=options["seed"],
            safety=safety_limits(options),
            shared_port=options["shared_port"],
        )

    with ConsoleProgress() as progress:
        return measure_hits(ADAPTERS, advice.hits, choose, progress)


def _is_bad(advice: Advice, runs: Measured) -> bool:
    verdicts = [runs[place][0].verdict if place in runs else None for place in range(len(advice.hits))]
    return any(verdict is None or not verdict.is_normal for verdict in verdicts)
