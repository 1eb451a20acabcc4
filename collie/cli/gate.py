"""`collie gate`."""

from __future__ import annotations

import dataclasses
import os
import shlex
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from collie.app import baselines, campaigns, gates, reports
from collie.campaign.budget import parse_budget
from collie.campaign.choice import GateChoice
from collie.campaign.gate.answer import GateAnswer
from collie.campaign.gate.summary import GateSummary
from collie.campaign.safety import SafetyRecord, replaced
from collie.cli.base import INTERRUPTED, CollieCommand, print_error
from collie.cli.named import CAMPAIGN, NEW_DIRECTORY
from collie.cli.options import (
    CHANCE,
    SAFETY_PARAMETERS,
    existing_campaign,
    go_on,
    print_json,
    print_safety,
    refuse_fixed,
    require_writable,
    safety_limits,
    safety_options,
    testbed_options,
)
from collie.cli.progress import ConsoleProgress
from collie.cli.rerun import rerun_testbed
from collie.errors import LabError, StoreError, StoreUnwritable, TestbedError, UsageError
from collie.inventory.fingerprint import compare
from collie.ports import CAMPAIGN_FILE
from collie.report.terminal.gate import GateContext, answer_of, render_gate, render_gate_text
from collie.wiring import ADAPTERS

_PASS, _FAIL = "pass", "fail"


