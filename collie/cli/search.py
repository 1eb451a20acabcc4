"""`collie search`."""

from __future__ import annotations

import dataclasses
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from collie import wiring
from collie.app import campaigns, plans, reports
from collie.app.inputs import narrowed_space_of, recipe_of
from collie.app.inventories import LAB
from collie.app.status import lost_words
from collie.campaign.choice import MAX_PAIRS, SearchChoice
from collie.campaign.run import CampaignInterrupted
from collie.campaign.safety import SafetyRecord, replaced
from collie.campaign.summary import Summary
from collie.cli import complete
from collie.cli.base import INTERRUPTED, CollieCommand, print_error
from collie.cli.logs import logged_to
from collie.cli.named import CAMPAIGN, KNOWN, NEW_DIRECTORY
from collie.cli.options import (
    SAFETY_PARAMETERS,
    existing_campaign,
    go_on,
    print_json,
    print_safety,
    refuse_fixed,
    run_options,
    safety_limits,
    space_options,
    testbed_choice,
    textfile,
)
from collie.cli.progress import ConsoleProgress
from collie.content.locate import ContentKind
from collie.detect.measurement import Victim
from collie.detect.thresholds import Loss
from collie.errors import StoreError, StoreUnwritable, TestbedError, UsageError
from collie.ports import Measured
from collie.report.json.objects import render_search
from collie.report.representative_runs import quoted_run, victim_in
from collie.report.terminal.findings import next_steps
from collie.report.terminal.plan import render_plan
from collie.report.terminal.summary import render_summary
from collie.search.anomaly import causes_of
from collie.wiring import ADAPTERS
from collie.workloads.units import format_count


@click.command("search", cls=CollieCommand)
@space_options
@click.option(
    "--known",
    metavar="CAMPAIGN|nsdi22",
    help="Known anomalies: a campaign's are skipped, or tested first on another testbed. nsdi22 is tested first.",
    type=KNOWN,
)
@click.option(
    "--recipe",
    metavar="NAME|FILE",
    help="Recipe of the search.  [default: guided; with --hosts: hosts, or soft-roce for devices rxe*]",
    shell_complete=complete.content(ContentKind.RECIPE),
)
@click.option(
    "--budget",
    metavar="10h|45m|800runs",
    help="Budget: a time, or a number of runs. Each phase of a set-up is a run.  [default: the recipe's]",
)
@click.option(
    "--phases",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Limit on the search's proposals on one set-up; with 1, each run has a set-up, as in the paper.  "
    "[default: the recipe's]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice.")
