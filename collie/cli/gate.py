"""`collie gate`."""

from __future__ import annotations

import dataclasses
import shlex
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from collie import wiring
from collie.campaign.budget import parse_budget
from collie.campaign.choice import TestbedChoice
from collie.campaign.gate import GateSummary
from collie.cli.options import changed_testbed, print_json, safety_limits, safety_options, say_safety, testbed_options
from collie.cli.progress import ConsoleProgress
from collie.errors import TestbedError, UsageError
from collie.inventory.fingerprint import compare
from collie.report.gate import GateContext, render_gate, render_gate_text

_PASS, _FAIL = "pass", "fail"


@click.command("gate")
@click.option(
    "--baseline",
    required=True,
    metavar="CAMPAIGN|FILE",
    help="A campaign to compare with, or the campaign.sqlite in it.",
)
@click.option("--baseline-hosts", metavar="FILE", help="Inventory where the baseline can be measured now, in turn.")
@click.option(
    "--under-test",
    default="firmware",
    show_default=True,
    metavar="FIELD,...",
    help="In what the two sides may differ: firmware, driver, kernel, settings, everything, or fingerprint fields.",
)
@click.option("--budget", metavar="6h|30m|500runs", help="How long, for both sides.  [default: the recipe's]")
@click.option(
    "--false-alarm",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=0.01,
    show_default=True,
    help="Chance of any false alarm.",
)
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Write JUnit XML.")
@click.option("--markdown", metavar="FILE", type=click.Path(path_type=Path), help="Add a summary in Markdown.")
@click.option(
    "--inconclusive", type=click.Choice([_PASS, _FAIL]), default=_FAIL, show_default=True, help="Exit 0 or 4."
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever the answer is; 2 and 3 are no answers.")
@click.option("--campaign", "directory", metavar="DIR", help="The record.  [default: campaigns/TIME-gate-NAME-SEED]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of every random choice.")
@safety_options
@testbed_options
@click.pass_context
def command(ctx: click.Context, /, output: str, **options: Any) -> int:
    """Refuse what is worse than a baseline: replay its anomalies and the known ones, then search for new ones.

    Exits 0 when nothing is new or worse, 1 when something is, 3 when it could not be measured, 4 when it cannot be
    decided, 5 when nothing was run. docs/gate.md has the arithmetic and ready-made jobs for CI.

    \b
    collie search --subsystem F --budget 6h --campaign baseline
    collie gate --baseline baseline --set firmware=22.31 --budget 6h --junit gate.xml
    collie gate --baseline baseline --hosts hosts.yaml --budget 30m --markdown summary.md
    """
    started = time.monotonic()
    baseline = wiring.read_baseline(options["baseline"])
    choice = _choice(ctx, baseline, options)
    directory = _directory(choice, options)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    fails = options["inconclusive"] == _FAIL
    context = GateContext(
        baseline=options["baseline"],
        candidate=_words(choice.search.testbed),
        testbed_options=_testbed_words(choice.search.testbed),
        under_test=choice.under_test,
        differences=(),
        campaign=str(directory),
        started=stamp,
        exit_code=3,
        inconclusive_fails=fails,
    )
    try:
        with ConsoleProgress() as progress, wiring.gate(choice, baseline, directory, progress) as opened:
            summary = opened.run()
            opened.release()
    except TestbedError as error:
        if options["junit"]:
            from collie.report.junit import write_failed_junit

            write_failed_junit(options["junit"], context, str(error))
        raise
    code = summary.exit_code(inconclusive_fails=fails)
    differences = compare(baseline.fingerprints, opened.candidate.info.fingerprints)
    code = 0 if options["exit_zero"] and code in (1, 4) else code
    context = dataclasses.replace(context, differences=differences, exit_code=code, safety=opened.safety)
    _write(summary, context, options)
    if output == "json":
        print_json(render_gate(summary, context, time.monotonic() - started))
    else:
        click.echo(render_gate_text(summary, context))
        click.echo(f"record  {directory}")
    for record in opened.safety:
        say_safety(record)
    return 3 if any(record.left_behind for record in opened.safety) else code


def _choice(ctx: click.Context, baseline: wiring.Baseline, options: dict[str, Any]) -> wiring.GateChoice:
    if options["budget"]:
        parse_budget(options["budget"])
    under_test = tuple(word.strip() for word in options["under_test"].split(",") if word.strip())
    if not under_test:
        raise UsageError("--under-test names nothing; write --under-test firmware, or leave it out")
    search = dataclasses.replace(
        baseline.choice,
        testbed=changed_testbed(baseline.choice.testbed, ctx),
        known=None,
        budget=options["budget"],
        seed=options["seed"],
        safety=safety_limits(options),
        shared_port=options["shared_port"],
        capabilities=None,
    )
    return wiring.GateChoice(search, options["baseline_hosts"], under_test, options["false_alarm"])


def _directory(choice: wiring.GateChoice, options: dict[str, Any]) -> Path:
    testbed = choice.search.testbed
    name = Path(testbed.hosts or testbed.subsystem).stem
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return Path(options["directory"] or f"campaigns/{stamp}-gate-{name}-{options['seed']}")


def _testbed_words(testbed: TestbedChoice) -> list[str]:
    if testbed.hosts is not None:
        return ["--hosts", testbed.hosts]
    settings = (word for key, value in testbed.settings.items() for word in ("--set", f"{key}={value}"))
    return ["--subsystem", testbed.subsystem, *settings]


def _words(testbed: TestbedChoice) -> str:
    return shlex.join(_testbed_words(testbed))


def _write(summary: GateSummary, context: GateContext, options: dict[str, Any]) -> None:
    if options["junit"]:
        from collie.report.junit import write_junit

        write_junit(options["junit"], summary, context)
    if options["markdown"]:
        from collie.report.markdown import write_markdown

        write_markdown(options["markdown"], summary, context)
