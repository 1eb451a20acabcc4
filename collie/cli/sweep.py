"""`collie sweep`."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click

from collie.app import cases, inputs
from collie.app.sweeps import SweepChoice, SweepRecord, Swept, as_json, read_sweep, run_sweep
from collie.campaign.choice import SearchChoice
from collie.cli import complete
from collie.cli.base import INTERRUPTED, CollieCommand, print_error
from collie.cli.named import ANOMALY
from collie.cli.options import (
    output_file,
    print_json,
    print_safety,
    require_writable,
)
from collie.cli.progress import ConsoleProgress
from collie.cli.rerun import fixed_values, fixes_option, perftest_option, rerun_choice, rerun_options
from collie.errors import UsageError
from collie.report.csv_cells import csv_cell
from collie.report.terminal import sweep as words
from collie.wiring import ADAPTERS
from collie.workloads.sweep import axis_name

_FIGURES = (".svg", ".png")
_SUFFIXES = (*_FIGURES, ".html", ".csv", ".json")


@click.command("sweep", cls=CollieCommand)
@click.option(
    "--x",
    metavar="DIM[=LOW..HIGH|=V1,V2]",
    required=True,
    help="Dimension along the curve.",
    shell_complete=complete.dimensions("="),
)
@click.option(
    "--y",
    metavar="DIM[=LOW..HIGH|=V1,V2]",
    help="A curve for each of its values; a map from nine on.",
    shell_complete=complete.dimensions("="),
)
@click.option("--workload", "name", metavar="WORKLOAD", type=ANOMALY, help="What the axes vary.  [default: plain]")
@perftest_option
@fixes_option
@click.option(
    "--halvings",
    type=click.IntRange(0, 12),
    default=3,
    show_default=True,
    help="How often the place of a cliff is halved.",
)
@click.option(
    "-o",
    "paths",
    multiple=True,
    metavar="FILE",
    help=f"Output: {', '.join(_SUFFIXES)}. Repeatable. The .json is always written.  [default: sweep-X-Y.svg]",
)
@click.option("--resume", is_flag=True, help="Do not repeat the points that the .json has.")
@click.option("--against", metavar="FILE.json", help="Draw another sweep over the same dimensions behind this one.")
@rerun_options("dimensions and plain values")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Measure a workload along one or two dimensions: curves or a map, with the cliffs marked and their places refined.

    LOW..HIGH stands for the steps of the ladder between them. `message_bytes` is the size of all messages. Points that
    fit one set-up are its phases. Memory regions grow with the messages and queues with the batch, unless they are
    fixed or an axis. The .json keeps every point, so an interrupted sweep goes on with --resume.

    \b
    collie sweep --x message_bytes=64..4MiB
    collie sweep --x qps=1..16384 --y opcode=WRITE,READ --fix message_bytes=512 -o qps.png -o qps.csv
    collie sweep --x qps --workload nsdi22-07 --hosts my-hosts.yaml -o now.html --against before.json
    """
    if options["name"] is not None and options["line"] is not None:
        raise UsageError("give --workload or --perftest, not both")
    paths = _paths(options)
    against = _against(options, paths)
    record = next((path for path in paths if path.suffix.lower() == ".json"), paths[0].with_suffix(".json"))
    earlier = _earlier(record, options)
    given = cases.workload_given(ADAPTERS, options["name"], options["line"])
    choice = rerun_choice(given.choice or SearchChoice(), ctx)
    fixes = fixed_values(options["fixes"])
    base = given.load(inputs.narrowed_space_of(ADAPTERS, choice)).with_(**fixes)
    wanted = SweepChoice(
        options["x"],
        options["y"],
        base,
        tuple(fixes),
        options["halvings"],
        record,
        options["resume"],
        against.path if against else None,
    )
    before = None if options["resume"] else _version(record)  # without --resume it is of an earlier sweep
    try:
        with ConsoleProgress() as progress:
            swept = run_sweep(ADAPTERS, choice, wanted, earlier, progress)
        for path in paths:
            _write(swept, path, against)
    except KeyboardInterrupt:
        kept = f"; {record} keeps the points so far, repeat the command with --resume to go on"
        text = f"interrupted{kept if _version(record) != before else ''}"
        print_error(text, INTERRUPTED, as_json=options["output"] == "json")
        return INTERRUPTED
    if options["output"] == "json":
        print_json(as_json(swept.sweep, swept.about))
    else:
        click.echo(words.render_sweep(swept))
        click.echo("\n".join(map(str, dict.fromkeys((*paths, record)))))
    is_measured = any(point.is_judged for point in swept.sweep.points)
    return 3 if print_safety(swept.safety) or not is_measured else 0


