"""The findings of a search at a glance: a table, worst first, and the commands that come next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from rich.text import Text

from collie.campaign.budget import Budget
from collie.report.quantities import percent
from collie.report.ranking import awaits_explanation, worst_first
from collie.report.terminal.table import NARROWEST
from collie.search.anomaly import Anomaly
from collie.workloads.units import format_count, format_seconds

_HEADS = ("id", "severity", "symptom", "confirmed", "shows in", "where, and when")
_GAP = "  "
_UNEXPLAINED = "not explained"
_MORE = 1.5
"""Factor between budgets with which a search that was cut short goes on."""


def findings_table(causes: Sequence[Anomaly], width: int | None = None) -> Iterator[Text]:
    """Yield a row for each anomaly, in the order of `worst_first`.

    With the `width` of a terminal, the last column is wrapped between words.
    """
    if not causes:
        return
    rows = [_HEADS, *map(_row, worst_first(causes))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS) - 1)]
    left = sum(widths) + len(_GAP) * len(widths)
    for number, row in enumerate(rows):
        cells = [text.ljust(size) for text, size in zip(row, widths, strict=False)]
        cells[1] = row[1].rjust(widths[1])
        first, *more = [row[-1]] if width is None else wrap(row[-1], max(NARROWEST, width - left)) or [""]
        style = "dim" if not number or row[-1].startswith(_UNEXPLAINED) else ""
        line = Text(_GAP.join([*cells, first]).rstrip(), style)
        line.stylize("bold red" if number else "bold", 0, widths[0])
        yield line
        yield from (Text(" " * left + text, style) for text in more)


def next_steps(
    directory: Path,
    causes: Sequence[Anomaly],
    report: Path,
    resume: str,
    *,
    interrupted: bool,
    budget: Budget,
    spent: bool = True,
    explains: bool = True,
) -> Iterator[str]:
    """Yield the commands that an engineer types next, each with what it is for. `resume` goes on with the search.

    `spent` says whether the budget ended the search before it had measured the whole space, so that a larger one helps.
    `explains` says whether its recipe explains anomalies.
    """
    explained = [anomaly for anomaly in causes if anomaly.complete]
    worst = max(explained or causes, key=lambda anomaly: anomaly.severity, default=None)
    commands = []
    if worst is not None:
        name = shlex.quote(f"{directory}/{worst.id}")
        commands = [
            (f"collie reproduce {name} --controls", "run the worst that is explained, and with each condition broken")
            if worst.complete
            else (f"collie reproduce {name}", "run the worst again; none is explained yet"),
            (f"collie export {name} --as bundle", "hand it over as one file that runs without Collie"),
        ]
    if interrupted:
        commands.append((resume, "go on, because the search was interrupted"))
    elif explains and (waiting := sum(not anomaly.complete for anomaly in causes)):
        purpose = f"explain {format_count(waiting, 'anomaly')} for which the budget was too small"
        commands.append((f"{resume} --budget {_larger(budget).as_option}", purpose))
    elif worst is None and spent:
        purpose = "look further, because nothing was found yet"
        commands.append((f"{resume} --budget {_larger(budget).as_option}", purpose))
    commands.append((f"xdg-open {shlex.quote(str(report))}", "read the report"))
    width = max(len(command) for command, _ in commands)
    yield from (f"  {command:{width}}  # {purpose}" for command, purpose in commands)


def _row(anomaly: Anomaly) -> tuple[str, ...]:
    if awaits_explanation(anomaly) or not anomaly.explanation_begun:
        likely = anomaly.likely_same_as
        again = f", {percent(likely.chance)} likely to share the cause of {likely.id}" if likely is not None else ""
        traffic = f"{anomaly.workload.qp_type} {anomaly.workload.opcode}"
        shows, where = "", f"{_UNEXPLAINED}: {'plain ' * anomaly.is_plain}{traffic}{again}"
    else:
        shows = f"{anomaly.fresh_shows} of {anomaly.fresh_runs}" if anomaly.fresh_runs else ""
        place = f"{anomaly.component}: " if anomaly.component else ""
        unfinished = "" if anomaly.complete else f"{_UNEXPLAINED} to the end: "
        plain = "plain traffic itself, and " * anomaly.is_plain
        where = f"{unfinished}{place}{plain}{anomaly.mfs}"
    found = format_seconds(anomaly.found_at_seconds)
    return anomaly.id, anomaly.brief_figure, anomaly.symptom.words, found, shows, where


def _larger(budget: Budget) -> Budget:
    return Budget(_MORE * budget.seconds, None if budget.runs is None else math.ceil(_MORE * budget.runs))
