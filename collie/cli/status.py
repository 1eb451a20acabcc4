"""`collie status`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import click

from collie.app.status import CampaignStatus, Life, lost_words, status as campaign_status, write_status_metrics
from collie.campaign.progress import CampaignProgress
from collie.cli.base import CollieCommand
from collie.cli.named import CAMPAIGN
from collie.cli.options import existing_campaign, format_option, go_on, print_json, textfile
from collie.errors import UsageError
from collie.report.quantities import name_testbed, percent
from collie.report.terminal.progress import doing, found, hosts, pace, set_aside, time_left
from collie.report.terminal.summary import styled
from collie.wiring import ADAPTERS
from collie.workloads.units import format_count, format_number, format_seconds

_BROKEN = {Life.DIED, Life.FAILED}
_ENDED = {
    "budget": "its budget is spent",
    "pause budget": "its pause budget is spent",
    "coverage": "known anomalies cover the space",
}


@click.command("status", cls=CollieCommand)
@click.argument("campaign", type=CAMPAIGN)
@click.option("--prometheus", metavar="FILE.prom", help="Also write a textfile for node_exporter.")
@format_option
def command(campaign: str, prometheus: str | None, output: str) -> int:
    """Show the state of a campaign from another terminal or machine: running, ended or dead, and its anomalies.

    Reads only. A process is dead when its status is older than half a minute and it never reported its end. If it ran
    on this machine and is gone, 6 s suffice. `collie search --resume` continues. Exits 3 when the campaign is dead or
    failed.

    \b
    collie status campaigns/one
    watch collie status campaigns/one
    collie status campaigns/one --format json
    """
    directory = existing_campaign(campaign)
    target = textfile(prometheus)
    status = campaign_status(ADAPTERS, directory)
    if target is not None:
        try:
            write_status_metrics(ADAPTERS, status, target)
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error.strerror}") from None
    if output == "json":
        print_json(_as_json(status))
    else:
        click.echo(styled(_lines(status)))
    return 3 if status.life in _BROKEN else 0


def _lines(status: CampaignStatus) -> Iterator[str]:
    header, standing = status.header, status.standing
    running = status.life is Life.RUNNING
    yield f"{status.directory}: {_life(status)}"
    budget = f", {percent(standing.budget_ratio)} of {standing.budget}" if standing.budget else ""
    for name, text in (
        ("damage", status.damage),
        ("answer", status.answer and f"gate {status.answer}"),
        ("on", f"{name_testbed(header)}, space {header.space}, recipe {header.recipe}, seed {header.seed}"),
        ("runs", _runs(status)),
        ("phases", _phases(standing)),
        ("lost", lost_words(status.lost_runs)),
        ("time", f"{format_seconds(status.elapsed_seconds)} of testbed time{budget}"),
        ("pace", "; ".join(filter(None, (pace(standing), time_left(standing)))) if running else ""),
        ("now", doing(standing) if running else ""),
        ("hosts", hosts(standing)),
        ("aside", set_aside(standing)),
        ("found", found(standing, ended=status.life is Life.ENDED)),
        ("error" if status.life is Life.FAILED else "failed", _error(status)),
        ("go on", _go_on(status)),
    ):
        if text:
            yield f"  {name:6} {text}"
    for anomaly in status.anomalies:
        if anomaly.same_as is None:
            yield f"    {anomaly.id:4} {anomaly.sentence}"


def _runs(status: CampaignStatus) -> str:
    standing, baseline = status.standing, status.baseline
    if baseline is None:
        return f"{standing.runs:,}, {standing.failed_runs:,} of them failed"
    failed = standing.failed_runs + baseline.failed_runs
    return f"{standing.runs:,} of the candidate and {baseline.runs:,} of the baseline, {failed:,} of them failed"


def _phases(standing: CampaignProgress) -> str:
    if not standing.further_phases:
        return ""
    per_set_up = format_number(standing.runs / standing.set_ups, ".1f")
    return f"{per_set_up} runs on each of {format_count(standing.set_ups, 'set-up')}"


def _life(status: CampaignStatus) -> str:
    heartbeat = status.heartbeat
    if heartbeat is None or status.silent_seconds is None:
        return f"state unknown: status.json is {'damaged' if status.damage else 'missing'}"
    process = f"process {heartbeat.pid} on {heartbeat.machine}"
    ago = f"{format_seconds(round(status.silent_seconds))} ago"
    match status.life:
        case Life.RUNNING:
            return f"running: {process}, last sign of life {ago}"
        case Life.DIED:
            return f"died: {process} gave its last sign of life {ago} and reported no end"
        case Life.ENDED:
            return f"ended {ago}: {_ENDED.get(str(heartbeat.ended_by), heartbeat.ended_by)}"
        case Life.INTERRUPTED:
            return f"interrupted {ago}"
        case _:
            return f"failed {ago}"


def _error(status: CampaignStatus) -> str:
    if status.life is Life.FAILED and status.heartbeat:
        return str(status.heartbeat.error)
    last = status.standing.last_failure
    return f"last in run {last.run}: {last.message}" if last else ""


def _go_on(status: CampaignStatus) -> str:
    if status.life not in {*_BROKEN, Life.INTERRUPTED}:
        return ""
    settings = status.header.settings
    return go_on("gate" if status.is_gate else "search", status.directory, settings.get("scheduler"))


def _as_json(status: CampaignStatus) -> dict[str, Any]:
    header, heartbeat = status.header, status.heartbeat
    figures = dataclasses.asdict(status.standing)
    del figures["anomalies"]
    return {
        "schema_version": 1,
        "campaign": header.campaign,
        "directory": str(status.directory),
        "state": status.life.value,
        "silent_seconds": status.silent_seconds,
        "process": {"machine": heartbeat.machine, "pid": heartbeat.pid, "began": heartbeat.began}
        if heartbeat
        else None,
        "lost_runs": status.lost_runs,
        "answer": status.answer,
        "ended_by": heartbeat.ended_by if heartbeat else None,
        "error": heartbeat.error if heartbeat else status.damage or None,
        "testbed": dict(header.testbed),
        "space": header.space,
        "recipe": header.recipe,
        "seed": header.seed,
        "started": header.started,
        "set_ups": status.standing.set_ups,
        **figures,
        "baseline_runs": status.baseline.runs if status.baseline else None,
        "elapsed_seconds": status.elapsed_seconds,
        "anomalies": [
            {
                "id": anomaly.id,
                "symptom": anomaly.symptom.value,
                "severity": anomaly.severity,
                "found_at_run": anomaly.found_at_run,
                "found_at_seconds": anomaly.found_at_seconds,
                "explained": anomaly.complete,
                "same_as": anomaly.same_as,
                "sentence": anomaly.sentence,
            }
            for anomaly in status.anomalies
        ],
    }
