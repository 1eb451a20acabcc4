"""`collie list`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from collie.app.listing import Listed, list_campaigns
from collie.app.status import CampaignStatus
from collie.cli.base import CollieCommand
from collie.cli.options import format_option, print_json
from collie.errors import UsageError
from collie.report.quantities import name_testbed
from collie.report.terminal.summary import terminal_width
from collie.report.terminal.table import table_with_text
from collie.search.anomaly import causes_of
from collie.wiring import ADAPTERS
from collie.workloads.units import format_seconds

_HEADS = ("campaign", "began", "state", "on", "runs", "time", "findings")


@click.command("list", cls=CollieCommand)
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@format_option
def command(folder: Path, output: str) -> int:
    """List the campaigns below a folder, the earliest first: what, when, state and findings.

    The runs of a gate are those of the candidate and, after a plus, of the baseline. Its time is that of both.

    Reads only. Wherever a command takes a campaign, `last` stands for the search that recorded a run last. A gate is no
    search.

    \b
    collie list
    collie list /srv/collie --format json
    collie status last
    collie reproduce last/a1
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    listed = list_campaigns(ADAPTERS, folder)
    if output == "json":
        print_json({"schema_version": 1, "campaigns": [_as_json(each) for each in listed]})
    elif not listed:
        click.echo(f"no campaign below {folder}; begin one with: collie search --budget 1h")
    else:
        click.echo("\n".join(_table(listed, terminal_width())))
    return 0


def _table(listed: list[Listed], width: int | None) -> Iterator[str]:
    rows = [_row(each.directory, each.status) for each in listed if each.status is not None]
    if rows:
        yield from table_with_text([_HEADS, *rows], width)
    yield from (f"{each.directory}: {each.error}" for each in listed if each.status is None)


def _row(directory: Path, status: CampaignStatus) -> tuple[str, ...]:
    header, standing = status.header, status.standing
    began = header.started.replace("T", " ").removesuffix("Z")[:16]
    return (
        str(directory),
        began,
        status.life.value,
        name_testbed(header),
        f"{standing.runs:,}" + (f" + {status.baseline.runs:,}" if status.baseline else ""),
        format_seconds(status.elapsed_seconds),
        _findings(status),
    )


def _findings(status: CampaignStatus) -> str:
    if status.is_gate:
        return f"gate {status.answer}" if status.answer else "gate, no answer on record"
    causes = [anomaly for anomaly, _ in causes_of(status.anomalies)]
    if not causes:
        return "none"
    explained = sum(anomaly.complete for anomaly in causes)
    worst = max(causes, key=lambda anomaly: anomaly.severity)
    return f"{len(causes)}, {explained} explained; worst {worst.id}: {worst.symptom.words}, {worst.figure}"


def _as_json(each: Listed) -> dict[str, Any]:
    if each.status is None:
        return {"directory": str(each.directory), "error": each.error}
    header, standing = each.status.header, each.status.standing
    causes = [anomaly for anomaly, _ in causes_of(each.status.anomalies)]
    return {
        "directory": str(each.directory),
        "campaign": header.campaign,
        "started": header.started,
        "state": each.status.life.value,
        "testbed": dict(header.testbed),
        "space": header.space,
        "recipe": header.recipe,
        "seed": header.seed,
        "runs": standing.runs,
        "baseline_runs": each.status.baseline.runs if each.status.baseline else None,
        "elapsed_seconds": each.status.elapsed_seconds,
        "anomalies": len(causes),
        "explained": sum(anomaly.complete for anomaly in causes),
        "answer": each.status.answer,
        "worst": max((anomaly.severity for anomaly in causes), default=None),
    }
