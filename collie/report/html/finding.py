"""One anomaly on the page."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collie.app.adapters import ReportContext
from collie.campaign.phases import Place, with_places
from collie.counters.catalog import Catalog
from collie.detect.measurement import Sample, Victim
from collie.ports import RunRecord
from collie.report.figures.chart import Trace, hosts_of, named
from collie.report.figures.strip import Strips, strips_of
from collie.report.html.readings import CounterComparison, readings_of, rises_of
from collie.report.quantities import show
from collie.report.ranking import awaits_explanation, worst_first
from collie.report.representative_runs import (
    measurement_of,
    number_of,
    quoted_run,
    sibling_run,
)
from collie.search.anomaly import NO_COUNTERS, Anomaly, causes_of
from collie.search.discriminating_counters import MAX_DISCRIMINATING
from collie.workloads.feature import feature_value
from collie.workloads.workload import FIELD_NAMES, Workload

SeriesOf = Callable[[int], Sequence[Sample]]


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A condition or dimension, with its value in the simplest workload and its plain value."""

    name: str
    here: str
    plain: str


@dataclass(frozen=True, slots=True)
class CounterRow:
    """A counter summed over all hosts, under the anomaly and in plain traffic.

    `component` is empty, and `unit` unknown, if no catalog has the counter.
    """

    counter: str
    unit: str
    component: str
    meaning: str
    here: float | None
    plain: float | None


@dataclass(frozen=True, slots=True)
class AnomalyView:
    """One anomaly of the page. Tables and picture quote one run, so that a reading has one figure.

    Attributes:
        rank: 1 for the worst.
        covered: anomalies that are joined to it.
        run: the run of its workload that its sentence quotes.
        readings: those of `run`, beside `sibling_run`.
        counters: those of `run`. Discriminating ones stand beside the median of the `plain_runs` runs of healthy plain
            traffic, against which they were chosen. An earlier record lacks it. Others stand beside `sibling_run`.
        traces, victim: those of `run`.
        commands: commands with their effects.
        places: places of the runs on set-ups that earlier runs made.
    """

    rank: int
    anomaly: Anomaly
    covered: tuple[Anomaly, ...]
    conditions: tuple[ValueRow, ...]
    strips: Strips | None
    differences: tuple[ValueRow, ...]
    readings: tuple[CounterComparison, ...]
    run: int | None
    sibling_run: int | None
    counters: tuple[CounterRow, ...]
    plain_runs: int
    traces: tuple[Trace, ...]
    commands: tuple[tuple[str, str], ...]
    victim: Victim | None
    places: Mapping[int, Place]

    @property
    def has_conditions(self) -> bool:
        """Whether more is known of the anomaly than its workload, explained to the end or not."""
        return not awaits_explanation(self.anomaly)

    @property
    def workload_is(self) -> str:
        """What the anomaly's workload is: the simplest one only of an anomaly that is explained to the end."""
        if self.anomaly.complete:
            return "the simplest workload that shows it"
        is_found = self.anomaly.workload == self.anomaly.found_as
        return f"the workload, {'as it was found' if is_found else 'as far as it was simplified'},"

    @property
    def why_no_counters(self) -> str:
        """Why plain traffic has no `counters`, or an empty string."""
        return NO_COUNTERS if self.anomaly.is_plain and not self.counters else ""

    def named(self, run: int) -> str:
        """Name a run, and its phase if an earlier run made its set-up."""
        return f"run {run} ({self.places[run]})" if run in self.places else f"run {run}"

    @property
    def hosts(self) -> list[str]:
        """Hosts in `traces`."""
        return hosts_of(self.traces)


def counters_of(context: ReportContext) -> Catalog:
    """Return the catalog of a report. It has no counter if that of the hosts is not known."""
    return context.catalog or Catalog("unknown", ())


def findings_of(
    anomalies: Sequence[Anomaly],
    records: Sequence[RunRecord],
    series_of: SeriesOf,
    context: ReportContext,
) -> tuple[AnomalyView, ...]:
    """Return the anomalies with a cause of their own, ranked."""
    joined = {cause.id: others for cause, others in causes_of(anomalies)}
    ranked = worst_first(cause for cause, _ in causes_of(anomalies))
    places = {record.run: found for record, found in with_places(records) if not record.made_set_up}
    return tuple(
        _finding(rank, cause, joined[cause.id], records, places, series_of, context)
        for rank, cause in enumerate(ranked, start=1)
    )


