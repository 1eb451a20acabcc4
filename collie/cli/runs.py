"""`collie runs`."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TextIO

import click
from rich.console import Console

from collie.app import inputs, reports
from collie.campaign.phases import with_places
from collie.cli.base import CollieCommand
from collie.cli.named import CAMPAIGN
from collie.cli.options import existing_campaign, output_file, require_writable
from collie.ports import CampaignStore
from collie.report.terminal.runs import run_rows, runs_table, write_csv
from collie.store.codec import dumps
from collie.store.exports import run_line
from collie.wiring import ADAPTERS
from collie.workloads.units import format_count

_SUFFIXES = {f".{form}": form for form in ("json", "jsonl", "csv")}


@click.command("runs", cls=CollieCommand)
@click.argument("campaign", type=CAMPAIGN)
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", *_SUFFIXES.values()]),
    help="A table; one object; an object per line, as in results.jsonl; a spreadsheet.  [default: as FILE ends, "
    "else text]",
)
@click.option("--last", type=click.IntRange(min=1), help="Only the last N runs.  [default: 20 for text, else all]")
@click.option("-o", "--output", "path", metavar="FILE", help="Output file.  [default: standard output]")
def command(campaign: str, output: str | None, last: int | None, path: str | None) -> int:
    """List the runs of a campaign, even while it runs: workload, measurement and verdict.

    \b
    collie runs campaigns/one
    collie runs campaigns/one -o runs.csv
    collie runs campaigns/one --format jsonl | jq .verdict.outcome
    """
    directory = existing_campaign(campaign)
    require_writable("-o", Path(path) if path else None)
    output = output or _SUFFIXES.get(Path(path or "").suffix.lower(), "text")
    with ADAPTERS.records.read(directory) as store, _target(path) as file:
        skipped = max(0, store.tally().runs - last) if last else 0
        if output in {"json", "jsonl"}:
            placed = with_places(store.runs(with_series=False))
            lines = (dumps(run_line(record, place)) for record, place in islice(placed, skipped, None))
            _write_json(lines, store, file, one=output == "json")
            return 0
        rows = run_rows(store, inputs.narrowed_space_of(ADAPTERS, reports.recorded_choice(ADAPTERS, directory)))
        if output == "csv":
            write_csv(islice(rows, skipped, None), file)
        else:
            console = Console(file=file, markup=False, emoji=False, highlight=False, soft_wrap=True)
            shown = deque(rows, last or 20)
            for line in runs_table(shown, console.width if file.isatty() else None):
                console.print(line)
            if len(shown) < (runs := store.tally().runs):
                console.print(f"the last {len(shown)} of {format_count(runs, 'run')}")
    return 0


@contextmanager
def _target(path: str | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    # Only the owner may read the file: the cause of a lost host contains its address.
    with output_file(Path(path)) as file, TextIOWrapper(file, encoding="utf-8", newline="") as text:
        yield text


def _write_json(lines: Iterator[str], store: CampaignStore, file: TextIO, *, one: bool) -> None:
    if one:
        file.write(f'{{"schema_version":1,"campaign":{dumps(store.header.campaign)},"runs":[')
        file.writelines(line if number == 0 else f",{line}" for number, line in enumerate(lines))
        file.write("]}\n")
    else:
        file.writelines(f"{line}\n" for line in lines)
