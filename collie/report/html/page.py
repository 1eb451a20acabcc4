"""The report: one offline HTML file without scripts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from collie import __version__
from collie.app.report_context import ReportContext
from collie.detect.symptom import Symptom
from collie.errors import StoreUnwritable, UsageError
from collie.files import Folder, is_odd_output, open_output
from collie.inventory.fingerprint import show as show_fingerprint
from collie.ports import CampaignHeader, CampaignStore
from collie.report.figures.chart import MAX_PANELS, MAX_POINTS, Driven, driven_chart, found_chart, trace_chart
from collie.report.figures.scale import engineering
from collie.report.html.comparison import ComparisonPage, Likeness, compare_campaigns
from collie.report.html.page_data import page_data
from collie.report.html.view import CampaignView, campaign_view
from collie.report.json.objects import plain
from collie.report.quantities import name_testbed, percent, rate, runs, times
from collie.workloads.units import format_count, format_seconds

_TAGS: Mapping[Symptom, str] = {
    Symptom.PAUSE: "pause frames",
    Symptom.RNR_STORM: "RNR storm",
    Symptom.LOSS: "packet loss",
    Symptom.UNFAIRNESS: "starved queue pair",
}
"""Symptoms whose own words are not clear enough where they stand alone."""


def write_report(
    store: CampaignStore, path: Path, context: ReportContext | None = None, *, follow: bool = False
) -> None:
    """Write or replace the report of a campaign, finished or not, as `write_page` does."""
    write_page(render_report(store, context or ReportContext()), path, follow=follow)


def write_comparison(
    here: CampaignStore,
    here_context: ReportContext,
    there: CampaignStore,
    there_context: ReportContext,
    path: Path,
    follow: bool,
) -> bool:
    """Write the page of two campaigns beside each other; return whether both are known to be of one testbed."""
    compared = compare_campaigns(here, here_context, there, there_context)
    write_page(render_comparison(compared), path, follow=follow)
    return compared.likeness is Likeness.SAME


def write_page(text: str, path: Path, *, follow: bool = False) -> None:
    """Write a page atomically, or directly into a device such as /dev/stdout.

    Args:
        text: of the page.
        path: the file to write.
        follow: whether the user chose the path, so that a link is followed. Another user can have made a link in a
            campaign, so it is replaced.

    Raises:
        UsageError: a file of the user cannot be written.
        StoreUnwritable: a file of a campaign cannot be written.
    """
    try:
        if follow and is_odd_output(path):
            with os.fdopen(open_output(path), "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return
        target = Path(os.path.realpath(path)) if follow else path
        target.parent.mkdir(parents=True, exist_ok=True)
        # For its owner alone: the cause of a lost host contains its address.
        with Folder(target.parent) as folder:
            folder.write(target.name, [text])
    except OSError as error:
        refused = UsageError if follow else StoreUnwritable
        raise refused(f"{path} cannot be written: {error.strerror}") from None


def render_report(store: CampaignStore, context: ReportContext) -> str:
    """Return the report. The same record gives the same bytes."""
    view = campaign_view(store, context)
    end_seconds = max(view.elapsed_seconds, 1.0)
    displayed = view.driven[:MAX_PANELS]
    return (
        environment()
        .get_template("campaign.html.j2")
        .render(
            view=view,
            version=__version__,
            testbed=name_testbed(view.header.testbed),
            facts=_facts(view),
            found_chart=found_chart([("Anomalies known", view.found)], end_seconds) if view.found else None,
            driven_chart=driven_chart(_by_time(displayed), view.found, end_seconds) if displayed else None,
            left_out_counters=[item.counter for item in view.driven[MAX_PANELS:]],
            is_thinned=any(len(item.points) > MAX_POINTS for item in displayed),
            data=page_data(view),
        )
    )


def render_comparison(compared: ComparisonPage) -> str:
    """Return the page that compares two campaigns."""
    tracks = [(f"Anomalies known in {side.name}", side.found) for side in (compared.here, compared.there)]
    end_seconds = max(compared.here.elapsed_seconds, compared.there.elapsed_seconds, 1.0)
    return (
        environment()
        .get_template("comparison.html.j2")
        .render(
            compared=compared,
            version=__version__,
            facts=_compared_facts(compared),
            found_chart=found_chart(tracks, end_seconds),
        )
    )


def _compared_facts(compared: ComparisonPage) -> list[tuple[str, str, str]]:
    sides = (compared.here, compared.there)
    here, there = (_campaign_facts(side.header, len(side.records), side.elapsed_seconds) for side in sides)
    return [(mine.name, mine.text, its.text) for mine, its in zip(here, there, strict=True)]


def environment() -> Environment:
    """Return the strict, escaping Jinja environment of every page."""
    environment = Environment(
        loader=PackageLoader("collie.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., object]] = {
        "percent": percent,
        "plain": plain,
        "counted": format_count,
        "shell": shlex.join,
        "engineering": lambda value: "unknown" if value is None else engineering(value),
        "rate": rate,
        "seconds": format_seconds,
        "runs": runs,
        "times": times,
        "symptom": lambda symptom: _TAGS.get(symptom, symptom.words),
        "fingerprint_value": show_fingerprint,
        "trace_chart": trace_chart,
    }
    environment.filters |= filters
    return environment


def _by_time(driven: Sequence[Driven]) -> list[Driven]:
    return sorted(driven, key=lambda item: item.points[0].seconds)


@dataclass(frozen=True, slots=True)
class _Fact:
    """A parameter or total of a campaign, with a source if it is a number of the record."""

    name: str
    text: str
    value: object = None
    source: str = ""


def _facts(view: CampaignView) -> list[_Fact]:
    facts = _campaign_facts(view.header, view.runs, view.elapsed_seconds)
    if view.context.wall_seconds is not None:
        facts.append(_Fact("Wall time", format_seconds(view.context.wall_seconds)))
    return facts


def _campaign_facts(header: CampaignHeader, run_count: int, seconds: float) -> list[_Fact]:
    return [
        _Fact("Testbed", name_testbed(header.testbed)),
        _Fact("Space", header.space),
        _Fact("Recipe", header.recipe),
        _Fact("Seed", str(header.seed), header.seed, "header/seed"),
        _Fact("Budget", str(header.settings.get("budget") or "the recipe's")),
        _Fact("Started", _moment(header.started)),
        _Fact("Runs", str(run_count), run_count, "runs"),
        _Fact("Testbed time", format_seconds(seconds), seconds, "elapsed_seconds"),
    ]


def _moment(rfc3339: str) -> str:
    """Format a time, or return it unchanged if it is none."""
    try:
        return f"{datetime.fromisoformat(rfc3339).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):
        return rfc3339