@click.command("gate", cls=CollieCommand)
@click.option(
    "--baseline",
    metavar="CAMPAIGN|FILE",
    help=f"A campaign to compare with, or the {CAMPAIGN_FILE} in it.",
    type=CAMPAIGN,
)
@click.option(
    "--accept-failed-baseline",
    is_flag=True,
    help="Take a gate that failed as the baseline, with what it found new or worse.",
)
@click.option("--baseline-hosts", metavar="FILE", help="Inventory on which the baseline can be measured now, in turn.")
@click.option(
    "--under-test",
    default="firmware",
    show_default=True,
    metavar="FIELD,...",
    help="Allowed differences of the two sides: firmware, driver, kernel, settings, everything, or fingerprint fields.",
)
@click.option(
    "--budget",
    metavar="6h|30m|500runs",
    help="Budget of both sides: a time, or a number of runs.  [default: the recipe's]",
)
@click.option("--false-alarm", type=CHANCE, default=0.01, show_default=True, help="Probability of any false alarm.")
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Write JUnit XML.")
@click.option("--markdown", metavar="FILE", type=click.Path(path_type=Path), help="Append a summary in Markdown.")
@click.option(
    "--inconclusive", type=click.Choice([_PASS, _FAIL]), default=_FAIL, show_default=True, help="Exit 0 or 4."
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 for any answer; 2 and 3 are no answers.")
@click.option(
    "--campaign",
    "directory",
    type=NEW_DIRECTORY,
    metavar="DIR",
    help="Directory of the record.  [default: campaigns/TIME-gate-NAME-SEED]",
)
@click.option(
    "--resume",
    metavar="DIR",
    help="Resume an interrupted gate with its original options. --subsystem sets the path of a moved file.",
    type=CAMPAIGN,
)
@click.option("--accept-changes", is_flag=True, help="With --resume: resume although the hosts have changed.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice.")
@safety_options
@testbed_options
@click.pass_context
def command(ctx: click.Context, /, output: str, **options: Any) -> int:
    """Refuse a candidate that is worse than a baseline: replay known anomalies, then search for new ones.

    Exits 0 when nothing is new or worse, 1 when something is, 3 when it could not be measured, 4 when it cannot be
    decided, 5 when nothing was run. docs/how-to/gate-firmware.md has ready-made jobs for CI,
    docs/explanation/gate-decisions.md the arithmetic.

    \b
    collie search --subsystem F --budget 6h --campaign base
    collie gate --baseline base --set firmware=22.31 --budget 6h --junit gate.xml
    collie gate --baseline base --hosts hosts.yaml --budget 30m --markdown gate.md
    collie gate --resume campaigns/20261120T101500Z-gate-F-0 --junit gate.xml
    """
    started = time.monotonic()
    for name in ("junit", "markdown"):
        require_writable(f"--{name}", options[name])
    choice, baseline, directory = _resumed(ctx, options) if options["resume"] else _chosen(ctx, options)
    context = _context(choice, directory, options)
    resumed = {"resumed": bool(options["resume"]), "accept_changes": options["accept_changes"]}
    safety: Mapping[str, SafetyRecord] = {}
    try:
        with (
            ConsoleProgress() as progress,
            gates.gate(ADAPTERS, choice, baseline, directory, progress, **resumed) as opened,
        ):
            try:
                summary = opened.run()
            finally:
                opened.release()
                safety = opened.safety
    except (TestbedError, StoreUnwritable, LabError) as error:
        if options["junit"]:
            from collie.report.ci.junit import write_failed_junit

            write_failed_junit(options["junit"], context, str(error))
        print_error(f"{error}{_go_on(directory)}", error.exit_code, as_json=output == "json")
        _print_safety(safety)
        return error.exit_code
    except KeyboardInterrupt:
        print_error(f"interrupted{_go_on(directory)}", INTERRUPTED, as_json=output == "json")
        _print_safety(safety)
        return INTERRUPTED
    code = summary.exit_code(inconclusive_fails=context.inconclusive_fails)
    now = opened.candidate.info.fingerprints
    differences = compare(baseline.fingerprints_of(now), now)
    code = 0 if options["exit_zero"] and code in (1, 4) else code
    context = dataclasses.replace(context, differences=differences, exit_code=code, safety=safety)
    if output == "json":
        print_json(render_gate(summary, context, time.monotonic() - started))
    else:
        click.echo(render_gate_text(summary, context))
        click.echo(f"record  {directory}")
    _write_report(directory, answer_of(summary, context), with_path=output != "json")
    _print_safety(safety)
    _write(summary, context, options)
    return 3 if any(record.left_behind for record in safety.values()) else code


def _write_report(directory: Path, answer: GateAnswer, *, with_path: bool) -> None:
    """Write the report. A gate that cannot write it has an answer all the same."""
    try:
        report = reports.keep_answer(ADAPTERS, directory, answer)
    except StoreError as error:
        click.echo(f"collie: {error}", err=True)
        return
    if with_path:
        click.echo(f"report  {report}")


def _print_safety(safety: Mapping[str, SafetyRecord]) -> None:
    for side, record in safety.items():
        print_safety(record, side)


def _go_on(directory: Path) -> str:
    if not os.path.isfile(directory / CAMPAIGN_FILE):
        return ""
    return f"; all measurements are kept, resume with: {go_on('gate', directory)}"


_FREE_ON_RESUME = SAFETY_PARAMETERS | {
    *("resume", "accept_changes", "subsystem", "junit", "markdown", "inconclusive", "exit_zero", "output")
}


def _resumed(ctx: click.Context, options: dict[str, Any]) -> tuple[GateChoice, baselines.Baseline, Path]:
    refuse_fixed(ctx, _FREE_ON_RESUME)
    directory = existing_campaign(options["resume"])
    choice = gates.recorded_gate(ADAPTERS, directory)
    safety = replaced(choice.search.safety, safety_limits(options))
    testbed = campaigns.resumed_testbed(choice.search.testbed, options["subsystem"])
    search = dataclasses.replace(choice.search, testbed=testbed, safety=safety, shared_port=options["shared_port"])
    baseline = baselines.read_baseline(ADAPTERS, choice.baseline, accept_failed=True)  # the gate has begun with it
    return dataclasses.replace(choice, search=search), baseline, directory


def _chosen(ctx: click.Context, options: dict[str, Any]) -> tuple[GateChoice, baselines.Baseline, Path]:
    if options["accept_changes"]:
        raise UsageError("--accept-changes needs a gate to resume; give it with --resume")
    if not options["baseline"]:
        raise UsageError("give a campaign to compare with as --baseline, or a gate to resume as --resume")
    if options["budget"]:
        parse_budget(options["budget"])
    under_test = tuple(word.strip() for word in options["under_test"].split(",") if word.strip())
    if not under_test:
        raise UsageError("--under-test names nothing; write --under-test firmware, or leave it out")
    baseline = baselines.read_baseline(ADAPTERS, options["baseline"], accept_failed=options["accept_failed_baseline"])
    search = dataclasses.replace(
        baseline.choice,
        testbed=rerun_testbed(baseline.choice.testbed, ctx),
        known=None,
        budget=options["budget"],
        seed=options["seed"],
        safety=safety_limits(options),
        shared_port=options["shared_port"],
        pairs=1,
        capabilities=None,
    )
    name = Path(search.testbed.hosts or search.testbed.subsystem).stem
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    directory = Path(options["directory"] or f"campaigns/{stamp}-gate-{name}-{options['seed']}")
    chosen = GateChoice(search, options["baseline"], options["baseline_hosts"], under_test, options["false_alarm"])
    return chosen, baseline, directory


def _context(choice: GateChoice, directory: Path, options: dict[str, Any]) -> GateContext:
    search = choice.search
    testbed = search.testbed.arguments()
    return GateContext(
        baseline=choice.baseline,
        candidate=shlex.join(testbed),
        testbed_options=[
            *testbed,
            *(("--space", search.space) if search.space else ()),
            *(("--recipe", search.recipe) if search.recipe else ()),
        ],
        under_test=choice.under_test,
        differences=(),
        campaign=str(directory),
        started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        exit_code=3,
        inconclusive_fails=options["inconclusive"] == _FAIL,
    )


def _write(summary: GateSummary, context: GateContext, options: dict[str, Any]) -> None:
    if options["junit"]:
        from collie.report.ci.junit import write_junit

        write_junit(options["junit"], summary, context)
    if options["markdown"]:
        from collie.report.ci.markdown import write_markdown

        write_markdown(options["markdown"], summary, context)
