"""What the page shows, worked out from the record; the template only lays it out."""

from __future__ import annotations

import json
import shlex
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from collie.detect.bounds import plain_sibling
from collie.detect.measurement import HostMeasurement, Measurement, Victim
from collie.detect.symptom import Outcome
from collie.ports import CampaignHeader, CampaignStore, HostLost, Measured, RunRecord, SetupFailed
from collie.report.figures import Found, Panel, Point
from collie.report.quantities import show
from collie.search.anomaly import Anomaly
from collie.workloads.feature import Condition, feature_value
from collie.workloads.plan import sinks
from collie.workloads.space import Space
from collie.workloads.workload import FIELD_NAMES, Workload


@dataclass(frozen=True, slots=True)
class ReportContext:
    """What the record does not hold.

    Attributes:
        place: the campaign directory, as the reader of the report would name it on a command line.
        space: that the campaign searched; gives plain values and siblings. None compares with Collie's defaults.
        wall_seconds: how long the search took on the reader's clock, if anybody knows.
    """

    place: str = "CAMPAIGN"
    space: Space | None = None
    wall_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """One condition of an MFS beside the values that it compares."""

    text: str
    here: str
    plain: str


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """One dimension in which the simplest workload is not plain."""

    dimension: str
    here: str
    plain: str


@dataclass(frozen=True, slots=True)
class HostRow:
    """One host: under the anomaly, and under the plain sibling where that ran."""

    host: str
    receives: bool
    sibling_receives: bool
    here: HostMeasurement
    sibling: HostMeasurement | None


@dataclass(frozen=True, slots=True)
class AnomalyView:
    """One finding as the page shows it.

    Attributes:
        figures_run: the run that `hosts` are from; None when none was recorded.
        victim: of that run; None when none ran beside it.
    """

    anomaly: Anomaly
    conditions: tuple[ConditionRow, ...]
    differences: tuple[DifferenceRow, ...]
    hosts: tuple[HostRow, ...]
    figures_run: int | None
    command: str
    victim: Victim | None


@dataclass(frozen=True, slots=True)
class CampaignView:
    """The page.

    Attributes:
        purposes: runs by purpose, in order of appearance.
        outcomes: judged runs by outcome.
        failures: set-ups that failed, by cause, most frequent first.
        panels: driven counters, those with most runs first.
        settings: of testbed and campaign, as far as they are set, nested ones by dotted names.
    """

    header: CampaignHeader
    context: ReportContext
    runs: int
    elapsed_seconds: float
    purposes: Mapping[str, int]
    outcomes: Mapping[str, int]
    failures: Mapping[str, int]
    unsupported: int
    anomalies: tuple[AnomalyView, ...]
    found: tuple[Found, ...]
    panels: tuple[Panel, ...]
    settings: tuple[tuple[str, str], ...]


def campaign_view(store: CampaignStore, context: ReportContext) -> CampaignView:
    """Work out the page of a campaign, finished or not."""
    records = [_without_series(record) for record in store.runs()]
    anomalies = store.anomalies()
    failures = Tally(record.result.cause for record in records if isinstance(record.result, SetupFailed))
    failures.update(f"host {record.result.host} lost" for record in records if isinstance(record.result, HostLost))
    measured = sum(isinstance(record.result, Measured) for record in records)
    return CampaignView(
        header=store.header,
        context=context,
        runs=len(records),
        elapsed_seconds=max((record.finished_at_seconds for record in records), default=0.0),
        purposes=dict(Tally(record.purpose for record in records)),
        outcomes=_outcomes(records),
        failures=dict(failures.most_common()),
        unsupported=len(records) - measured - failures.total(),
        anomalies=tuple(_anomaly_view(anomaly, records, context) for anomaly in anomalies),
        found=tuple(Found(anomaly.id, anomaly.found_at_seconds) for anomaly in anomalies),
        panels=_panels(records),
        settings=(*_flat(store.header.testbed, "testbed."), *_flat(store.header.settings)),
    )


