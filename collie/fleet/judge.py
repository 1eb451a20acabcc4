"""The odd host of a fleet, after Minder (Deng et al., NSDI '25): machines with the same work show the same metrics.

Terms. A *metric* is a counter or the delivered rate within one probe. A *reading* is a metric of one host in one run,
as a series of samples. The *peers* of a host are readings of other hosts in runs without it. A reading *deviates* by
(reading - median of the peers) / spread of the peers, in logarithms if all peers are above zero. The spread is their
median absolute deviation, scaled to a normal standard deviation, at least `_MIN_SPREAD` of the median and one event per
window. A run deviates by what `LASTING` consecutive samples all reach on one side, a host by the least of its runs.

Invariant. A fleet without an odd host is accused with a probability of at most `false_alarm`. With N hosts, M metrics
and W stretches of `LASTING` samples per window, 2 N M W deviations can exceed the bar by chance. The bar is where
Student's t has a tail of `false_alarm / (2 N M W)`.

Worked example. Eight hosts run two probes, each host with four partners, in windows of ten seconds: N = 8, M = 2, W =
7, so the tail is 0.01 / 224 = 4.5e-5. A host has 24 peer readings per metric, which give 8 degrees of freedom and a bar
of 7.2 spreads. All hosts deliver 100 Gbit/s within 0.5 % in `stream`, so the spread is the minimum, 2 %, and the
healthy range 87 to 116 Gbit/s (exp(7.2 x 0.02) = 1.156). Host h3 delivers 80 Gbit/s with every partner: ln(0.8) / (7.2
x 0.02) = -1.5 bars: it is odd. Its partners read 80 Gbit/s in one of four runs, so their smallest deviation is near 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collie.counters.catalog import Catalog, CounterKind
from collie.counters.series import SPREAD_OF_NORMAL
from collie.fleet.battery import Probe, Stage, grouping
from collie.fleet.reading import DELIVERED, PATH_MTU, HostReading
from collie.fleet.spread import bar, freedom
from collie.fleet.verdict import FleetVerdict, HostAssessment, Metric, MetricDeviation

FALSE_ALARM: Final = 0.01
"""Default probability of accusing a fleet without an odd host."""
LASTING: Final = 4
"""Consecutive samples that a deviation must last."""
_MIN_SPREAD: Final = 0.02
"""Ordinary variation between runs, as a share of the median."""
_MIN_RUNS: Final = 2
_MIN_PARTNERS: Final = 2
_SLOW_ANSWER: Final = 0.5
"""Share of the peers' rate at doubled latency. A unit that is slow but idle between messages does not double it."""
_LARGEST: Final = 700.0  # logarithm of a finite number

_DERIVED: Final = {DELIVERED: ("throughput", "bit/s"), PATH_MTU: ("path MTU", "bytes")}
"""Component and unit of metrics that are not counters."""


def judge(
    readings: Iterable[HostReading],
    hosts: Sequence[str],
    battery: Sequence[Probe],
    catalog: Catalog,
    false_alarm: float = FALSE_ALARM,
) -> FleetVerdict:
    """Compare every host with its peers in every metric.

    A run with several senders counts only if no sender is odd among its neighbours. `battery` begins with plain probes,
    `false_alarm` is above 0 and below 1.
    """
    taken = list(readings)
    crowds = {probe.name for probe in battery if probe.stage is Stage.ALL_TO_ONE}
    pairwise = [reading for reading in taken if reading.probe not in crowds]
    if len(pairwise) < len(taken):
        odd = {standing.host for standing in _compared(pairwise, hosts, battery, catalog, false_alarm).odd}
        taken = [reading for reading in taken if reading.probe not in crowds or odd.isdisjoint(reading.partners)]
    return _compared(taken, hosts, battery, catalog, false_alarm)


