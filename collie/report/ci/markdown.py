"""A gate as Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from collie.campaign.gate.summary import ORDER, QUIET, CaseResult, GateSummary
from collie.detect.compare import Change
from collie.errors import UsageError
from collie.files import FOR_OTHERS, open_output
from collie.report.terminal.gate import (
    GateContext,
    confidence,
    describe_effect,
    headline,
    notes,
)

_MARKS = {Change.NEW: "❌", Change.WORSE: "❌", Change.INCONCLUSIVE: "❔", Change.FIXED: "✅"} | dict.fromkeys(
    QUIET, "➖"
)


def write_markdown(path: Path, summary: GateSummary, context: GateContext) -> None:
    """Append the result of a gate, because all steps of a CI job share the file. Raises `UsageError` on failure."""
    try:
        with os.fdopen(open_output(path, FOR_OTHERS, append=True), "a", encoding="utf-8") as file:
            file.write(render_markdown(summary, context) + "\n")
    except OSError as error:
        raise UsageError(f"--markdown {path} cannot be written: {error.strerror}") from None


def render_markdown(summary: GateSummary, context: GateContext) -> str:
    """Return the result of a gate."""
    head = headline(summary, context)
    lines = [
        f"## Collie: {head}",
        "",
        f"Candidate {_code(context.candidate)} against baseline {_code(context.baseline)}.",
    ]
    differences = [str(each) for host in context.differences for each in host.differences if each.changes_results]
    if differences:
        lines += ["", f"Under test: {', '.join(map(_code, differences))}"]
    for change in ORDER:
        if found := summary.anomalies(change):
            lines += ["", *_section(change, found, context)]
    return "\n".join([*lines, "", *(f"- {_escaped(each)}" for each in notes(summary))])


def _section(change: Change, found: Sequence[CaseResult], context: GateContext) -> Iterator[str]:
    title = f"{_MARKS[change]} {change.of_anomaly.capitalize()} ({len(found)})"
    yield from (f"<details><summary>{title}</summary>", "") if change in QUIET else (f"### {title}", "")
    yield "| anomaly | what | candidate against baseline | confidence | reproduce |"
    yield "| --- | --- | --- | --- | --- |"
    for result in found:
        comparison = result.comparison
        cells = (
            _code(result.case.label),
            f"{_escaped(result.case.title)}<br>{_escaped(comparison.reason)}",
            _escaped(describe_effect(comparison.effect)),
            confidence(comparison),
            _code(context.reproduce(result)),
        )
        yield f"| {' | '.join(cells)} |"
    if change in QUIET:
        yield from ("", "</details>")


def _escaped(text: str) -> str:
    return " ".join(re.sub(r"[\\|*_`~\[\]]", r"\\\g<0>", text.replace("<", "&lt;").replace(">", "&gt;")).split())


def _code(text: str) -> str:
    # A bar ends a table cell even in code.
    return f"`{' '.join(text.split()).replace('`', chr(39)).replace('|', chr(92) + '|')}`"
