"""The odd host of a fleet, after Minder (Deng et al., NSDI '25): machines with the same work show the same metrics.

Terms. A *metric* is a counter or the delivered rate within one probe. A *reading* is a metric of one host in one run,
as a series of samples. The *peers* of a host are readings of other hosts in runs without it: a fault affects both ends
of a run, so partners are no evidence against the host.

A reading *deviates* by (reading - median of the peers) / spread of the peers, in logarithms if all peers are above
zero, so that half and twice as much are equally far. The spread is their median absolute deviation, scaled to a normal
standard deviation, at least `MIN_SPREAD` of the median and one event per window. A host's deviation is the smallest
over `LASTING` consecutive samples on one side, and of that the smallest over all its runs.

Invariant. A fleet without an odd host is accused with a probability of at most `false_alarm`. With N hosts, M metrics
and W stretches of `LASTING` samples per window, 2 N M W deviations can exceed the bar by chance. Each has a share of
`false_alarm / (2 N M W)`, and the bar is where Student's t has that tail (`spread.bar`). The agreement of all runs
lowers the probability further, which is not counted: healthy hosts differ slightly, and consistently.

Worked example. Eight hosts run two probes, each host with four partners, in windows of ten seconds: N = 8, M = 2, W =
7, so each deviation has a share of 0.01 / 224 = 4.5e-5. A host has 24 peer readings per metric, which give 8 degrees of
freedom and a bar of 7.2 spreads. All hosts deliver 100 Gbit/s within 0.5 % in `stream`, so the spread is the minimum, 2
%, and the healthy range 87 to 116 Gbit/s (exp(7.2 x 0.02) = 1.156). Host h3 delivers 80 Gbit/s with every partner:
ln(0.8) / (7.2 x 0.02) = -1.5 bars, odd. Its partners also read 80 Gbit/s, but in one of four runs, so their smallest
deviation is near 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collie.counters.catalog import Catalog, CounterKind
from collie.counters.spread import SPREAD_OF_NORMAL
from collie.fleet.battery import Probe, Stage, grouping
from collie.fleet.reading import DELIVERED, PATH_MTU, HostReading
from collie.fleet.spread import bar, freedom
from collie.fleet.verdict import FleetVerdict, HostAssessment, Metric, MetricDeviation

FALSE_ALARM: Final = 0.01
"""Default probability that a fleet without an odd host is accused."""
LASTING: Final = 4
"""Consecutive samples of a deviation: the minimum of a stable window elsewhere in Collie."""
MIN_SPREAD: Final = 0.02
"""Minimum spread, as a share of the median: ordinary variation between runs (`counters.unusual`)."""
MIN_RUNS: Final = 2
"""Minimum runs of a host. Its peers need one reading more."""
MIN_PARTNERS: Final = 2
"""Minimum number of partner hosts, to separate a host from its partner."""
SLOW_ANSWER: Final = 0.5
"""Share of the peers' rate below which a host with one message at a time is obstructed. A slow unit, idle meanwhile,
does not double the latency."""
_LARGEST: Final = 700.0
"""Largest logarithm of a finite number."""

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

    With several senders, any of them can cause a deviation. Such a run counts only if no sender is odd among its
    neighbours.

    Args:
        readings: of all runs.
        hosts: the whole fleet.
        battery: the probes, plain ones first.
        catalog: describes the counters.
        false_alarm: probability of accusing a fleet without an odd host. Above 0 and below 1.
    """
    taken = list(readings)
    crowds = {probe.name for probe in battery if probe.stage is Stage.ALL_TO_ONE}
    if any(reading.probe in crowds for reading in taken):
        pairwise = _compared(
            [reading for reading in taken if reading.probe not in crowds], hosts, battery, catalog, false_alarm
        )
        odd = {standing.host for standing in pairwise.odd}
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
    """Return the hosts with enough readings, whether or not any differ.

    The agreed path MTU does not count: it exists even for a run without readings or traffic.
    """
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


class _Peers(NamedTuple):
    median: float
    low: float
    high: float


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
        is_known = len(set(runs[mine].tolist())) >= MIN_RUNS and len(partners) >= MIN_PARTNERS
        if is_known and peers.sum() > MIN_RUNS:
            found.append(_Against(host, tuple(mine), peers))
    return found


@dataclass(frozen=True, slots=True)
class _Column:
    """All readings of one metric.

    Attributes:
        series: the samples of each reading.
        levels: mean of each reading.
        one_event: rate of one event in the window.
    """

    sides: Sequence[_Against]
    series: tuple[tuple[float, ...], ...]
    levels: NDArray[np.float64]
    one_event: float

    @property
    def stretches(self) -> int:
        return max(max(1, len(samples) - LASTING + 1) for samples in self.series)

    def deviations(self, tail: float) -> Iterator[tuple[str, float, _Peers, float]]:
        for side in self.sides:
            peers = self.levels[side.peers]
            scale = _Scale(peers, self.one_event)
            allowed = scale.spread * bar(tail, freedom(len(peers)))
            placed = [[scale.place(value) - scale.middle for value in self.series[index]] for index in side.own]
            risen = min(_lasting(each) for each in placed)
            fallen = min(_lasting([-deviation for deviation in each]) for each in placed)
            score = (risen if risen >= fallen else -fallen) / allowed
            known = _Peers(*(scale.value(scale.middle + step) for step in (0.0, -allowed, allowed)))
            yield side.host, _median(self.levels[list(side.own)]), known, score


