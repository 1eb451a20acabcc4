"""`collie report`."""

from __future__ import annotations

from pathlib import Path

import click

from collie import wiring
from collie.cli.options import existing_campaign, format_option, print_json


@click.command("report")
@click.argument("campaign")
@click.option("-o", "--output", "path", metavar="FILE", help="Where to write it.  [default: CAMPAIGN/report.html]")
@format_option
def command(campaign: str, path: str | None, output: str) -> int:
    """Write the HTML report of a campaign, also while it runs: one file that opens offline."""
    directory = existing_campaign(campaign)
    with wiring.read_campaign(directory) as store:
        written = wiring.write_report(store, Path(path) if path else directory / "report.html")
    if output == "json":
        print_json({"schema_version": 1, "campaign": store.header.campaign, "report": str(written)})
    else:
        click.echo(written)
    return 0
