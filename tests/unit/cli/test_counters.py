"""What a person sees of counters."""

from __future__ import annotations

import io
import json

import pytest
from click.testing import CliRunner
from rich.console import Console

from collie.cli.counters import _print_json_of, _print_line_of, _rates, _table, command
from collie.content.catalogs import load_catalog
from collie.counters.catalog import Catalog, Counter, CounterKind, Unit
from collie.counters.unusual import MAX_UNUSUAL
from collie.hosts.watch import CounterRates

CATALOG = Catalog(
    "some",
    (
        Counter("packets", "model", Unit.PACKETS, CounterKind.PERFORMANCE, "wire"),
        Counter("pause", "model", Unit.MICROSECONDS, CounterKind.PAUSE, "wire"),
        Counter("stalled", "model", Unit.PERCENT, CounterKind.DIAGNOSTIC, "pcie", gauge=True),
        Counter("still", "model", Unit.EVENTS, CounterKind.ERROR, "wire"),
        Counter("hidden", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "wire"),
    ),
)
READING = CounterRates(
    "left",
    {"packets": 123456.0, "pause": 20.0, "stalled": 12.0, "still": 0.0, "hidden": None},
    {"packets": 0.3, "pause": MAX_UNUSUAL, "stalled": 5.0, "still": 0.0, "hidden": None},
    CATALOG,
)


def table(everything: bool) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(_rates(READING, everything))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_terminal_shows_what_moves_with_a_bar_for_what_is_unusual() -> None:
    lines = {line.split()[0]: line.split() for line in table(everything=False).splitlines()[2:]}
    assert lines["packets"] == ["packets", "1.235e+05", "packets/s", "perf"]
    assert lines["pause"] == ["pause", "20", "us/s", "pause", "#" * 10]
    assert lines["stalled"] == ["stalled", "12", "percent", "diag", "#" * 5]
    assert set(lines) == {"packets", "pause", "stalled"}


def test_everything_can_be_shown_and_unknown_is_no_zero() -> None:
    lines = {line.split()[0]: line.split() for line in table(everything=True).splitlines()[2:]}
    assert lines["hidden"][1] == "unknown"
    assert lines["still"][1] == "0"


def test_without_a_terminal_each_host_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    _print_line_of(READING, everything=False)
    assert capsys.readouterr().out == (
        "left         packets 1.235e+05/s  pause 20/s [##########]  stalled 12 [#####]\n"
    )


def test_json_has_rates_and_how_unusual_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    _print_json_of(READING)
    displayed = json.loads(capsys.readouterr().out)
    assert displayed["host"] == "left"
    assert displayed["rates_per_second"]["hidden"] is None
    assert displayed["unusual"]["pause"] == MAX_UNUSUAL


def test_a_catalog_is_listed_whole_by_the_name_of_a_kernel_driver() -> None:
    done = CliRunner().invoke(command, ["list", "--driver", "bnxt_en", "--format", "json"])
    listed = json.loads(done.output)
    assert listed["driver"] == "bnxt_re"
    by_name = {counter["name"]: counter for counter in listed["counters"]}
    assert by_name["port_rx_bytes"]["spelled"] == "rx_bytes"
    pause = by_name["pfc_pri3_tx_duration_us"]
    assert (pause["canonical"], pause["refresh_seconds"]) == ("tx_pause_us_prio3", 1.0)
    assert pause["availability"] == "firmware with extended port statistics"


def test_a_piped_catalog_has_a_line_for_each_counter_without_trailing_blanks() -> None:
    lines = CliRunner().invoke(command, ["list", "--driver", "mlx5"]).output.splitlines()
    catalog = load_catalog("mlx5")
    assert lines[0] == f"mlx5: {len(catalog.counters)} counters"
    assert [line.split()[0] for line in lines[1:]] == ["counter", *(counter.name for counter in catalog.counters)]
    assert lines == [line.rstrip() for line in lines]


@pytest.mark.parametrize("driver", ["mlx5", "simulated"])
def test_a_narrow_terminal_has_the_meaning_below_its_counter(driver: str) -> None:
    catalog = load_catalog(driver)
    lines = _table(catalog, 80)
    assert max(map(len, lines)) <= 80
    assert lines[:2] == [lines[0], "    source, component, canonical: meaning"]
    assert lines[0].split() == ["counter", "kind", "unit", "width", "refresh"]
    first = catalog.counters[0]
    assert lines[2].split() == [first.name, first.kind, first.unit, str(first.width), "at", "read"]
    place = ", ".join(filter(None, (first.source, first.component, first.canonical)))
    assert lines[3] == f"    {place}: {first.meaning}"
