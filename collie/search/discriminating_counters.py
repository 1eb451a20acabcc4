"""Counters that an anomaly moved most against plain traffic.

1. Readings are compared per second and per packet, and the smaller increase counts. Small messages raise all packet
   counts, and a stalled host lowers all rates.
2. The reference is the median over the plain runs, in logarithms. An increase within their spread does not count.
3. A counter at zero in plain traffic has no ratio, so a floor of one event per thousand packets replaces zero. Rarer
   events cannot limit throughput.
4. Counters that restate the symptom are left out: for pause, those of pause and of the receive buffer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, median_high, median_low

from collie.counters.catalog import Catalog, Counter, CounterKind, Role
from collie.counters.series import robust_spread
from collie.detect.measurement import Measurement
from collie.detect.symptom import Symptom
from collie.search.likely_cause import DiscriminatingCounter, hint, told_apart
from collie.workloads.feature import Mfs

MAX_DISCRIMINATING = 3
_MIN_FACTOR = 2.0
_FLOOR_PER_PACKET = 1e-3
_GAUGE_FLOOR = 1.0
"""Floor of a gauge, in its unit. A percentage that moves by less than one has not moved."""


def rank(
    measurement: Measurement, plain: Sequence[Measurement], symptom: Symptom, catalog: Catalog, mfs: Mfs
) -> tuple[tuple[DiscriminatingCounter, ...], str]:
    """Return the counters that a reproducing run moved against plain runs, most moved first, and a hint for the cause.

    Both are empty if there are no runs to compare, or if no counter moved. The hint uses all moved counters. The one
    that it relies on is always among those returned, so that they bear the hint out.
    """
    packets = _packets(measurement, catalog)
    compared = [(run, count) for run in plain if (count := _packets(run, catalog))]
    if not packets or not compared:
        return (), ""
    typical = median(count for _, count in compared)
    found = []
    for counter in _candidates(symptom, catalog):
        advance = _advance(counter, (measurement, packets), compared, typical)
        if advance is not None and advance >= math.log(_MIN_FACTOR):
            reading = _middle(counter, compared, typical)
            known = counter.name, counter.component, math.exp(advance), counter.meaning
            found.append(DiscriminatingCounter(*known, reading, len(compared)))
    found.sort(key=lambda telling: -telling.factor)
    if not found:
        return (), ""
    shown = found[:MAX_DISCRIMINATING]
    relied_on = told_apart(found, mfs)
    if relied_on is not None and relied_on not in shown:
        shown[-1] = relied_on
    return tuple(shown), hint(symptom, found, mfs)


def _candidates(symptom: Symptom, catalog: Catalog) -> list[Counter]:
    if symptom is not Symptom.PAUSE:
        return [counter for counter in catalog.counters if counter.kind in {CounterKind.DIAGNOSTIC, CounterKind.PAUSE}]
    restating = {counter.component for counter in catalog.counters if counter.role is Role.TX_PAUSE}
    return [counter for counter in catalog.of_kind(CounterKind.DIAGNOSTIC) if counter.component not in restating]


def _packets(measurement: Measurement, catalog: Catalog) -> float:
    counted = [measurement.counter(counter.name) for counter in catalog.counters if counter.role is Role.RX_PACKETS]
    if known := [value for value in counted if value]:
        return max(known)
    return sum(host.delivered_pps or 0.0 for host in measurement.hosts)


_Run = tuple[Measurement, float]


def _advance(counter: Counter, reproduced: _Run, plain: Sequence[_Run], typical: float) -> float | None:
    """Return the smallest increase over all measures as a logarithm, or None if unknown or within the spread.

    `typical` is the packets/s of plain traffic, for the floor of rates per second.
    """

    def per_second(run: _Run) -> float | None:
        return _log(run[0].counter(counter.name), _FLOOR_PER_PACKET * typical)

    def per_packet(run: _Run) -> float | None:
        value = run[0].counter(counter.name)
        return None if value is None else _log(value / run[1], _FLOOR_PER_PACKET)

    def level(run: _Run) -> float | None:
        return _log(run[0].counter(counter.name), _GAUGE_FLOOR)

    advances = []
    for measure in (level,) if counter.gauge else (per_second, per_packet):
        here = measure(reproduced)
        there = [value for run in plain if (value := measure(run)) is not None]
        if here is None or not there:
            return None
        middle = median(there)
        spread = robust_spread(there, middle)
        if here - middle <= spread:
            return None
        advances.append(here - middle)
    return min(advances)


def _middle(counter: Counter, plain: Sequence[_Run], typical: float) -> float:
    """Return the median reading, in logarithms as `_advance` compares it, so that a report can print both."""
    floor = _GAUGE_FLOOR if counter.gauge else _FLOOR_PER_PACKET * typical
    known = [value for run, _ in plain if (value := run.counter(counter.name)) is not None and math.isfinite(value)]
    low, high = median_low(known), median_high(known)
    return low if low == high else math.sqrt((low + floor) * (high + floor)) - floor


def _log(value: float | None, floor: float) -> float | None:
    return None if value is None or not math.isfinite(value) else math.log(max(value, 0.0) + floor)
