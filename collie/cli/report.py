"""`collie report`."""

from __future__ import annotations

from pathlib import Path

import click

from collie.app import reports
from collie.cli.base import CollieCommand
from collie.cli.named import CAMPAIGN
from collie.cli.options import existing_campaign, format_option, print_json, require_writable
from collie.wiring import ADAPTERS


@click.command("report", cls=CollieCommand)
@click.argument("campaign", type=CAMPAIGN)
@click.option(
    "--against",
    metavar="CAMPAIGN",
    help="Compare with another campaign: anomalies of one, and of both.",
    type=CAMPAIGN,
)
@click.option(
    "-o",
    "--output",
    "path",
    metavar="FILE",
    help="Output file.  [default: CAMPAIGN/report.html, or CAMPAIGN/against-OTHER.html]",
)
@format_option
def command(campaign: str, against: str | None, path: str | None, output: str) -> int:
    """Write the HTML report of a campaign, even while it runs: one file that opens offline.

    \b
    collie report campaigns/one -o one.html
    collie report campaigns/new-firmware --against campaigns/old-firmware
    """
    directory = existing_campaign(campaign)
    wanted = Path(path) if path else None
    require_writable("-o", wanted)
    reported: dict[str, object] = {}
    if against is None:
        with ADAPTERS.records.read(directory) as store:
            written = reports.write_report(ADAPTERS, store, wanted)
    else:
        other = existing_campaign(against)
        with ADAPTERS.records.read(directory) as store, ADAPTERS.records.read(other) as there:
            written, same = reports.write_comparison(ADAPTERS, store, there, wanted)
        reported = {"against": there.header.campaign, "same_testbed": same}
        if not same:
            click.echo(
                "collie: the campaigns are not known to be of one testbed; the page lists the differences", err=True
            )
    if output == "json":
        print_json({"schema_version": 1, "campaign": store.header.campaign, **reported, "report": str(written)})
    else:
        click.echo(written)
    return 0