def _compared(
    readings: Sequence[HostReading],
    hosts: Sequence[str],
    battery: Sequence[Probe],
    catalog: Catalog,
    false_alarm: float,
) -> FleetVerdict:
    columns = _columns(readings)
    stretches = max((column.stretches for column in columns.values()), default=1)
    tail = false_alarm / (2 * max(1, len(hosts)) * max(1, len(columns)) * stretches)
    signs: dict[str, list[MetricDeviation]] = {host: [] for host in hosts}
    for metric, column in columns.items():
        component, unit = _component(metric, catalog)
        for host, value, peers, score in column.deviations(tail):
            signs[host].append(MetricDeviation(metric, component, unit, value, *peers, score))
    standings = [_standing(host, found, battery, catalog) for host, found in signs.items() if found]
    standings.sort(key=lambda standing: -standing.score)
    known = _known(readings)
    unjudged = tuple(host for host, found in signs.items() if not found and host not in known)
    return FleetVerdict(tuple(standings), unjudged, len(columns), false_alarm)


def _known(readings: Iterable[HostReading]) -> set[str]:
    """Return the hosts with enough readings. The path MTU, read even without traffic, does not count."""
    by_probe: dict[str, list[HostReading]] = defaultdict(list)
    for reading in readings:
        if any(max(samples) > 0 for name, samples in reading.samples.items() if name != PATH_MTU):
            by_probe[reading.probe].append(reading)
    return {side.host for entries in by_probe.values() for side in _sides(entries)}


def _component(metric: Metric, catalog: Catalog) -> tuple[str, str]:
    counter = catalog.find(metric.name)
    if counter is None:
        return _DERIVED[metric.name]
    return counter.component, counter.unit.value if counter.gauge else f"{counter.unit.value}/s"


@dataclass(frozen=True, slots=True)
class _Against:
    """A host's readings as indices, and those of its peers as a mask."""

    host: str
    own: tuple[int, ...]
    peers: NDArray[np.bool_]


def _sides(readings: Sequence[HostReading]) -> list[_Against]:
    runs = np.asarray([reading.run for reading in readings])
    machine = grouping(reading.host for reading in readings)
    own: dict[str, list[int]] = defaultdict(list)
    of_machine: dict[str, set[int]] = defaultdict(set)
    for index, reading in enumerate(readings):
        own[reading.host].append(index)
        of_machine[machine(reading.host)].add(reading.run)
        for partner in reading.partners:
            of_machine[machine(partner)].add(reading.run)
    found = []
    for host, mine in own.items():
        peers = ~np.isin(runs, list(of_machine[machine(host)]))
        partners = {machine(partner) for index in mine for partner in readings[index].partners}
        is_known = len(set(runs[mine].tolist())) >= _MIN_RUNS and len(partners) >= _MIN_PARTNERS
        if is_known and peers.sum() > _MIN_RUNS:
            found.append(_Against(host, tuple(mine), peers))
    return found


@dataclass(frozen=True, slots=True)
class _Column:
    sides: Sequence[_Against]
    series: tuple[tuple[float, ...], ...]
    levels: NDArray[np.float64]
    one_event: float

    @property
    def stretches(self) -> int:
        return max(max(1, len(samples) - LASTING + 1) for samples in self.series)

    def deviations(self, tail: float) -> Iterator[tuple[str, float, tuple[float, float, float], float]]:
        """Yield host, value, healthy value with its range, and score."""
        for side in self.sides:
            peers = self.levels[side.peers]
            scale = _Scale(peers, self.one_event)
            allowed = scale.spread * bar(tail, freedom(len(peers)))
            placed = [[scale.place(value) - scale.middle for value in self.series[index]] for index in side.own]
            risen = min(_lasting(each) for each in placed)
            fallen = min(_lasting([-deviation for deviation in each]) for each in placed)
            score = (risen if risen >= fallen else -fallen) / allowed
            healthy = (
                scale.value(scale.middle),
                scale.value(scale.middle - allowed),
                scale.value(scale.middle + allowed),
            )
            yield side.host, _median(self.levels[list(side.own)]), healthy, score


class _Scale:
    """The scale of a metric: logarithmic if all peers are above zero, else linear."""

    def __init__(self, peers: NDArray[np.float64], one_event: float) -> None:
        self._one_event = one_event
        self._by_ratio = float(peers.min()) > one_event
        places = np.log(peers) if self._by_ratio else peers
        self.middle = _median(places)
        least = _MIN_SPREAD if self._by_ratio else max(_MIN_SPREAD * abs(self.middle), one_event)
        self.spread = max(SPREAD_OF_NORMAL * _median(np.abs(places - self.middle)), least)

    def place(self, value: float) -> float:
        return math.log(max(value, self._one_event)) if self._by_ratio else value

    def value(self, place: float) -> float:
        return math.exp(min(place, _LARGEST)) if self._by_ratio else max(0.0, place)


