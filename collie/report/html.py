"""The report: one HTML file that opens offline, today and in ten years. No script, no address of anything else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from collie import __version__
from collie.detect.symptom import Symptom
from collie.errors import UsageError
from collie.ports import CampaignStore
from collie.report.figures import MOST_PANELS, MOST_POINTS, counters_over_time, found_over_time
from collie.report.quantities import name_testbed, packet_rate, percent, rate, runs, times, victim_kept
from collie.report.view import CampaignView, ReportContext, campaign_view
from collie.workloads.units import format_seconds

_SYMPTOMS: Mapping[Symptom, str] = {
    Symptom.WRONG_PAYLOAD: "wrong payload",
    Symptom.PAUSE: "pause frames",
    Symptom.COMPLETION_ERRORS: "completion errors",
    Symptom.RNR_STORM: "RNR storm",
    Symptom.LOSS: "packet loss",
    Symptom.RETRANSMISSION: "retransmission",
    Symptom.UNFAIRNESS: "starved queue pair",
    Symptom.LOW_THROUGHPUT: "low throughput",
}


def write_report(store: CampaignStore, path: Path, context: ReportContext | None = None) -> None:
    """Write the report of a campaign, finished or not; a report that is there already is replaced.

    Args:
        store: the campaign.
        path: the file to write.
        context: what the store does not hold.

    Raises:
        UsageError: the file cannot be written.
    """
    text = render_report(store, context or ReportContext())
    unfinished = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(unfinished, path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def render_report(store: CampaignStore, context: ReportContext) -> str:
    """Return the report; the same record gives the same bytes."""
    view = campaign_view(store, context)
    environment = Environment(
        loader=PackageLoader("collie.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "rate": rate,
        "packets": packet_rate,
        "percent": percent,
        "victim_kept": victim_kept,
        "seconds": format_seconds,
        "runs": runs,
        "times": times,
        "symptom": lambda symptom: _SYMPTOMS[symptom],
    }
    return environment.get_template("campaign.html.j2").render(
        view=view,
        version=__version__,
        testbed=name_testbed(view.header.testbed),
        facts=_facts(view),
        found_figure=_found_figure(view),
        driven_figure=_driven_figure(view),
        left_out_counters=[panel.counter for panel in view.panels[MOST_PANELS:]],
        is_thinned=any(len(panel.points) > MOST_POINTS for panel in view.panels[:MOST_PANELS]),
    )


def _facts(view: CampaignView) -> list[tuple[str, str]]:
    """Return what fixes the campaign and what it took, as pairs for people."""
    header = view.header
    facts = [
        ("Testbed", name_testbed(header.testbed)),
        ("Space", header.space),
        ("Recipe", header.recipe),
        ("Seed", str(header.seed)),
        ("Started", _moment(header.started)),
        ("Runs", str(view.runs)),
        ("Testbed time", format_seconds(view.elapsed_seconds)),
    ]
    if budget := header.settings.get("budget"):
        facts.insert(4, ("Budget", str(budget)))
    if view.context.wall_seconds is not None:
        facts.append(("Wall time", format_seconds(view.context.wall_seconds)))
    return facts


def _moment(rfc3339: str) -> str:
    """Write a time of day for people, or as it is when it is none."""
    try:
        moment = datetime.fromisoformat(rfc3339)
    except ValueError:
        return rfc3339
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _found_figure(view: CampaignView) -> Markup | None:
    if not view.found:
        return None
    return _inline(found_over_time(view.found, _end_seconds(view)))


def _driven_figure(view: CampaignView) -> Markup | None:
    panels = sorted(view.panels[:MOST_PANELS], key=lambda panel: panel.points[0].seconds)
    return _inline(counters_over_time(panels, view.found, _end_seconds(view))) if panels else None


def _end_seconds(view: CampaignView) -> float:
    """Return where the time axis ends: never at its beginning."""
    return max(view.elapsed_seconds, *(item.seconds for item in view.found), 1.0)


def _inline(svg: str) -> Markup:
    return Markup(svg)  # noqa: S704 - matplotlib's output; it escapes the names that it draws
