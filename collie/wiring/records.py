"""Records of campaigns, read and told of; nothing here touches a host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collie.campaign.choice import GATE, GateChoice, SearchChoice
from collie.store import fingerprints
from collie.store.sqlite import SqliteStore
from collie.wiring.parts import pruned_space_of

if TYPE_CHECKING:
    from collie.report.html.view import ReportContext


def recorded_choice(directory: Path) -> SearchChoice:
    """Return what a campaign was begun with.

    Raises:
        StoreError: there is no such campaign, or it is of a newer schema.
    """
    with read_campaign(directory) as store:
        return SearchChoice.from_settings(store.header.settings)


def read_campaign(directory: Path) -> SqliteStore:
    """Open a campaign to look at it, also while another process writes it.

    Raises:
        StoreError: there is no such campaign, or it is of a newer schema.
    """
    return SqliteStore.open(directory, read_only=True)


def write_report(store: SqliteStore, path: Path | None = None, wall_seconds: float | None = None) -> Path:
    """Write the HTML report of a campaign.

    Args:
        store: the campaign.
        path: where the user wants it; None for its own folder.
        wall_seconds: that the campaign has taken, if known.

    Raises:
        UsageError: the user's file cannot be written.
        StoreUnwritable: nor can the campaign's own.
    """
    from collie.report.html.page import write_report as write  # templates take a moment to import

    target = path or store.directory.path / "report.html"
    write(store, target, _report_context(store, wall_seconds), follow=path is not None)
    return target


def write_comparison(here: SqliteStore, there: SqliteStore, path: Path | None = None) -> tuple[Path, bool]:
    """Write the page of two campaigns beside each other; return where, and whether they are known to be of one testbed.

    Args:
        here: one campaign.
        there: the other.
        path: where the user wants it; None for the folder of the first.

    Raises:
        UsageError: the user's file cannot be written.
        StoreUnwritable: nor can the campaign's own.
    """
    from collie.report.html.comparison import Likeness, compare_campaigns
    from collie.report.html.page import render_comparison, write_page

    compared = compare_campaigns(here, _report_context(here), there, _report_context(there))
    target = path or here.directory.path / f"against-{there.directory.path.resolve().name}.html"
    write_page(render_comparison(compared), target, follow=path is not None)
    return target, compared.likeness is Likeness.SAME


def _report_context(store: SqliteStore, wall_seconds: float | None = None) -> ReportContext:
    from collie.report.html.view import ReportContext

    choice = SearchChoice.from_settings(store.header.settings)
    space, dropped = pruned_space_of(choice)
    return ReportContext(
        place=str(store.directory.path),
        space=space,
        wall_seconds=wall_seconds,
        dropped=dropped,
        fingerprints=fingerprints.load(store.directory.fingerprints),
        changes=fingerprints.changes(store.directory.fingerprints),
        search=("collie", *_command(store.header.settings)),
    )


def _command(settings: Mapping[str, Any]) -> list[str]:
    if GATE in settings:
        return ["gate", *GateChoice.from_settings(settings).arguments()]
    return ["search", *SearchChoice.from_settings(settings).arguments()]
