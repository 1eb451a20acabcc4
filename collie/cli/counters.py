"""`collie counters`."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from collie import wiring
from collie.cli.options import print_json, testbed_choice, testbed_options
from collie.content.catalogs import load_catalog
from collie.counters.catalog import Catalog, Counter
from collie.errors import UsageError
from collie.hosts.watch import Reading


@click.group("counters")
def command() -> None:
    """List or watch what a NIC tells."""


@command.command("list")
@click.option("--driver", metavar="NAME", help="Read the catalog of a driver, without any testbed.")
@testbed_options
def list_(driver: str | None, output: str, **options: Any) -> int:
    """List the counters of a testbed's NIC, or of a driver."""
    catalog = load_catalog(driver) if driver else wiring.catalog_of(testbed_choice(options))
    if output == "json":
        print_json(
            {
                "schema_version": 1,
                "driver": catalog.driver,
                "counters": [_as_json(counter) for counter in catalog.counters],
            }
        )
    else:
        Console().print(_table(catalog))
    return 0


@command.command("watch")
@click.option("--seconds", type=click.FloatRange(min=0.5), default=None, help="How long.  [default: until Ctrl-C]")
@click.option("--period", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds between lines.")
@click.option("--all", "everything", is_flag=True, help="Also print counters that stand still.")
@testbed_options
def watch(seconds: float | None, period: float, everything: bool, output: str, **options: Any) -> int:
    """Print how fast the counters of every host move, whatever traffic there is. Real hosts only; changes nothing.

    With --format json: one object per host and period, a line each.
    """
    choice = testbed_choice(options)
    if choice.hosts is None:
        raise UsageError("a simulated subsystem carries no traffic of its own; give --hosts, or use `collie measure`")
    started: float | None = None
    try:
        for readings in wiring.watch(choice.hosts, period):
            for reading in readings:
                _show(reading, everything, output)
            started = started or time.monotonic()  # connecting is not watching
            if seconds is not None and time.monotonic() - started >= seconds:
                break
    except KeyboardInterrupt:
        return 130
    return 0


def _show(reading: Reading, everything: bool, output: str) -> None:
    if output == "json":
        print_json({"schema_version": 1, "host": reading.host, "rates_per_second": dict(reading.rates)})
        return
    moving = {name: rate for name, rate in reading.rates.items() if everything or rate}
    shown = "  ".join(f"{name} {'unknown' if rate is None else f'{rate:.4g}'}/s" for name, rate in moving.items())
    click.echo(f"{reading.host:12} {shown or '(nothing moves)'}")


def _table(catalog: Catalog) -> Table:
    table = Table(title=f"{catalog.driver}: {len(catalog.counters)} counters", title_justify="left", box=None)
    for heading in ("counter", "kind", "unit", "width", "source", "component", "meaning"):
        table.add_column(heading)
    for counter in catalog.counters:
        width = "gauge" if counter.gauge else str(counter.width)
        table.add_row(
            counter.name, counter.kind, counter.unit, width, counter.source, counter.component, counter.meaning
        )
    return table


def _as_json(counter: Counter) -> dict[str, Any]:
    return {
        "name": counter.name,
        "kind": counter.kind.value,
        "unit": counter.unit.value,
        "width_bits": counter.width,
        "gauge": counter.gauge,
        "source": counter.source,
        "component": counter.component,
        "role": counter.role.value if counter.role else None,
        "refresh_seconds": counter.refresh_seconds,
        "meaning": counter.meaning,
    }
