"""`collie counters`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from collie import wiring
from collie.app import testbeds
from collie.app.hosts import chosen_hosts
from collie.cli.base import CollieGroup
from collie.cli.complete import content
from collie.cli.options import print_json, testbed_choice, testbed_options
from collie.content import locate
from collie.content.catalogs import load_catalog
from collie.counters.catalog import Catalog, Counter, CounterKind
from collie.counters.unusual import MAX_UNUSUAL
from collie.errors import UsageError
from collie.hosts.watch import CounterRates
from collie.report.json.objects import plain
from collie.report.terminal.summary import styled, terminal_width
from collie.report.terminal.table import table_with_text
from collie.streams import is_unread
from collie.wiring import ADAPTERS
from collie.workloads.units import format_count, format_number

_HEADS = ("counter", "kind", "unit", "width", "refresh", "source", "component", "canonical", "meaning")
_OF_NUMBER = _HEADS.index("source")
"""Number of heads before those that say where a counter comes from."""


@click.group("counters", cls=CollieGroup)
def command() -> None:
    """List or watch the counters of a NIC."""


@command.command("list")
@click.option(
    "--driver",
    metavar="NAME",
    help="Read the catalog of a driver, without a testbed.",
    shell_complete=content(locate.ContentKind.CATALOG),
)
@testbed_options
def list_(driver: str | None, output: str, **options: Any) -> int:
    """List the counters of a testbed's NIC, or of a driver.

    \b
    collie counters list --driver mlx5
    collie counters list --hosts hosts.yaml
    """
    catalog = load_catalog(driver) if driver else testbeds.catalog_of(ADAPTERS, testbed_choice(options))
    if output == "json":
        counters = [_as_json(counter) for counter in catalog.counters]
        print_json({"schema_version": 1, "driver": catalog.driver, "counters": counters})
    else:
        title = Text(f"{catalog.driver}: {format_count(len(catalog.counters), 'counter')}", "bold")
        click.echo(styled([title, *_table(catalog, terminal_width())]))
    return 0


@command.command("watch")
@click.argument("names", metavar="[HOST]...", nargs=-1)
@click.option("--seconds", type=click.FloatRange(min=0.5), default=None, help="Duration.  [default: until Ctrl-C]")
@click.option("--period", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds between lines.")
@click.option("--all", "everything", is_flag=True, help="Also print counters that stand still.")
@testbed_options
def watch(
    names: tuple[str, ...], seconds: float | None, period: float, everything: bool, output: str, **options: Any
) -> int:
    """Show the rate of every HOST's counters under any traffic. Real hosts only. Changes nothing.

    Without a HOST, the whole inventory. A bar shows how unusual a rate is for this host since the command began. A
    pause, diagnostic or error counter that starts to move is unusual at once. --format json prints one object per line,
    for each host and period.

    \b
    collie counters watch --hosts hosts.yaml server-1 --seconds 10
    """
    choice = testbed_choice(options)
    if choice.hosts is None:
        raise UsageError("a simulated subsystem has no traffic to watch; give --hosts, or use `collie measure`")
    started: float | None = None
    try:
        with _display(everything, output) as show:
            for readings in wiring.watch(chosen_hosts(ADAPTERS, choice.hosts, names), period):
                show(readings)
                started = started or time.monotonic()  # the time to connect does not count
                enough = seconds is not None and time.monotonic() - started >= seconds
                if enough or is_unread(sys.stdout):
                    break
    except KeyboardInterrupt:
        return 130
    return 0


Show = Callable[[Sequence[CounterRates]], None]


@contextmanager
def _display(everything: bool, output: str) -> Iterator[Show]:
    console = Console(markup=False, emoji=False)  # a driver without a catalog can have any counter names
    if output == "text" and console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda readings: live.update(Group(*(_rates(one, everything) for one in readings)), refresh=True)
        return

    def show(readings: Sequence[CounterRates]) -> None:
        for reading in readings:
            if output == "json":
                _print_json_of(reading)
            else:
                _print_line_of(reading, everything)

    yield show


def _print_json_of(reading: CounterRates) -> None:
    figures = {"rates_per_second": dict(reading.rates), "unusual": dict(reading.unusual)}
    print_json({"schema_version": 1, "host": reading.host, **figures})


def _print_line_of(reading: CounterRates, everything: bool) -> None:
    displayed = []
    for counter in _shown(reading, everything):
        bar = _bar(reading.unusual.get(counter.name))
        rate = f"{_rate(reading.rates[counter.name])}{_per_second(counter)}"
        displayed.append(f"{counter.name} {rate} [{bar}]" if bar else f"{counter.name} {rate}")
    click.echo(f"{reading.host:12} {'  '.join(displayed) or '(nothing moves)'}")


def _rates(reading: CounterRates, everything: bool) -> Table:
    headings = ("counter", Column("rate", justify="right"), "", "kind", "unusual")
    table = Table(*headings, title=reading.host, title_justify="left", box=None)
    for counter in _shown(reading, everything):
        unusual = reading.unusual.get(counter.name)
        colour = "red" if counter.kind in {CounterKind.ERROR, CounterKind.PAUSE} else "yellow"
        bar = Text(_bar(unusual), colour) if unusual else ""
        rate = _rate(reading.rates[counter.name])
        table.add_row(counter.name, rate, f"{counter.unit}{_per_second(counter)}", counter.kind, bar)
    return table


def _shown(reading: CounterRates, everything: bool) -> list[Counter]:
    return [counter for counter in reading.catalog.counters if everything or reading.rates[counter.name]]


def _rate(rate: float | None) -> str:
    return "unknown" if rate is None else format_number(rate, ",.4g")


def _per_second(counter: Counter) -> str:
    return "" if counter.gauge else "/s"


def _bar(unusual: float | None) -> str:
    """Return a bar of at most ten characters, empty within one deviation."""
    return "#" * round(10 * unusual / MAX_UNUSUAL) if unusual is not None and unusual > 1 else ""


def _table(catalog: Catalog, width: int | None) -> list[str]:
    """Return a line per counter. A terminal too narrow for all figures has the last of them beside the meaning."""
    rows = [_HEADS, *map(_row, catalog.counters)]
    lines = list(table_with_text(rows, width))
    if width is None or max(map(len, lines)) <= width:
        return lines
    short = [
        (*figures[:_OF_NUMBER], f"{', '.join(filter(None, figures[_OF_NUMBER:]))}: {text}") for *figures, text in rows
    ]
    return list(table_with_text(short, width))


def _row(counter: Counter) -> tuple[str, ...]:
    width = "gauge" if counter.gauge else str(counter.width)
    refresh = f"{counter.refresh_seconds:g} s" if counter.refresh_seconds else "at read"
    meaning = counter.meaning + (f" (needs: {counter.availability})" if counter.availability else "")
    place = counter.source, counter.component, counter.canonical or ""
    return counter.name, counter.kind, counter.unit, width, refresh, *place, meaning


def _as_json(counter: Counter) -> dict[str, Any]:
    document = plain(counter)
    absent = {name: None for name in ("canonical", "availability", "link_layer") if not document[name]}
    return {**document, "spelled": counter.key[1], **absent}
