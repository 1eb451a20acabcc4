"""The report: one offline HTML file without scripts."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from collie import __version__
from collie.app.adapters import ReportContext
from collie.detect.symptom import Symptom
from collie.errors import StoreUnwritable, UsageError
from collie.files import Folder, is_odd_output, open_output
from collie.inventory.fingerprint import show as show_fingerprint
from collie.ports import CampaignHeader, CampaignStore
from collie.report.figures.chart import MAX_PANELS, MAX_POINTS, driven_chart, severity_chart, trace_chart
from collie.report.figures.scale import engineering
from collie.report.html.comparison import ComparisonPage, Likeness, compare_campaigns
from collie.report.html.page_data import page_data
from collie.report.html.view import campaign_view, elapsed_seconds, marker, set_ups
from collie.report.json.objects import plain
from collie.report.quantities import interval, known_elsewhere, name_testbed, packet_rate, percent, rate, runs, times
from collie.workloads.units import format_count, format_seconds

FIRST_ROWS = 10
"""Anomalies in the table of the first screen. The others fold under it."""
_LONGEST_NAME = 24
_TAGS: Mapping[Symptom, str] = {
    Symptom.PAUSE: "pause frames",
    Symptom.RNR_STORM: "RNR storm",
    Symptom.LOSS: "packet loss",
    Symptom.UNFAIRNESS: "starved queue pair",
}
"""Short names of symptoms whose usual words are unclear outside a sentence."""


def write_report(
    store: CampaignStore, path: Path, context: ReportContext | None = None, *, follow: bool = False
) -> None:
    """Write the report of a campaign. Raises the errors of `write_page`."""
    write_page(render_report(store, context or ReportContext()), path, follow=follow)


def write_comparison(
    here: CampaignStore,
    here_context: ReportContext,
    there: CampaignStore,
    there_context: ReportContext,
    path: Path,
    follow: bool,
) -> bool:
    """Write the comparison of two campaigns. Return whether their testbeds are known to be equal."""
    compared = compare_campaigns(here, here_context, there, there_context)
    write_page(render_comparison(compared), path, follow=follow)
    return compared.likeness is Likeness.SAME


def write_page(text: str, path: Path, *, follow: bool = False) -> None:
    """Write a page atomically, or directly into a device such as /dev/stdout.

    With `follow` a link is followed, because the user chose it. Otherwise a link is replaced: it can be another user's.

    Raises:
        UsageError: the page cannot be written, with `follow`.
        StoreUnwritable: the page cannot be written, without `follow`.
    """
    try:
        if follow and is_odd_output(path):
            with os.fdopen(open_output(path), "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return
        target = Path(os.path.realpath(path)) if follow else path
        # Only the owner may read the page: the cause of a lost host contains its address.
        with Folder(target.parent) as folder:
            folder.write(target.name, [text])
    except OSError as error:
        refused = UsageError if follow else StoreUnwritable
        raise refused(f"{path} cannot be written: {error.strerror}") from None


def render_report(store: CampaignStore, context: ReportContext) -> str:
    """Return the report. The same record gives the same bytes."""
    view = campaign_view(store, context)
    end_seconds = max(view.elapsed_seconds, 1.0)
    facts = _campaign_facts(view.header, view.runs, view.set_ups, view.elapsed_seconds)
    if context.wall_seconds is not None:
        facts.append(_Fact("Wall time", format_seconds(context.wall_seconds)))
    displayed = view.driven[:MAX_PANELS]
    by_time = sorted(displayed, key=lambda item: item.points[0].seconds)
    return (
        environment()
        .get_template("campaign.html.j2")
        .render(
            view=view,
            version=__version__,
            testbed=name_testbed(view.header),
            facts=facts,
            severity_chart=severity_chart([("Severity", view.found)], end_seconds) if view.found else None,
            first_rows=FIRST_ROWS,
            driven_chart=driven_chart(by_time, view.found, end_seconds) if displayed else None,
            left_out_counters=[item.counter for item in view.driven[MAX_PANELS:]],
            is_thinned=any(len(item.points) > MAX_POINTS for item in displayed),
            data=page_data(view),
        )
    )


def render_comparison(compared: ComparisonPage) -> str:
    """Return the page that compares two campaigns."""
    sides = (compared.here, compared.there)
    tracks = [
        (f"Severity in {_short_name(side.name)}", [marker(kind, kind.id) for kind in side.kinds]) for side in sides
    ]
    seconds = [elapsed_seconds(side.records) for side in sides]
    here, there = (
        _campaign_facts(side.header, len(side.records), set_ups(side.records), end)
        for side, end in zip(sides, seconds, strict=True)
    )
    return (
        environment()
        .get_template("comparison.html.j2")
        .render(
            compared=compared,
            version=__version__,
            facts=[(mine.name, mine.text, its.text) for mine, its in zip(here, there, strict=True)],
            severity_chart=severity_chart(tracks, max(1.0, *seconds)),
        )
    )


def environment() -> Environment:
    """Return the strict, escaping environment of every page."""
    environment = Environment(
        loader=PackageLoader("collie.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Callable[..., object]] = {
        "percent": percent,
        "plain": plain,
        "counted": format_count,
        "shell": shlex.join,
        "engineering": lambda value: "unknown" if value is None else engineering(value),
        "rate": rate,
        "packet_rate": packet_rate,
        "seconds": format_seconds,
        "runs": runs,
        "interval": interval,
        "known_elsewhere": known_elsewhere,
        "times": times,
        "symptom": lambda symptom: _TAGS.get(symptom, symptom.words),
        "around_number": lambda words: re.split(r"([\d.]+%)", words, maxsplit=1),
        "fingerprint_value": show_fingerprint,
        "trace_chart": trace_chart,
        "short_name": _short_name,
    }
    environment.filters.update(filters)
    return environment


@dataclass(frozen=True, slots=True)
class _Fact:
    name: str
    text: str
    value: object = None
    source: str = ""


def _campaign_facts(header: CampaignHeader, run_count: int, set_up_count: int, seconds: float) -> list[_Fact]:
    return [
        _Fact("Testbed", name_testbed(header)),
        _Fact("Space", _space(header)),
        _Fact("Recipe", header.recipe),
        _Fact("Seed", str(header.seed), header.seed, "header/seed"),
        _Fact("Budget", str(header.settings.get("budget") or "the recipe's")),
        _Fact("Started", _moment(header.started)),
        _Fact("Runs", str(run_count), run_count, "runs"),
        _Fact("Set-ups", str(set_up_count), set_up_count, "set_ups"),
        _Fact("Testbed time", format_seconds(seconds), seconds, "elapsed_seconds"),
    ]


def _space(header: CampaignHeader) -> str:
    """Return the space and what was searched of it, as on the command line."""
    narrowed = (f"--{name} {each}" for name in ("fix", "limit") for each in header.settings.get(name) or ())
    return " ".join((header.space, *narrowed))


def _short_name(name: str) -> str:
    """Return the end of a name, so that it fits above a picture on a phone and into a column."""
    return name if len(name) <= _LONGEST_NAME else f"…{name[-_LONGEST_NAME:]}"


def _moment(rfc3339: str) -> str:
    try:
        return f"{datetime.fromisoformat(rfc3339).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):
        return rfc3339