def _paths(options: dict[str, Any]) -> list[Path]:
    paths = [Path(path) for path in options["paths"]] or [Path(f"sweep-{'-'.join(_axes(options))}.svg")]
    for path in paths:
        if path.suffix.lower() not in _SUFFIXES:
            raise UsageError(f"-o {path} should end in one of {', '.join(_SUFFIXES)}")
        require_writable("-o", path)
    if sum(path.suffix.lower() == ".json" for path in paths) > 1:
        raise UsageError("a sweep has one record; give one -o that ends in .json")
    return paths


def _axes(options: dict[str, Any]) -> list[str]:
    return [axis_name(text) for text in (options["x"], options["y"]) if text]


def _against(options: dict[str, Any], paths: list[Path]) -> SweepRecord | None:
    if options["against"] is None:
        return None
    if not any(path.suffix.lower() in (*_FIGURES, ".html") for path in paths):
        raise UsageError("--against is for figures; give an -o that ends in .svg, .png or .html")
    other = read_sweep(Path(options["against"]))
    own = _axes(options)
    if other.axes[0] != own[0] or not set(other.axes) <= set(own):
        raise UsageError(
            f"--against {other.path} is over {' and '.join(other.axes)} and this sweep over {' and '.join(own)}"
        )
    return other


def _earlier(record: Path, options: dict[str, Any]) -> SweepRecord | None:
    """Return the sweep on record that this one goes on with or, unless -o names the file, must not replace."""
    if not options["resume"]:
        require_writable("-o", record)
        return None if options["paths"] or not record.exists() else read_sweep(record)
    if not record.exists():
        raise UsageError(f"there is no {record} to go on with; leave --resume out, or name the -o of that sweep")
    return read_sweep(record)


def _version(record: Path) -> tuple[int, int] | None:
    """Return what changes when a record is written, or None without one."""
    try:
        found = record.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _write(swept: Swept, path: Path, against: SweepRecord | None) -> None:
    match path.suffix.lower():
        case ".json":
            return  # the record
        case ".csv":
            text = io.StringIO(newline="")
            writer = csv.writer(text, lineterminator="\n")
            found = swept.sweep
            writer.writerow([*found.dimensions, *_COLUMNS])
            for point in found.points:
                places = [point.x, *([point.y] if found.y is not None else [])]
                writer.writerow(map(csv_cell, [*places, *(getattr(point, name) for name in _COLUMNS)]))
            content = text.getvalue().encode()
        case ".html":
            from collie.report.figures.sweep_figure import save_sweep
            from collie.report.html.sweep import render_sweep_page

            figure, found = io.BytesIO(), swept.sweep
            save_sweep(swept, figure, "svg", against)
            page = render_sweep_page(
                words.title(swept), figure.getvalue(), words.cliffs(found), words.heads(found), words.rows(found)
            )
            content = page.encode()
        case _:
            from collie.report.figures.sweep_figure import draw_sweep

            draw_sweep(swept, path, against)
            return
    with output_file(path, 0o666) as file:
        file.write(content)


_COLUMNS = (
    *("outcome", "symptom", "severity", "delivered_bps", "delivered_pps", "bound_ratio", "pause_ratio"),
    *("median_seconds", "p99_seconds", "victim_lost_ratio", "runs", "reason"),
)