class _Scale:
    """The scale of a metric: logarithmic if all peers are above zero, else linear.

    On a linear scale a low rate deviates by at most its median.

    Args:
        peers: their levels.
        one_event: rate of one event in the window, the resolution.

    Attributes:
        middle: median of the peers on this scale.
        spread: of the peers on this scale.
    """

    def __init__(self, peers: NDArray[np.float64], one_event: float) -> None:
        self._one_event = one_event
        self._by_ratio = float(peers.min()) > one_event
        places = np.log(peers) if self._by_ratio else peers
        self.middle = _median(places)
        least = MIN_SPREAD if self._by_ratio else max(MIN_SPREAD * abs(self.middle), one_event)
        self.spread = max(SPREAD_OF_NORMAL * _median(np.abs(places - self.middle)), least)

    def place(self, value: float) -> float:
        return math.log(max(value, self._one_event)) if self._by_ratio else value

    def value(self, place: float) -> float:
        """Return the value at a place, at least zero."""
        return math.exp(min(place, _LARGEST)) if self._by_ratio else max(0.0, place)


def _median(values: NDArray[np.float64]) -> float:
    """Return the median, three times as fast as `np.median`."""
    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    low, high = np.partition(values, (half - 1, half))[half - 1 : half + 1]
    return float(low + high) / 2.0


def _lasting(deviations: Sequence[float]) -> float:
    """Return the largest lasting deviation upwards, or 0 without one."""
    first_ends = range(min(LASTING, len(deviations)), len(deviations) + 1)
    return max(0.0, max(min(deviations[max(0, end - LASTING) : end]) for end in first_ends))


def _columns(readings: Iterable[HostReading]) -> dict[Metric, _Column]:
    """Group readings by metric, without metrics that read the same everywhere."""
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
    telling, component = _diagnosis(odd, battery, catalog) if odd else (signs[0], None)
    return HostAssessment(host, tuple(signs), telling, component)


def _diagnosis(
    odd: Sequence[MetricDeviation], battery: Sequence[Probe], catalog: Catalog
) -> tuple[MetricDeviation, str]:
    """Return the decisive deviation of a host and the faulty component: causes before consequences.

    1. A counter of errors rises: wrong bits cause losses, retransmissions and lower rates.
    2. The path MTU is smaller: every unit that handles packets has more work.
    3. Answers take twice as long (`SLOW_ANSWER`) without a shortage of any resource.
    4. Otherwise the plainest probe with a deviation decides. In a plain probe it is the resource counter that rose
       most, else the delivered rate, else the largest deviation. In a special probe it is the stressed component, if
       such a counter rose or the rate fell: missing pause points at no component.

    Args:
        odd: not empty, the largest deviation first.
        battery: the probes, plain ones first.
        catalog: describes the counters.
    """
    kinds = {counter.name: counter.kind for counter in catalog.counters}
    probes = {probe.name: (place, probe) for place, probe in enumerate(battery)}
    odd = sorted(odd, key=lambda sign: probes[sign.metric.probe][0])
    risen = [
        sign
        for sign in odd
        if sign.score > 0 and kinds.get(sign.metric.name) in (CounterKind.ERROR, CounterKind.DIAGNOSTIC)
    ]
    for sign in risen:
        if kinds[sign.metric.name] is CounterKind.ERROR:
            return sign, sign.component
    for sign in odd:
        if sign.metric.name == PATH_MTU and sign.score < 0:
            return sign, sign.component
    for sign in odd:
        _, probe = probes[sign.metric.probe]
        slow = sign.metric.name == DELIVERED and sign.value < SLOW_ANSWER * sign.median
        if probe.is_one_at_a_time and slow and not any(each.metric.probe == probe.name for each in risen):
            return sign, probe.stresses or sign.component
    short = [sign for sign in odd if sign.metric.name == DELIVERED and sign.score < 0]
    telling_probes = [
        sign for sign in odd if not probes[sign.metric.probe][1].stresses or sign in risen or sign in short
    ]
    plainest = (telling_probes or odd)[0].metric.probe
    there = [sign for sign in odd if sign.metric.probe == plainest]
    scarce = [sign for sign in there if sign in risen]
    delivered = [sign for sign in there if sign.metric.name == DELIVERED]
    telling = (scarce or delivered or there)[0]
    return telling, probes[plainest][1].stresses or telling.component
