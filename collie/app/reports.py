"""Reports of recorded campaigns. No host is contacted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collie.app.adapters import Adapters, CampaignRecord, ReportContext
from collie.app.inputs import pruned_space_of
from collie.app.status import last_sign
from collie.app.testbeds import recorded_catalog
from collie.campaign.choice import GATE, GateChoice, SearchChoice

if TYPE_CHECKING:
    from collie.campaign.gate.answer import GateAnswer


def recorded_choice(adapters: Adapters, directory: Path) -> SearchChoice:
    """Return the choice of a campaign on record."""
    with adapters.records.read(directory) as store:
        return SearchChoice.from_settings(store.header.settings)


def write_report(
    adapters: Adapters, store: CampaignRecord, path: Path | None = None, wall_seconds: float | None = None
) -> Path:
    """Write the HTML report of a campaign, by default into its directory, and return the path.

    Raises:
        UsageError: the operator's file cannot be written.
        StoreUnwritable: the campaign's file cannot be written.
    """
    target = path or store.directory.path / "report.html"
    context = _report_context(adapters, store, wall_seconds)
    adapters.reports.campaign_page(store, target, context, path is not None)
    return target


def write_comparison(
    adapters: Adapters, here: CampaignRecord, there: CampaignRecord, path: Path | None = None
) -> tuple[Path, bool]:
    """Write the page of two campaigns, by default into the directory of the first. Errors as for `write_report`.

    Return the path, and whether both campaigns are known to be of one testbed.
    """
    target = path or here.directory.path / f"against-{there.directory.path.resolve().name}.html"
    contexts = _report_context(adapters, here), _report_context(adapters, there)
    is_same = adapters.reports.comparison_page(here, contexts[0], there, contexts[1], target, path is not None)
    return target, is_same


def keep_answer(adapters: Adapters, directory: Path, answer: GateAnswer) -> Path:
    """Record the answer of a gate, and write its report. Return the report's path. Errors as for `write_report`."""
    adapters.records.keep_gate_answer(directory, answer)
    with adapters.records.read(directory) as store:
        return write_report(adapters, store)


def _report_context(adapters: Adapters, store: CampaignRecord, wall_seconds: float | None = None) -> ReportContext:
    choice = SearchChoice.from_settings(store.header.settings)
    space, dropped = pruned_space_of(adapters, choice)
    fingerprints = adapters.records.fingerprints(store.directory.path)
    heartbeat, _ = last_sign(adapters, store)
    return ReportContext(
        place=str(store.directory.path),
        space=space,
        wall_seconds=wall_seconds,
        dropped=dropped,
        fingerprints=fingerprints,
        catalog=recorded_catalog(adapters, choice.testbed, fingerprints),
        changes=adapters.records.accepted_changes(store.directory.path),
        search=("collie", *_command(store.header.settings)),
        is_gate=GATE in store.header.settings,
        not_confirmed=heartbeat.not_confirmed if heartbeat else {},
        answer=adapters.records.gate_answer(store.directory.path) if GATE in store.header.settings else None,
    )


def _command(settings: Mapping[str, Any]) -> list[str]:
    if GATE in settings:
        return ["gate", *GateChoice.from_settings(settings).arguments()]
    return ["search", *SearchChoice.from_settings(settings).arguments()]
