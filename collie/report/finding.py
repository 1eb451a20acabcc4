"""What the page shows of one anomaly, worked out from the record."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from collie.detect.bounds import plain_sibling
from collie.detect.measurement import Measurement, Sample, Victim
from collie.ports import Measured, RunRecord
from collie.report.chart import Trace, hosts_of
from collie.report.quantities import packet_rate, percent, rate, show
from collie.report.strip import Strips, strips_of
from collie.search.anomaly import Anomaly
from collie.search.telling import Telling
from collie.workloads.feature import Condition, feature_value
from collie.workloads.plan import sinks
from collie.workloads.space import Space
from collie.workloads.workload import FIELD_NAMES, Workload


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
class Reading:
    """A reading of one host: under the anomaly, and under the plain sibling.

    Attributes:
        host: role in the plan.
        field: of `HostMeasurement`.
        title: of the reading, for people.
        here, sibling: the values; None is unknown, or that there is none.
        here_text, sibling_text: the same for people.
    """

    host: str
    field: str
    title: str
    here: float | None
    here_text: str
    sibling: float | None
    sibling_text: str


@dataclass(frozen=True, slots=True)
class CounterRow:
    """A counter that moved: under the anomaly and under plain traffic, per second over all hosts; None is unknown."""

    telling: Telling
    here: float | None
    plain: float | None


@dataclass(frozen=True, slots=True)
class Series:
    """One run over time."""

    run: int
    traces: tuple[Trace, ...]

    @property
    def hosts(self) -> list[str]:
        """Every host that has a line in it."""
        return hosts_of(self.traces)


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly.

    Attributes:
        met_again: anomalies that its explanation covers, in the order found.
        strips: the picture of its minimal feature set; None without conditions or without a space.
        run: that `readings` and `counters` are from: of the simplest workload, the one of middle severity; None when
            none was recorded.
        sibling_run: the plain sibling's; None when it did not run.
        plain_runs: how many runs of plain traffic `counters` are compared with: the sibling's, or else all there are.
        series: the confirming run of middle severity over time; None when its samples were not kept.
        commands: to run it again, with what each does.
        victim: of `run`; None when none ran beside it.
    """

    anomaly: Anomaly
    met_again: tuple[Anomaly, ...]
    conditions: tuple[ConditionRow, ...]
    strips: Strips | None
    differences: tuple[DifferenceRow, ...]
    readings: tuple[Reading, ...]
    counters: tuple[CounterRow, ...]
    run: int | None
    sibling_run: int | None
    plain_runs: int
    series: Series | None
    commands: tuple[tuple[str, str], ...]
    victim: Victim | None

    @property
    def worst_severity(self) -> float:
        """The largest of its own and of those that it explains."""
        return max(item.severity for item in (self.anomaly, *self.met_again))


def findings_of(
    anomalies: Sequence[Anomaly], records: Sequence[RunRecord], space: Space | None, place: str
) -> tuple[Finding, ...]:
    """Return each anomaly with those that it explains, the most severe first.

    Args:
        anomalies: of a campaign.
        records: its runs; those that `keeps_series` names with their samples.
        space: that was searched; None compares with Collie's defaults.
        place: the campaign's directory on a command line.
    """
    kinds = kinds_of(anomalies)
    findings = [_finding(kind, met_again, records, space, place) for kind, met_again in kinds]
    return tuple(sorted(findings, key=lambda finding: -finding.worst_severity))


def kinds_of(anomalies: Sequence[Anomaly]) -> list[tuple[Anomaly, tuple[Anomaly, ...]]]:
    """Return each anomaly that no other explains, with those that it explains, directly or by way of others."""
    by_id = {anomaly.id: anomaly for anomaly in anomalies}

    def root(anomaly: Anomaly) -> Anomaly:
        seen = {anomaly.id}
        while anomaly.same_as in by_id and anomaly.same_as not in seen:
            anomaly = by_id[anomaly.same_as]
            seen.add(anomaly.id)
        return anomaly

    roots = {anomaly.id: root(anomaly).id for anomaly in anomalies}
    return [
        (anomaly, tuple(other for other in anomalies if other is not anomaly and roots[other.id] == anomaly.id))
        for anomaly in anomalies
        if roots[anomaly.id] == anomaly.id
    ]


