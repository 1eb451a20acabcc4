"""Which host is the odd one, after Minder (Deng et al., NSDI '25): machines that do the same show the same.

Terms. A *metric* is a counter, or what the generator delivered, within one probe of the battery. A *reading* is a
metric of one host in one run, as a series of samples. The *peers* of a host are the readings of the others in runs that
the host had no part in: a fault shows at both ends of a run, so what a host's own partners read proves nothing against
it.

A reading *deviates* by (reading - median of the peers) / spread of the peers; of logarithms where all peers read
something, so that half as much is as far off as twice as much. The spread is their median absolute deviation, scaled to
a normal distribution's standard deviation, and never less than what nobody would call unusual (`MIN_SPREAD`) or than
one event in the window. The deviation of a host has to *last*: it is the least of `LASTING` consecutive samples, on one
side, and of that the least over all runs of the host. So it is what the host shows whomever it is paired with, and a
neighbour of an odd host, which is odd in one pair of four, stays at its place.

False alarms. A fleet with nothing odd is accused with a chance of at most `false_alarm`. With N hosts, M metrics
compared and W stretches of `LASTING` samples in a window, 2 N M W deviations could exceed the bar by chance (on either
side); each may do so with a chance of `false_alarm / (2 N M W)`, and the bar is where Student's t has that tail
(`spread.bar`). That the deviation has to hold in every run of the host comes on top. It is not counted, as healthy
hosts differ a little too, and one that does so does it in all of its runs.
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

FALSE_ALARM: Final = 0.01
"""Chance that a fleet with nothing odd is accused, unless the user states another: one such fleet in a hundred."""
LASTING: Final = 4
"""Consecutive samples for which a deviation has to last: what makes a window stable elsewhere in Collie."""
MIN_SPREAD: Final = 0.02
"""Of the median: traffic differs by so much from run to run without anybody calling it unusual (`counters.unusual`)."""
MIN_RUNS: Final = 2
"""Of a host, and readings of its peers at least one more, before it is compared with them."""
MIN_PARTNERS: Final = 2
"""Machines that a host was in runs with, before it can be told from its partner."""
SLOW_ANSWER: Final = 0.5
"""Share of its peers' rate below which a host that sends one message at a time has something in its way: answers that
take twice as long are no matter of a slower unit, which has nothing to do meanwhile."""
_LARGEST: Final = 700.0
"""Logarithm up to which there are numbers."""

_DERIVED: Final = {DELIVERED: ("throughput", "bit/s"), PATH_MTU: ("path MTU", "bytes")}
"""Component and unit of what is no counter."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What is compared: a name as in `Reading.samples`, within a probe."""

    probe: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.probe})"


@dataclass(frozen=True, slots=True)
class MetricDeviation:
    """A metric of a host against its peers.

    Attributes:
        metric: which.
        component: the part that it points at, by the catalog.
        unit: of the values.
        value: median over the host's runs.
        median: of the peers.
        low, high: the healthy range: what chance explains among the peers.
        score: lasting deviation over the bar; at 1 chance is no explanation any more. Negative where the host reads
            less than its peers.
    """

    metric: Metric
    component: str
    unit: str
    value: float
    median: float
    low: float
    high: float
    score: float

    @property
    def is_odd(self) -> bool:
        """Whether chance is no explanation."""
        return abs(self.score) >= 1.0


@dataclass(frozen=True, slots=True)
class HostAssessment:
    """One host.

    Attributes:
        host: its name.
        signs: everything compared, the largest deviation first.
        telling: what gives it away; of a host that is not odd, the metric in which it comes nearest to that.
        component: what is at fault, as far as the battery tells; None unless the host is odd.
    """

    host: str
    signs: tuple[MetricDeviation, ...]
    telling: MetricDeviation
    component: str | None

    @property
    def is_odd(self) -> bool:
        """Whether it is not like the others."""
        return self.component is not None

    @property
    def score(self) -> float:
        """How far what gives it away is off, in bars, whatever the side."""
        return abs(self.telling.score)

    @property
    def odd_signs(self) -> tuple[MetricDeviation, ...]:
        """The metrics in which it is odd, what gives it away first."""
        return tuple(sorted((sign for sign in self.signs if sign.is_odd), key=lambda sign: sign is not self.telling))


@dataclass(frozen=True, slots=True)
class FleetVerdict:
    """All hosts.

    Attributes:
        standings: the oddest host first.
        unjudged: hosts of which too little was read to compare them.
        metrics: compared.
        false_alarm: chance that a fleet with nothing odd is accused, at most.
    """

    standings: tuple[HostAssessment, ...]
    unjudged: tuple[str, ...]
    metrics: int
    false_alarm: float

    @property
    def odd(self) -> tuple[HostAssessment, ...]:
        """The hosts that are not like the others, the oddest first."""
        return tuple(standing for standing in self.standings if standing.is_odd)


