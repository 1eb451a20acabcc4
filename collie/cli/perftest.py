"""`collie perftest`."""

from __future__ import annotations

import logging
import re
import shlex
from typing import Any

import click

from collie.app import inputs, sessions
from collie.campaign.choice import SearchChoice
from collie.campaign.events import Silence
from collie.campaign.single_run import JudgedRun
from collie.cli.base import CollieCommand
from collie.cli.options import print_json, print_safety
from collie.cli.rerun import rerun_choice, rerun_options
from collie.detect.reading import reading_of
from collie.errors import UsageError
from collie.perftest.options import LENGTH
from collie.perftest.table import Row, report, sizes_of
from collie.ports import Measured
from collie.report.json.objects import render_measures, with_safety
from collie.report.quantities import victim_kept
from collie.report.terminal.summary import failure_lines, styled, verdict_lines, victim_lines
from collie.wiring import ADAPTERS
from collie.workloads.units import format_seconds

logger = logging.getLogger(__name__)

_LENGTH = re.compile(rf"({'|'.join(name.removesuffix('=') for names in LENGTH for name in names)})(=.*|\d+)?")
"""The options of perftest that end its run."""


@click.command("perftest", cls=CollieCommand, context_settings={"ignore_unknown_options": True})
@click.argument("words", metavar="PERFTEST LINE...", nargs=-1, required=True, type=click.UNPROCESSED)
@rerun_options()
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], output: str, **_options: Any) -> int:
    """Run a perftest command line on Collie's testbed. Print perftest's own table, and Collie's verdict below it.

    The line may be quoted or not. Options that both have, such as -h, are Collie's where it is not quoted. With `-a`,
    all sizes run as phases of one set-up. Each host needs Collie's agent only, not perftest. The exit code is that of
    `collie measure`.

    \b
    collie perftest 'ib_write_bw -q 8 -s 65536 --report_gbits'
    collie perftest ib_send_bw -a --hosts my-hosts.yaml
    """
    line = words[0] if len(words) == 1 else shlex.join(words)
    readings = sizes_of(line)
    choice = rerun_choice(SearchChoice(), ctx)
    space = inputs.narrowed_space_of(ADAPTERS, choice)
    # A datagram is cut to the MTU, so that all larger sizes are one workload.
    workloads = dict.fromkeys(each.workload for each in readings)
    fitting = [workload for workload in workloads if not space.violations(workload)]
    if not fitting:
        raise UsageError(f"{line!r}: " + "; ".join(text for _, text in space.violations(readings[0].workload)))
    for remark in readings[0].remarks:
        logger.warning("%s: %s", line, remark)
    with sessions.open_session(ADAPTERS, choice, Silence()) as session:
        judged = session.measure_all(fitting) if len(fitting) > 1 else [session.measure(fitting[0])]
        _warn_of_length(line, judged)
        device = session.testbed.info.name
    if output == "json":
        print_json(with_safety(render_measures(judged), session.safety))
    else:
        rows = [row for each in judged if (row := _row(each)) is not None]
        click.echo("\n".join(report(line, fitting[0], device, rows)))
        click.echo(styled(_verdicts(judged)))
    verdicts = [each.verdict for each in judged]
    if print_safety(session.safety) or None in verdicts:
        return 3
    return 4 if any(verdict is not None and verdict.is_inconclusive for verdict in verdicts) else 0


def _warn_of_length(line: str, judged: list[JudgedRun]) -> None:
    """Say so if a line asks for a number of iterations or a time: a window of Collie has its own."""
    asked = next((word for word in shlex.split(line) if _LENGTH.fullmatch(word)), None)
    measured = next((each.result.measurement for each in judged if isinstance(each.result, Measured)), None)
    if asked is not None and measured is not None:
        seconds = format_seconds(measured.window_seconds)
        logger.warning("%s: Collie measures for %s; %s has no say in that", line, seconds, asked)


def _row(judged: JudgedRun) -> Row | None:
    if not isinstance(judged.result, Measured) or judged.verdict is None:
        return None
    measurement = judged.result.measurement
    delivered = reading_of(judged.verdict, measurement).delivered_bps or 0.0
    size = max(judged.workload.messages)
    return Row(size, round(delivered / 8 / size * measurement.window_seconds), delivered)


def _verdicts(judged: list[JudgedRun]) -> list[Any]:
    """Return the verdict of a single run, or those of the sizes that are not normal."""
    if len(judged) == 1:
        result = judged[0].result
        kept = victim_lines(result.measurement) if isinstance(result, Measured) else ()
        return [*verdict_lines(judged[0].verdict), *failure_lines(result), *kept]
    lines: list[Any] = []
    for each in judged:
        size = f"{max(each.workload.messages)} bytes:"
        if isinstance(each.result, Measured) and (victim := each.result.measurement.victim) is not None:
            lines.append(f"{size} the victim {victim_kept(victim)}")
        if each.verdict is None or not each.verdict.is_normal:
            lines += [size, *verdict_lines(each.verdict), *failure_lines(each.result)]
    if all(each.verdict is not None and each.verdict.is_normal for each in judged):
        lines.append("normal at every size")
    return lines