def _finding(
    rank: int,
    anomaly: Anomaly,
    covered: tuple[Anomaly, ...],
    records: Sequence[RunRecord],
    places: Mapping[int, Place],
    series_of: SeriesOf,
    context: ReportContext,
) -> AnomalyView:
    space = context.space
    plain = space.base if space else Workload()
    workload = anomaly.workload
    run = quoted_run(anomaly, records)
    sibling = sibling_run(run, records, space)
    measurement = measurement_of(run)
    counters = tuple(_counters(anomaly, run, sibling, counters_of(context))) if run else ()
    return AnomalyView(
        rank=rank,
        anomaly=anomaly,
        covered=covered,
        conditions=tuple(_row(str(each), each.dimension, workload, plain) for each in anomaly.mfs.conditions),
        strips=strips_of(anomaly.mfs, workload, space) if space and anomaly.mfs.conditions else None,
        differences=tuple(
            _row(name, name, workload, plain) for name in FIELD_NAMES if workload.get(name) != plain.get(name)
        ),
        readings=tuple(readings_of(run, sibling)) if run else (),
        run=number_of(run),
        sibling_run=number_of(sibling),
        counters=counters,
        plain_runs=max((item.plain_runs for item in anomaly.telling), default=0),
        traces=_traces(counters, series_of(run.run)) if run else (),
        commands=_commands(anomaly, context.place),
        victim=measurement.victim if measurement else None,
        places=places,
    )


def _counters(anomaly: Anomaly, run: RunRecord, sibling: RunRecord | None, catalog: Catalog) -> Iterator[CounterRow]:
    """Yield the discriminating counters or, before an explanation, those that rose most."""
    measurement = measurement_of(run)
    for item in anomaly.telling:
        here = measurement.counter(item.counter) if measurement else None
        yield CounterRow(item.counter, catalog.rate_unit(item.counter), item.component, item.meaning, here, item.plain)
    if sibling and not anomaly.telling:
        for rise in rises_of(run, sibling)[:MAX_DISCRIMINATING]:
            known = catalog.find(rise.counter)
            about = (known.component, known.meaning) if known else ("", "")
            yield CounterRow(rise.counter, catalog.rate_unit(rise.counter), *about, rise.here, rise.sibling)


def _commands(anomaly: Anomaly, place: str) -> tuple[tuple[str, str], ...]:
    target = f"{place}/{anomaly.id}"
    again, options = "Run it again", []
    if anomaly.mfs.conditions:
        again, options = "Run it again, and with each condition broken in turn", ["--controls"]
    return (
        (again, shlex.join(["collie", "reproduce", target, *options])),
        ("Hand it to somebody without Collie", shlex.join(["collie", "export", target, "--as", "bundle"])),
    )


def _row(text: str, feature: str, workload: Workload, plain: Workload) -> ValueRow:
    here, beside = (show(feature, feature_value(each, feature)) for each in (workload, plain))
    return ValueRow(text, here, beside)


def _traces(counters: Sequence[CounterRow], series: Sequence[Sample]) -> tuple[Trace, ...]:
    readings = [
        ("delivered_bps", "receives, bit/s"),
        ("tx_pause_ratio", "sends pause, share of the time"),
        *((row.counter, named(row.counter, row.unit)) for row in counters),
    ]
    traces = [_trace(name, title, series) for name, title in readings]
    return tuple(trace for trace in traces if trace.hosts)


def _trace(name: str, title: str, series: Sequence[Sample]) -> Trace:
    hosts: dict[str, list[tuple[float, float | None]]] = {}
    for sample in series:
        hosts.setdefault(sample.host, []).append((sample.seconds, sample.values.get(name)))
    reported = {host: values for host, values in hosts.items() if any(value is not None for _, value in values)}
    return Trace(name, title, tuple((host, tuple(values)) for host, values in reported.items()))
