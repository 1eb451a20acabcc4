"""Readings of each host under an anomaly and under its plain sibling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from collie.detect.measurement import Latency, Measurement
from collie.ports import RunRecord
from collie.report.quantities import packet_rate, percent, rate
from collie.report.representative_runs import measurement_of
from collie.workloads.plan import sinks
from collie.workloads.units import format_short_seconds
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class CounterComparison:
    """One reading here and in the plain sibling.

    Attributes:
        subject: host, flow, or `victim`.
        source: where the reading stands in a measurement, such as `hosts/b/delivered_bps`.
    """

    subject: str
    source: str
    title: str
    here: float | None
    here_text: str
    sibling: float | None
    sibling_text: str


@dataclass(frozen=True, slots=True)
class Rise:
    """A counter that is higher than in the plain sibling, summed over all hosts."""

    counter: str
    here: float
    sibling: float


_MIN_RISE = 2.0
_SILENT = 1.0
"""Events per second that are added to both rates, because a rise from 0 has no ratio."""


def rises_of(displayed: RunRecord, sibling: RunRecord) -> tuple[Rise, ...]:
    """Return the counters that rose most, the highest first."""
    here, beside = measurement_of(displayed), measurement_of(sibling)
    if here is None or beside is None:
        return ()
    names = dict.fromkeys(name for host in here.hosts for name in host.counters)
    known = [(name, here.counter(name), beside.counter(name)) for name in names]
    rises = [Rise(name, more, less) for name, more, less in known if more is not None and less is not None]
    ranked = sorted(rises, key=_factor, reverse=True)
    return tuple(rise for rise in ranked if _factor(rise) >= _MIN_RISE)


def _factor(rise: Rise) -> float:
    return (rise.here + _SILENT) / (rise.sibling + _SILENT)


@dataclass(frozen=True, slots=True)
class _Kind:
    field: str
    title: str
    write: Callable[[float | None], str]
    received: bool = False  # only for receiving hosts
    rare: bool = False  # omitted where 0 or unknown


_KINDS = (
    _Kind("delivered_bps", "receives", rate, received=True),
    _Kind("delivered_pps", "packets received", packet_rate, received=True),
    _Kind("tx_pause_ratio", "sends pause", percent),
    _Kind("tx_pause_frames", "pause frames sent", packet_rate, rare=True),
    _Kind("rnr_ratio", "messages turned away (RNR)", percent, rare=True),
    _Kind("repeat_ratio", "packets received again", percent, rare=True),
    _Kind("loss_ratio", "packets lost or reordered", percent, rare=True),
)


def readings_of(displayed: RunRecord, sibling: RunRecord | None) -> Iterator[CounterComparison]:
    """Yield the readings of every host, host A first, then latencies at an offered load, then the victim."""
    here, beside = measurement_of(displayed), measurement_of(sibling)
    receiving = sinks(displayed.workload)
    sibling_receiving = sinks(sibling.workload) if sibling else ()
    others = {host.host: host for host in beside.hosts} if beside else {}
    for host in here.hosts if here else ():
        for kind in _KINDS:
            value = getattr(host, kind.field)
            if (kind.received and host.host not in receiving) or (kind.rare and not value):
                continue
            other = getattr(others.get(host.host), kind.field, None)
            none = kind.received and host.host not in sibling_receiving
            yield CounterComparison(
                host.host,
                f"hosts/{host.host}/{kind.field}",
                kind.title,
                value,
                kind.write(value),
                None if none else other,
                "none" if none else kind.write(other),
            )
    if here is not None:
        yield from _latencies(displayed.workload, here, beside)
        yield from _victim(here, beside)


_QUANTILES = (("median_seconds", "half of the messages within"), ("p99_seconds", "99% of the messages within"))


def _latencies(workload: Workload, here: Measurement, beside: Measurement | None) -> Iterator[CounterComparison]:
    """Yield the latency of each flow. With full send queues it only tells their length."""
    if not workload.offered_bps:
        return
    for flow, latency in here.latency.items():
        yield from _quantiles(flow, f"latency/{flow}", latency, beside.latency.get(flow) if beside else None)


def _quantiles(subject: str, source: str, here: Latency, beside: Latency | None) -> Iterator[CounterComparison]:
    for field, title in _QUANTILES:
        value, other = getattr(here, field), getattr(beside, field, None)
        if value is not None:
            text = "none" if other is None else format_short_seconds(other)
            place = f"{source}/{field}"
            yield CounterComparison(subject, place, title, value, format_short_seconds(value), other, text)


def _victim(here: Measurement, beside: Measurement | None) -> Iterator[CounterComparison]:
    if here.victim is None:
        return
    sibling = beside.victim if beside else None
    value, other = here.victim.beside_bps, sibling.beside_bps if sibling else None
    yield CounterComparison("victim", "victim/beside_bps", "receives", value, rate(value), other, rate(other))
    if here.victim.offered_bps and here.victim.latency is not None:
        yield from _quantiles("victim", "victim/latency", here.victim.latency, sibling.latency if sibling else None)