@click.option(
    "--pairs", type=click.IntRange(1, MAX_PAIRS), default=1, show_default=True, help="Pairs that measure at once."
)
@click.option(
    "--scheduler",
    metavar="ADDRESS|none",
    help="Dask scheduler whose workers drive the pairs, such as tcp://HOST:8786. Give it again with --resume.",
)
@click.option(
    "--campaign",
    "directory",
    type=NEW_DIRECTORY,
    metavar="DIR",
    help="Directory of the record.  [default: campaigns/TIME-NAME-SEED]",
)
@click.option(
    "--resume",
    metavar="DIR",
    help="Resume an interrupted campaign. --budget sets another total, --subsystem the path of a moved file.",
    type=CAMPAIGN,
)
@click.option("--accept-changes", is_flag=True, help="With --resume: resume although the hosts have changed.")
@click.option("--score", is_flag=True, help="Simulator only: compare the anomalies with the planted mechanisms.")
@click.option("--prometheus", metavar="FILE.prom", help="Textfile for node_exporter, kept up to date.")
@click.option("--dry-run", is_flag=True, help="Print the plan and run nothing.")
@run_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Search a space of workloads for anomalies. Confirm each one and explain it by its minimal feature set.

    \b
    collie search --subsystem F --budget 10h --seed 1
    collie search --hosts lab --space soft-roce --budget 20m
    collie search --hosts rack.yaml --pairs 8 --budget 2h
    collie search --hosts rack.yaml --pairs 32 --scheduler tls://controller:8786
    collie search --resume campaigns/20261120T101500Z-F-1
    collie search --budget 10h --prometheus /var/lib/node_exporter/collie.prom
    """
    return run_search(ctx, options)


def run_search(ctx: click.Context, options: dict[str, Any]) -> int:
    """Begin or resume the search that the options of `collie search` describe, and print its findings."""
    choice, directory = _choice(ctx, options)
    textfile(options["prometheus"])
    if options["score"] and not choice.testbed.is_simulated:
        raise UsageError("--score compares with the planted mechanisms of a simulated subsystem; real hosts have none")
    if options["score"] and recipe_of(ADAPTERS, choice.testbed, choice.recipe).thresholds.loss_of is Loss.OF_VICTIM:
        reason = (
            "it compares what slows down the workload, and a recipe with `loss_of: victim` finds what holds up others"
        )
        raise UsageError(f"--score: {reason}")
    if options["dry_run"]:
        return _dry_run(choice, options["output"], resumed=bool(options["resume"]))
    opened = _open(choice, directory, options)
    try:
        code = _search(opened, directory, options)
    finally:
        try:
            left_behind = print_safety(opened.release())  # even if the record cannot be closed
        finally:
            with suppress(StoreError):  # `_search` closes it, too, and reports the failure
                opened.close()
    return 3 if left_behind else code


def _open(choice: SearchChoice, directory: Path, options: dict[str, Any]) -> campaigns.OpenCampaign:
    if not options["resume"]:
        return campaigns.begin(ADAPTERS, choice, directory)
    return campaigns.resume(
        ADAPTERS,
        directory,
        options["budget"],
        subsystem=options["subsystem"],
        scheduler=options["scheduler"],
        safety=safety_limits(options),
        shared_port=options["shared_port"],
        accept_changes=options["accept_changes"],
    )


def _search(opened: campaigns.OpenCampaign, directory: Path, options: dict[str, Any]) -> int:
    started, as_json = time.monotonic(), options["output"] == "json"
    resume = go_on("search", directory, opened.store.header.settings.get("scheduler"))
    if opened.lost_runs:
        click.echo(lost_words(opened.lost_runs), err=True)
    try:
        interrupted = False
        with logged_to(opened.store.directory.log), ConsoleProgress() as progress:
            try:
                summary = opened.run(progress, textfile(options["prometheus"]))
            except CampaignInterrupted as stopped:
                summary, interrupted = stopped.summary, True
            safety = opened.release()
        code = _finish(opened, summary, safety, time.monotonic() - started, directory, options, interrupted=interrupted)
        opened.close()
        if interrupted:
            print_error(f"interrupted; resume with: {resume}", INTERRUPTED, as_json=as_json)
        return INTERRUPTED if interrupted else code
    except (TestbedError, StoreUnwritable) as error:
        text = f"{error}\nAll measurements are kept; resume with: {resume}"
        print_error(text, error.exit_code, as_json=as_json)
        return error.exit_code
    except KeyboardInterrupt:
        print_error(f"interrupted; resume with: {resume}", INTERRUPTED, as_json=as_json)
        return INTERRUPTED


def _choice(ctx: click.Context, options: dict[str, Any]) -> tuple[SearchChoice, Path]:
    if options["resume"]:
        refuse_fixed(ctx, _FREE_ON_RESUME)
        directory = existing_campaign(options["resume"])
        choice = reports.recorded_choice(ADAPTERS, directory)
        safety = replaced(choice.safety, safety_limits(options))
        scheduler = campaigns.chosen_scheduler(directory, choice.scheduler, options["scheduler"])
        testbed = campaigns.resumed_testbed(choice.testbed, options["subsystem"])
        budget = options["budget"] or choice.budget
        choice = dataclasses.replace(choice, testbed=testbed, budget=budget, safety=safety, scheduler=scheduler)
        return choice, directory
    if options["accept_changes"]:
        raise UsageError("--accept-changes needs a campaign to resume; give it with --resume")
    testbed = testbed_choice(options)
    choice = SearchChoice(
        testbed,
        options["space"],
        options["recipe"],
        options["fixes"],
        options["limits"],
        options["known"],
        options["budget"],
        options["seed"],
        safety_limits(options),
        options["shared_port"],
        options["pairs"],
        None if options["scheduler"] == campaigns.NO_SCHEDULER else options["scheduler"],
        phases=options["phases"],
    )
    name = "lab" if (options["hosts"] or "").lower() == LAB else Path(options["hosts"] or testbed.subsystem).stem
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return choice, Path(options["directory"] or f"campaigns/{stamp}-{name}-{options['seed']}")


def _victims(opened: campaigns.OpenCampaign, summary: Summary) -> dict[str, Victim]:
    """Return the victim beside the run of each anomaly, by id."""
    records = list(opened.store.runs(with_series=False))
    found = ((each.id, victim_in(quoted_run(each, records))) for each in summary.anomalies)
    return {name: victim for name, victim in found if victim is not None}


def _exhausted(opened: campaigns.OpenCampaign) -> bool:
    records = opened.store.runs(with_series=False)
    return opened.campaign.space.exhausted_by(each.workload for each in records if isinstance(each.result, Measured))


_FREE_ON_RESUME = SAFETY_PARAMETERS | {
    *("resume", "accept_changes", "budget", "subsystem", "scheduler", "score", "dry_run", "prometheus", "output")
}


def _dry_run(choice: SearchChoice, output: str, *, resumed: bool) -> int:
    plan = plans.describe(ADAPTERS, choice, resumed=resumed)
    if output == "json":
        print_json(plan)
    else:
        click.echo(render_plan(plan))
    return 0


def _finish(
    opened: campaigns.OpenCampaign,
    summary: Summary,
    safety: SafetyRecord | None,
    wall_seconds: float,
    directory: Path,
    options: dict[str, Any],
    *,
    interrupted: bool,
) -> int:
    score = None
    if options["score"]:
        truth = wiring.ground_truth(opened.choice.testbed)
        score = truth.score(narrowed_space_of(ADAPTERS, opened.choice), summary.anomalies)
    report = reports.write_report(ADAPTERS, opened.store, wall_seconds=wall_seconds)
    if options["output"] == "json":
        print_json(render_search(opened.store.header, summary, wall_seconds, score, safety, opened.campaign.dropped))
    else:
        victims = _victims(opened, summary) if opened.choice.testbed.victim else None
        click.echo(render_summary(opened.store.header, summary, wall_seconds, score, victims))
        stopped = safety.stopped_runs if safety else 0
        if hidden := 2 * stopped >= max(1, summary.measured_runs):
            click.echo(
                f"\nstopped at a safety limit: {stopped} of {format_count(summary.measured_runs, 'measured run')}. "
                "Only pause is judged in such a run, and higher limits find what that hides."
            )
        click.echo(f"\nrecord  {directory}\nreport  {report}\n\nnext")
        causes = [anomaly for anomaly, _ in causes_of(summary.anomalies)]
        resume = go_on("search", directory, opened.store.header.settings.get("scheduler"))
        spent = summary.ended_by == "budget" and summary.measured_runs > 0 and not hidden and not _exhausted(opened)
        campaign = opened.campaign
        steps = next_steps(
            directory,
            causes,
            report,
            resume,
            interrupted=interrupted,
            budget=campaign.budget,
            spent=spent,
            explains=campaign.recipe.explain,
        )
        click.echo("\n".join(steps))
    if summary.runs and not summary.measured_runs:
        failed = summary.failed_runs
        cause = max(failed, key=failed.__getitem__) if failed else "the device cannot run the workloads"
        text = f"none of {summary.runs} runs could be measured; main cause: {cause}"
        print_error(text, 3, as_json=options["output"] == "json")
        return 3
    return 0 if summary.runs else 5
