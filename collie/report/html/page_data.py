"""The readings behind the page's figures, embedded as JSON with six significant digits."""

from __future__ import annotations

import json

from markupsafe import Markup

from collie.report.figures.chart import MAX_PANELS, Trace, thinned
from collie.report.html.view import CampaignView

SCHEMA_VERSION = 1


def page_data(view: CampaignView) -> Markup:
    """Return the content of a script element. Nothing in it can end the element."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "campaign": view.header.campaign,
        "found": [{"id": found.id, "seconds": found.seconds, "severity": found.severity} for found in view.found],
        "driven": {
            item.counter: [[p.run, _short(p.seconds), _short(p.value), p.anomalous] for p in thinned(item.points)]
            for item in view.driven[:MAX_PANELS]
        },
        "series": {
            finding.anomaly.id: {
                "run": finding.run,
                "readings": {trace.name: _trace(trace) for trace in finding.traces},
            }
            for finding in view.findings
            if finding.traces
        },
        "neighbours": {
            each.anomaly.id: {"run": each.run, "kept": _short(each.bar.kept), "usual": _short(each.bar.usual)}
            for each in view.neighbours
            if each.bar
        },
        "coverage": {
            item.name: [[step.value, step.runs, step.anomalous] for step in item.steps] for item in view.coverage
        },
    }
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - JSON without any character that is special in HTML


def _trace(trace: Trace) -> dict[str, list[list[float | None]]]:
    return {host: [[_short(seconds), _short(value)] for seconds, value in values] for host, values in trace.hosts}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}") + 0.0