def _without_series(record: RunRecord) -> RunRecord:
    """Drop the samples, which are most of a campaign's memory and not on the page."""
    if not isinstance(record.result, Measured):
        return record
    measurement = replace(record.result.measurement, series=())
    return replace(record, result=replace(record.result, measurement=measurement))


def _outcomes(records: Iterable[RunRecord]) -> dict[str, int]:
    tally = Tally(record.verdict.outcome for record in records if record.verdict is not None)
    return {outcome.value: tally[outcome] for outcome in Outcome if tally[outcome]}


def _panels(records: Iterable[RunRecord]) -> tuple[Panel, ...]:
    points: dict[str, list[Point]] = {}
    for record in records:
        # Confirmation and extraction run while a counter is driven, but nobody drives it with them.
        if record.driven is None or record.purpose != "search" or not isinstance(record.result, Measured):
            continue
        value = record.result.measurement.counter(record.driven)
        if value is not None:
            anomalous = record.verdict is not None and record.verdict.is_anomalous
            points.setdefault(record.driven, []).append(Point(record.finished_at_seconds, value, anomalous))
    by_size = sorted(points.items(), key=lambda item: -len(item[1]))
    return tuple(Panel(name, tuple(values)) for name, values in by_size)


def _anomaly_view(anomaly: Anomaly, records: list[RunRecord], context: ReportContext) -> AnomalyView:
    plain = context.space.base if context.space else Workload()
    workload = anomaly.workload
    shown = _typical_run(anomaly, records)
    return AnomalyView(
        anomaly=anomaly,
        conditions=tuple(_condition_row(condition, workload, plain) for condition in anomaly.mfs.conditions),
        differences=tuple(
            DifferenceRow(name, show(name, workload.get(name)), show(name, plain.get(name)))
            for name in FIELD_NAMES
            if workload.get(name) != plain.get(name)
        ),
        hosts=_host_rows(shown, records, context) if shown else (),
        figures_run=shown.run if shown else None,
        command=shlex.join(["collie", "reproduce", f"{context.place}/{anomaly.id}", "--controls"]),
        victim=shown.result.measurement.victim if shown and isinstance(shown.result, Measured) else None,
    )


def _condition_row(condition: Condition, workload: Workload, plain: Workload) -> ConditionRow:
    name = condition.dimension
    return ConditionRow(
        str(condition), show(name, feature_value(workload, name)), show(name, feature_value(plain, name))
    )


def _typical_run(anomaly: Anomaly, records: list[RunRecord]) -> RunRecord | None:
    """Return the run of the simplest workload with the middle severity, or else the run that raised the suspicion."""
    showing = sorted(
        (record.verdict.severity, record.run, record)
        for record in records
        if record.workload == anomaly.workload
        and record.verdict is not None
        and record.verdict.symptom is anomaly.symptom
    )
    if showing:
        return showing[len(showing) // 2][2]
    return next((r for r in records if r.run == anomaly.found_at_run and isinstance(r.result, Measured)), None)


def _host_rows(shown: RunRecord, records: list[RunRecord], context: ReportContext) -> tuple[HostRow, ...]:
    assert isinstance(shown.result, Measured)
    receiving = sinks(shown.workload)
    sibling = _sibling_run(shown.workload, records, context)
    sibling_receiving = sinks(sibling[0]) if sibling else ()
    beside = {host.host: host for host in sibling[1].hosts} if sibling else {}
    return tuple(
        HostRow(host.host, host.host in receiving, host.host in sibling_receiving, host, beside.get(host.host))
        for host in shown.result.measurement.hosts
    )


def _sibling_run(
    workload: Workload, records: list[RunRecord], context: ReportContext
) -> tuple[Workload, Measurement] | None:
    """Return the plain sibling and its measurement, the one that delivered most."""
    if context.space is None:
        return None
    sibling = plain_sibling(workload, context.space)
    found = [r.result.measurement for r in records if r.workload == sibling and isinstance(r.result, Measured)]
    if not found:
        return None
    return sibling, max(found, key=lambda m: max((host.delivered_bps or 0.0 for host in m.hosts), default=0.0))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in (None, [], ""):
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
