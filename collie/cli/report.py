"""`collie report`."""

from __future__ import annotations

from pathlib import Path

import click

from collie import wiring
from collie.cli.options import existing_campaign


@click.command("report")
@click.argument("campaign")
@click.option("-o", "--output", "path", metavar="FILE", help="Where to write it.  [default: CAMPAIGN/report.html]")
def command(campaign: str, path: str | None) -> int:
    """Write the HTML report of a campaign, also while it runs: one file that opens offline."""
    directory = existing_campaign(campaign)
    with wiring.read_campaign(directory) as store:
        click.echo(wiring.write_report(store, Path(path) if path else directory / "report.html"))
    return 0