def judge(
    readings: Iterable[HostReading],
    hosts: Sequence[str],
    battery: Sequence[Probe],
    catalog: Catalog,
    false_alarm: float = FALSE_ALARM,
) -> FleetVerdict:
    """Compare every host with its peers, in every metric.

    One of several that send to the same host may be what is odd about the run: where several did, a run counts only
    when no sender was found odd with its neighbours.

    Args:
        readings: of all runs.
        hosts: that should have been measured.
        battery: the probes, plain ones first.
        catalog: describes the counters.
        false_alarm: chance that a fleet with nothing odd is accused; above 0 and below 1.
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
    """Return the hosts of which enough is known, whether or not anything differs between any two.

    What was agreed on is known of a run that nobody could read, and of one in which nothing moved.
    """
    by_probe: dict[str, list[HostReading]] = defaultdict(list)
    for reading in readings:
        if any(max(samples) > 0 for name, samples in reading.samples.items() if name != PATH_MTU):
            by_probe[reading.probe].append(reading)
    return {side.host for entries in by_probe.values() for side in _sides(entries)}


def _component(metric: Metric, catalog: Catalog) -> tuple[str, str]:
    """Return the component that a metric points at, and its unit."""
    counter = catalog.find(metric.name)
    if counter is None:
        return _DERIVED[metric.name]
    return counter.component, counter.unit.value if counter.gauge else f"{counter.unit.value}/s"


class _Peers(NamedTuple):
    """What the peers of a host read: median, and the range that chance explains."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Against:
    """A host's own readings, as indices, and those of its peers, as a mask."""

    host: str
    own: tuple[int, ...]
    peers: NDArray[np.bool_]


def _sides(readings: Sequence[HostReading]) -> list[_Against]:
    """Return who is compared with what, for every host of which enough is known."""
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
    """One metric: every reading of it.

    Attributes:
        sides: who is compared with what.
        series: the samples of each reading.
        levels: mean of each reading.
        one_event: per second: what one event in the window comes to.
    """

    sides: Sequence[_Against]
    series: tuple[tuple[float, ...], ...]
    levels: NDArray[np.float64]
    one_event: float

    @property
    def stretches(self) -> int:
        """In how many places of a window a deviation may last long enough."""
        return max(max(1, len(samples) - LASTING + 1) for samples in self.series)

    def deviations(self, tail: float) -> Iterator[tuple[str, float, _Peers, float]]:
        """Yield host, its level, its peers and its score, for each host of which enough is known."""
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
    """How far apart values are: by their ratio where all peers read something, else by their difference.

    By difference nothing can lie more than its own median below it, however little is left of a rate.

    Args:
        peers: their levels.
        one_event: what one event in the window comes to: less is not told from it.

    Attributes:
        middle: median of the peers, as a place.
        spread: of the peers, between places.
    """

    def __init__(self, peers: NDArray[np.float64], one_event: float) -> None:
        self._one_event = one_event
        self._by_ratio = float(peers.min()) > one_event
        places = np.log(peers) if self._by_ratio else peers
        self.middle = _median(places)
        least = MIN_SPREAD if self._by_ratio else max(MIN_SPREAD * abs(self.middle), one_event)
        self.spread = max(SPREAD_OF_NORMAL * _median(np.abs(places - self.middle)), least)

    def place(self, value: float) -> float:
        """Return where a value lies."""
        return math.log(max(value, self._one_event)) if self._by_ratio else value

    def value(self, place: float) -> float:
        """Return the value at a place; none is below zero."""
        return math.exp(min(place, _LARGEST)) if self._by_ratio else max(0.0, place)


def _median(values: NDArray[np.float64]) -> float:
    """Return the median: `np.median` does the same at three times the price."""
    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    low, high = np.partition(values, (half - 1, half))[half - 1 : half + 1]
    return float(low + high) / 2.0


def _lasting(deviations: Sequence[float]) -> float:
    """Return the largest deviation to the upper side that lasts; 0 where none does."""
    first_ends = range(min(LASTING, len(deviations)), len(deviations) + 1)
    return max(0.0, max(min(deviations[max(0, end - LASTING) : end]) for end in first_ends))


def _columns(readings: Iterable[HostReading]) -> dict[Metric, _Column]:
    """Sort readings by metric; one that reads the same everywhere tells nobody apart, and is left out."""
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
            key = tuple(map(id, entries))  # most metrics of a probe are read in all of its runs
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
    """Return what gives a host away, and the component at fault: causes before what follows from them.

    1. A counter of errors moves: wrong bits make for losses, repetitions and a slower flow.
    2. The path MTU is smaller: that makes more work for every unit that handles packets.
    3. Answers take twice as long (`SLOW_ANSWER`), and nothing is short meanwhile: that slows all that waits for them.
    4. Otherwise the plainest probe in which the host is odd tells. In a plain one it is the counter of a resource that
       has risen most, else what was delivered, else what deviates most; in a special one the component that the probe
       stresses, if such a counter has risen or less was delivered there: pause that is missing tells of no component.

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