def keeps_series(record: RunRecord, anomalies: Iterable[Anomaly]) -> bool:
    """Whether a run may be drawn over time; the samples of all others are most of a campaign and not on the page."""
    return any(record.run == a.found_at_run or _confirms(record, a) for a in anomalies)


def _finding(
    anomaly: Anomaly, met_again: tuple[Anomaly, ...], records: Sequence[RunRecord], space: Space | None, place: str
) -> Finding:
    plain = space.base if space else Workload()
    workload = anomaly.workload
    shown = _middle([r for r in records if r.workload == workload and _shows(r, anomaly)]) or _suspicion(
        anomaly, records
    )
    here = _measurement(shown)
    sibling = _sibling_run(shown.workload, records, space) if shown else None
    plain_runs = [sibling] if sibling else [record for record in records if is_plain(record)]
    return Finding(
        anomaly=anomaly,
        met_again=met_again,
        conditions=tuple(_condition_row(condition, workload, plain) for condition in anomaly.mfs.conditions),
        strips=strips_of(anomaly.mfs, workload, space) if space and anomaly.mfs.conditions else None,
        differences=tuple(
            DifferenceRow(name, show(name, workload.get(name)), show(name, plain.get(name)))
            for name in FIELD_NAMES
            if workload.get(name) != plain.get(name)
        ),
        readings=tuple(_readings(shown, sibling)) if shown else (),
        counters=tuple(
            CounterRow(item, here.counter(item.counter) if here else None, usual(item.counter, plain_runs))
            for item in anomaly.telling
        ),
        run=shown.run if shown else None,
        sibling_run=sibling.run if sibling else None,
        plain_runs=len(plain_runs),
        series=_series(anomaly, records),
        commands=_commands(anomaly, place),
        victim=here.victim if here else None,
    )


def _commands(anomaly: Anomaly, place: str) -> tuple[tuple[str, str], ...]:
    target = f"{place}/{anomaly.id}"
    return (
        (
            "Run it again, and with each condition broken in turn",
            shlex.join(["collie", "reproduce", target, "--controls"]),
        ),
        ("Hand it to somebody without Collie", shlex.join(["collie", "export", target, "--as", "bundle"])),
    )


def _condition_row(condition: Condition, workload: Workload, plain: Workload) -> ConditionRow:
    name = condition.dimension
    return ConditionRow(
        str(condition), show(name, feature_value(workload, name)), show(name, feature_value(plain, name))
    )


# --- Which run is shown ----------------------------------------------------------------------------------------------


def _shows(record: RunRecord, anomaly: Anomaly) -> bool:
    return record.verdict is not None and record.verdict.symptom is anomaly.symptom


def _confirms(record: RunRecord, anomaly: Anomaly) -> bool:
    return record.purpose == "confirm" and record.workload == anomaly.found_as and _shows(record, anomaly)


