"""One anomaly on the page."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collie.campaign.phases import Place, with_places
from collie.detect.measurement import Sample, Victim
from collie.ports import RunRecord
from collie.report.figures.chart import Trace, hosts_of
from collie.report.figures.strip import Strips, strips_of
from collie.report.html.readings import CounterComparison, Rise, readings_of, rises_of
from collie.report.html.representative_runs import (
    confirming_run,
    is_plain,
    measurement_of,
    number_of,
    sibling_run,
    simplest_run,
    typical,
)
from collie.report.quantities import show
from collie.search.anomaly import Anomaly, causes_of
from collie.search.discriminating_counters import MAX_DISCRIMINATING
from collie.search.likely_cause import DiscriminatingCounter
from collie.workloads.feature import feature_value
from collie.workloads.space import Space
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
    """A counter's rate over all hosts, in the simplest workload and in plain traffic."""

    telling: DiscriminatingCounter
    here: float | None
    plain: float | None


@dataclass(frozen=True, slots=True)
class AnomalyView:
    """One anomaly of the page.

    Attributes:
        covered: anomalies that are joined to it.
        readings, rises: comparisons of `run`, which confirmed the anomaly, with `sibling_run`.
        counters: rates in `simplest_run`, and in `simplest_sibling_run` or the median of `plain_runs` plain runs.
        traces, victim: those of `run`.
        commands: commands with their effects.
        places: places of the runs on set-ups that earlier runs made.
    """

    anomaly: Anomaly
    covered: tuple[Anomaly, ...]
    conditions: tuple[ValueRow, ...]
    strips: Strips | None
    differences: tuple[ValueRow, ...]
    readings: tuple[CounterComparison, ...]
    run: int | None
    sibling_run: int | None
    counters: tuple[CounterRow, ...]
    simplest_run: int | None
    simplest_sibling_run: int | None
    plain_runs: int
    rises: tuple[Rise, ...]
    traces: tuple[Trace, ...]
    commands: tuple[tuple[str, str], ...]
    victim: Victim | None
    places: Mapping[int, Place]

    def named(self, run: int) -> str:
        """Name a run, and its phase if an earlier run made its set-up."""
        return f"run {run} ({self.places[run]})" if run in self.places else f"run {run}"

    @property
    def hosts(self) -> list[str]:
        """Hosts in `traces`."""
        return hosts_of(self.traces)

    @property
    def worst_severity(self) -> float:
        """Largest severity of the anomaly and of those that are joined to it."""
        return max(item.severity for item in (self.anomaly, *self.covered))


def findings_of(
    anomalies: Sequence[Anomaly],
    records: Sequence[RunRecord],
    series_of: SeriesOf,
    space: Space | None,
    place: str,
) -> tuple[AnomalyView, ...]:
    """Return the anomalies with a cause of their own, the most severe first. `place` is the campaign's directory."""
    causes = causes_of(anomalies)
    places = {record.run: found for record, found in with_places(records) if not record.made_set_up}
    findings = [_finding(cause, joined, records, places, series_of, space, place) for cause, joined in causes]
    return tuple(sorted(findings, key=lambda finding: -finding.worst_severity))


def _finding(
    anomaly: Anomaly,
    covered: tuple[Anomaly, ...],
    records: Sequence[RunRecord],
    places: Mapping[int, Place],
    series_of: SeriesOf,
    space: Space | None,
    place: str,
) -> AnomalyView:
    plain = space.base if space else Workload()
    workload = anomaly.workload
    confirming = confirming_run(anomaly, records)
    sibling = sibling_run(confirming, records, space)
    simplest = simplest_run(anomaly, records)
    simplest_sibling = sibling_run(simplest, records, space)
    plain_runs = [simplest_sibling] if simplest_sibling else [record for record in records if is_plain(record)]
    measurement = measurement_of(confirming)
    rises = rises_of(confirming, sibling) if confirming and sibling and not anomaly.telling else ()
    drawn = [item.counter for item in anomaly.telling] or [rise.counter for rise in rises[:MAX_DISCRIMINATING]]
    return AnomalyView(
        anomaly=anomaly,
        covered=covered,
        conditions=tuple(_row(str(each), each.dimension, workload, plain) for each in anomaly.mfs.conditions),
        strips=strips_of(anomaly.mfs, workload, space) if space and anomaly.mfs.conditions else None,
        differences=tuple(
            _row(name, name, workload, plain) for name in FIELD_NAMES if workload.get(name) != plain.get(name)
        ),
        readings=tuple(readings_of(confirming, sibling)) if confirming else (),
        run=number_of(confirming),
        sibling_run=number_of(sibling),
        counters=tuple(
            CounterRow(item, typical(item.counter, filter(None, [simplest])), typical(item.counter, plain_runs))
            for item in anomaly.telling
        ),
        simplest_run=number_of(simplest),
        simplest_sibling_run=number_of(simplest_sibling),
        plain_runs=len(plain_runs),
        rises=rises,
        traces=_traces(drawn, series_of(confirming.run)) if confirming else (),
        commands=_commands(anomaly, place),
        victim=measurement.victim if measurement else None,
        places=places,
    )


def _commands(anomaly: Anomaly, place: str) -> tuple[tuple[str, str], ...]:
    target = f"{place}/{anomaly.id}"
    again, options = "Run it again", []
    if anomaly.mfs.conditions:
        again, options = f"{again}, and with each condition broken in turn", ["--controls"]
    return (
        (again, shlex.join(["collie", "reproduce", target, *options])),
        ("Hand it to somebody without Collie", shlex.join(["collie", "export", target, "--as", "bundle"])),
    )


def _row(text: str, feature: str, workload: Workload, plain: Workload) -> ValueRow:
    here, beside = (show(feature, feature_value(each, feature)) for each in (workload, plain))
    return ValueRow(text, here, beside)


def _traces(counters: Sequence[str], series: Sequence[Sample]) -> tuple[Trace, ...]:
    readings = [
        ("delivered_bps", "receives, bit/s"),
        ("tx_pause_ratio", "sends pause, share of the time"),
        *((counter, f"{counter}, per second") for counter in counters),
    ]
    traces = [_trace(name, title, series) for name, title in readings]
    return tuple(trace for trace in traces if trace.hosts)


def _trace(name: str, title: str, series: Sequence[Sample]) -> Trace:
    hosts: dict[str, list[tuple[float, float | None]]] = {}
    for sample in series:
        hosts.setdefault(sample.host, []).append((sample.seconds, sample.values.get(name)))
    reported = {host: values for host, values in hosts.items() if any(value is not None for _, value in values)}
    return Trace(name, title, tuple((host, tuple(values)) for host, values in reported.items()))
