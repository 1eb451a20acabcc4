"""The content of the page, computed from the record."""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collie.app.adapters import ReportContext
from collie.counters.catalog import Catalog
from collie.detect.measurement import Sample
from collie.detect.symptom import Outcome
from collie.inventory.fingerprint import Fingerprint
from collie.ports import CampaignHeader, CampaignStore, Measured, RunRecord
from collie.report.figures.chart import AnomalyMarker, Driven, Point
from collie.report.html.coverage import DimensionCoverage, coverage_of
from collie.report.html.finding import AnomalyView, SeriesOf, counters_of, findings_of
from collie.report.html.neighbours import Neighbour, neighbours_of
from collie.report.html.unanswered import FailureGroup, unanswered
from collie.report.representative_runs import measurement_of, siblings
from collie.search.anomaly import Anomaly
from collie.workloads.space import Space

_MAX_READINGS = 500_000
"""Limit on the readings of a page. Five thousand runs have 300,000."""
_MAX_DRAWN_SAMPLES = 50_000
"""Limit on the samples drawn on a page. A hundred anomalies on eight hosts have 30,000."""


@dataclass(frozen=True, slots=True)
class FingerprintRow:
    """One field of the fingerprints, with each host's value. None is an unknown value."""

    field: str
    values: tuple[Any, ...]

    @property
    def differs(self) -> bool:
        """Whether the hosts are known to differ."""
        return len({json.dumps(value, sort_keys=True) for value in self.values if value is not None}) > 1


@dataclass(frozen=True, slots=True)
class CampaignView:
    """The content of the page. `purposes` and `outcomes` count runs."""

    header: CampaignHeader
    context: ReportContext
    runs: int
    set_ups: int
    elapsed_seconds: float
    purposes: Mapping[str, int]
    outcomes: Mapping[str, int]
    unanswered: tuple[FailureGroup, ...]
    findings: tuple[AnomalyView, ...]
    neighbours: tuple[Neighbour, ...]
    found: tuple[AnomalyMarker, ...]
    driven: tuple[Driven, ...]
    coverage: tuple[DimensionCoverage, ...]
    fingerprint: tuple[FingerprintRow, ...]
    settings: tuple[tuple[str, str], ...]


def campaign_view(store: CampaignStore, context: ReportContext) -> CampaignView:
    """Return the content of a campaign's page."""
    anomalies = store.anomalies()
    records = list(_read(store, anomalies, context.space))
    findings = findings_of(anomalies, records, _drawn(store), context)
    return CampaignView(
        header=store.header,
        context=context,
        runs=len(records),
        set_ups=set_ups(records),
        elapsed_seconds=elapsed_seconds(records),
        purposes=dict(Tally(record.purpose for record in records)),
        outcomes=_outcomes(records),
        unanswered=unanswered(records),
        findings=findings,
        neighbours=neighbours_of(findings),
        found=tuple(marker(finding.anomaly, str(finding.rank)) for finding in findings),
        driven=_driven(records, counters_of(context)),
        coverage=coverage_of(records, context.space) if context.space else (),
        fingerprint=_fingerprint_rows(context.fingerprints),
        settings=(*_flat(store.header.testbed, "testbed."), *_flat(store.header.settings)),
    )


def _read(store: CampaignStore, anomalies: Sequence[Anomaly], space: Space | None) -> Iterator[RunRecord]:
    """Yield all runs. Those that can be quoted keep counters up to `_MAX_READINGS`, others only the driven counter."""
    left, displayed = _MAX_READINGS, {each for anomaly in anomalies for each in (anomaly.workload, anomaly.found_as)}
    if space:  # the search can have run a plain sibling itself
        displayed |= {sibling for workload in displayed for sibling in siblings(workload, space)}
    for record in store.runs(with_series=False):
        if (record.purpose == "confirm" or record.workload in displayed) and left > 0:
            measurement = measurement_of(record)
            left -= sum(len(host.counters) for host in measurement.hosts) if measurement else 0
            yield record
        else:
            yield _with_driven_counter_alone(record)


def _with_driven_counter_alone(record: RunRecord) -> RunRecord:
    if not isinstance(record.result, Measured):
        return record
    measurement = record.result.measurement
    hosts = tuple(
        replace(host, counters={name: value for name, value in host.counters.items() if name == record.driven})
        for host in measurement.hosts
    )
    return replace(record, result=replace(record.result, measurement=replace(measurement, hosts=hosts)))


def _drawn(store: CampaignStore) -> SeriesOf:
    """Return a function that reads a run's samples. It returns none once the page has `_MAX_DRAWN_SAMPLES`."""
    left = _MAX_DRAWN_SAMPLES

    def series_of(run: int) -> Sequence[Sample]:
        nonlocal left
        series = store.series(run) if left > 0 else ()
        left -= len(series)
        return series

    return series_of


def elapsed_seconds(records: Iterable[RunRecord]) -> float:
    """Return the testbed time of runs."""
    return max((record.finished_at_seconds for record in records), default=0.0)


def set_ups(records: Iterable[RunRecord]) -> int:
    """Return the number of set-ups of runs."""
    return sum(record.made_set_up for record in records)


def marker(anomaly: Anomaly, label: str) -> AnomalyMarker:
    """Return the mark of an anomaly in a chart."""
    return AnomalyMarker(anomaly.id, anomaly.found_at_seconds, anomaly.severity, label, anomaly.complete)


def _outcomes(records: Iterable[RunRecord]) -> dict[str, int]:
    tally = Tally(record.verdict.outcome for record in records if record.verdict is not None)
    return {outcome.value: tally[outcome] for outcome in Outcome if tally[outcome]}


def _driven(records: Iterable[RunRecord], catalog: Catalog) -> tuple[Driven, ...]:
    points: dict[str, list[Point]] = {}
    for record in records:
        # Confirmation and extraction also run while a counter is driven, but do not drive it.
        if record.driven is None or record.purpose != "search" or not isinstance(record.result, Measured):
            continue
        value = record.result.measurement.counter(record.driven)
        if value is not None:
            anomalous = record.verdict is not None and record.verdict.is_anomalous
            point = Point(record.run, record.finished_at_seconds, value, anomalous)
            points.setdefault(record.driven, []).append(point)
    by_size = sorted(points.items(), key=lambda item: -len(item[1]))
    return tuple(Driven(name, catalog.rate_unit(name), tuple(values)) for name, values in by_size)


def _fingerprint_rows(fingerprints: Mapping[str, Fingerprint]) -> tuple[FingerprintRow, ...]:
    fields = [fingerprint.fields for fingerprint in fingerprints.values()]
    names = dict.fromkeys(name for host in fields for name in host)
    return tuple(FingerprintRow(name, tuple(host.get(name) for host in fields)) for name in names)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in (None, [], ""):
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