def _middle(records: Sequence[RunRecord]) -> RunRecord | None:
    """Return the run of middle severity."""
    ranked = sorted((r.verdict.severity if r.verdict is not None else 0.0, r.run, r) for r in records)
    return ranked[len(ranked) // 2][2] if ranked else None


def _suspicion(anomaly: Anomaly, records: Sequence[RunRecord]) -> RunRecord | None:
    return next((r for r in records if r.run == anomaly.found_at_run and isinstance(r.result, Measured)), None)


def _sibling_run(workload: Workload, records: Sequence[RunRecord], space: Space | None) -> RunRecord | None:
    """Return the run of the plain sibling that delivered most."""
    if space is None:
        return None
    sibling = plain_sibling(workload, space)
    ran = [record for record in records if record.workload == sibling and isinstance(record.result, Measured)]
    return max(ran, key=_delivered, default=None)


def is_plain(record: RunRecord) -> bool:
    """Whether a run shows what plain traffic does."""
    return record.purpose in {"sibling", "calibrate"} and isinstance(record.result, Measured)


def usual(counter: str, records: Iterable[RunRecord]) -> float | None:
    """Return the median of a counter over runs; None when none tells."""
    measurements = filter(None, map(_measurement, records))
    known = [value for measurement in measurements if (value := measurement.counter(counter)) is not None]
    return median(known) if known else None


def _delivered(record: RunRecord) -> float:
    measurement = _measurement(record)
    return max((host.delivered_bps or 0.0 for host in measurement.hosts), default=0.0) if measurement else 0.0


def _measurement(record: RunRecord | None) -> Measurement | None:
    return record.result.measurement if record is not None and isinstance(record.result, Measured) else None


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of reading.

    Attributes:
        received: only a host that receives has it.
        rare: not worth a row where it is 0 or unknown.
    """

    field: str
    title: str
    write: Callable[[float | None], str]
    received: bool = False
    rare: bool = False


_KINDS = (
    _Kind("delivered_bps", "receives", rate, received=True),
    _Kind("delivered_pps", "packets received", packet_rate, received=True),
    _Kind("tx_pause_ratio", "sends pause", percent),
    _Kind("tx_pause_frames", "pause frames sent", packet_rate, rare=True),
    _Kind("rnr_ratio", "messages turned away (RNR)", percent, rare=True),
    _Kind("repeat_ratio", "packets received again", percent, rare=True),
    _Kind("loss_ratio", "packets lost or reordered", percent, rare=True),
)


def _readings(shown: RunRecord, sibling: RunRecord | None) -> Iterator[Reading]:
    here, beside = _measurement(shown), _measurement(sibling)
    receiving = sinks(shown.workload)
    sibling_receiving = sinks(sibling.workload) if sibling else ()
    others = {host.host: host for host in beside.hosts} if beside else {}
    for host in here.hosts if here else ():
        for kind in _KINDS:
            value = getattr(host, kind.field)
            if (kind.received and host.host not in receiving) or (kind.rare and not value):
                continue
            other = getattr(others.get(host.host), kind.field, None)
            none = kind.received and host.host not in sibling_receiving
            yield Reading(
                host.host,
                kind.field,
                kind.title,
                value,
                kind.write(value),
                None if none else other,
                "none" if none else kind.write(other),
            )


# --- Over time -------------------------------------------------------------------------------------------------------


def _series(anomaly: Anomaly, records: Sequence[RunRecord]) -> Series | None:
    shown = _middle([record for record in records if _confirms(record, anomaly)]) or _suspicion(anomaly, records)
    measurement = _measurement(shown)
    if shown is None or measurement is None or not measurement.series:
        return None
    readings = [
        ("delivered_bps", "receives, bit/s"),
        ("tx_pause_ratio", "sends pause, share of the time"),
        *((item.counter, f"{item.counter}, per second") for item in anomaly.telling),
    ]
    traces = [_trace(name, title, measurement.series) for name, title in readings]
    return Series(shown.run, tuple(trace for trace in traces if trace.hosts))


def _trace(name: str, title: str, series: Sequence[Sample]) -> Trace:
    """Return one reading of every host that told it at all."""
    hosts: dict[str, list[tuple[float, float | None]]] = {}
    for sample in series:
        hosts.setdefault(sample.host, []).append((sample.seconds, sample.values.get(name)))
    told = {host: values for host, values in hosts.items() if any(value is not None for _, value in values)}
    return Trace(name, title, tuple((host, tuple(values)) for host, values in told.items()))