def _median(values: NDArray[np.float64]) -> float:
    """Return the median, three times as fast as `np.median`."""
    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    low, high = np.partition(values, (half - 1, half))[half - 1 : half + 1]
    return float(low + high) / 2.0


def _lasting(deviations: Sequence[float]) -> float:
    """Return the largest upward deviation that lasts, or 0."""
    first_ends = range(min(LASTING, len(deviations)), len(deviations) + 1)
    return max(0.0, max(min(deviations[max(0, end - LASTING) : end]) for end in first_ends))


def _columns(readings: Iterable[HostReading]) -> dict[Metric, _Column]:
    """Return the columns of all metrics that differ between readings."""
    by_metric: dict[Metric, list[HostReading]] = defaultdict(list)
    for reading in readings:
        for name in reading.samples:
            by_metric[Metric(reading.probe, name)].append(reading)
    found = {}
    sides: dict[tuple[int, ...], list[_Against]] = {}
    for metric, entries in by_metric.items():
        series = tuple(reading.samples[metric.name] for reading in entries)
        levels = np.asarray([sum(samples) / len(samples) for samples in series])
        if levels.min() < levels.max():
            key = tuple(map(id, entries))  # most metrics of a probe exist in all its runs
            if key not in sides:
                sides[key] = _sides(entries)
            one_event = 1.0 / median(reading.window_seconds for reading in entries)
            found[metric] = _Column(sides[key], series, levels, one_event)
    return found


def _standing(host: str, signs: list[MetricDeviation], battery: Sequence[Probe], catalog: Catalog) -> HostAssessment:
    signs.sort(key=lambda sign: -abs(sign.score))
    odd = [sign for sign in signs if sign.is_odd]
    decisive, component = _diagnosis(odd, battery, catalog) if odd else (signs[0], None)
    return HostAssessment(host, tuple(signs), decisive, component)


def _diagnosis(
    odd: Sequence[MetricDeviation], battery: Sequence[Probe], catalog: Catalog
) -> tuple[MetricDeviation, str]:
    """Return the decisive deviation and the faulty component: causes before consequences.

    1. A counter of errors rises: wrong bits cause losses, retransmissions and lower rates.
    2. The path MTU is smaller: every unit that handles packets has more work.
    3. Answers take twice as long without a shortage of any resource.
    4. Otherwise the plainest probe with a deviation decides. In a plain probe it is the resource counter that rose
       most, else the delivered rate, else the largest deviation. In a special probe it is the stressed component, if
       a resource counter rose there or the rate fell.
    """
    kinds = {counter.name: counter.kind for counter in catalog.counters}
    probes = {probe.name: probe for probe in battery}
    places = list(probes)
    odd = sorted(odd, key=lambda sign: places.index(sign.metric.probe))
    risen = [
        sign
        for sign in odd
        if sign.score > 0 and kinds.get(sign.metric.name) in (CounterKind.ERROR, CounterKind.DIAGNOSTIC)
    ]
    errors = [sign for sign in risen if kinds[sign.metric.name] is CounterKind.ERROR]
    smaller = [sign for sign in odd if sign.metric.name == PATH_MTU and sign.score < 0]
    if causes := errors or smaller:
        return causes[0], causes[0].component
    for sign in odd:
        probe = probes[sign.metric.probe]
        slow = sign.metric.name == DELIVERED and sign.value < _SLOW_ANSWER * sign.median
        if probe.is_one_at_a_time and slow and not any(each.metric.probe == probe.name for each in risen):
            return sign, probe.stresses or sign.component
    short = [sign for sign in odd if sign.metric.name == DELIVERED and sign.score < 0]
    pointing = [sign for sign in odd if not probes[sign.metric.probe].stresses or sign in risen or sign in short]
    plainest = (pointing or odd)[0].metric.probe
    there = [sign for sign in odd if sign.metric.probe == plainest]
    scarce = [sign for sign in there if sign in risen]
    delivered = [sign for sign in there if sign.metric.name == DELIVERED]
    decisive = (scarce or delivered or there)[0]
    return decisive, probes[plainest].stresses or decisive.component
