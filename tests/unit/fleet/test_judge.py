"""The worked example of the judgement, and the order in which a component is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import mul
from statistics import median

import pytest

from collie.counters.catalog import Catalog, Counter, CounterKind, Unit
from collie.fleet.battery import BATTERY, Probe, Stage, rounds
from collie.fleet.judge import judge
from collie.fleet.reading import DELIVERED, PATH_MTU, HostReading
from collie.fleet.spread import bar, freedom
from collie.fleet.verdict import FleetVerdict, HostAssessment, Metric
from collie.workloads.workload import Workload

CATALOG = Catalog(
    "made-up",
    (
        Counter("rx_packets", "model", Unit.PACKETS, CounterKind.PERFORMANCE, "wire"),
        Counter("stalls", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "PCIe"),
        Counter("wrong", "model", Unit.PACKETS, CounterKind.ERROR, "cable"),
        Counter("refused", "model", Unit.PACKETS, CounterKind.ERROR, "firmware"),
        Counter("level", "model", Unit.PERCENT, CounterKind.INFO, "cache", gauge=True),
    ),
)
HOSTS = tuple(f"h{index}" for index in range(8))
FIRST, SECOND = (Probe(name, Stage.RING, Workload()) for name in ("first", "second"))
SPECIAL = Probe("special", Stage.RING, Workload(), "acknowledgement unit")
OTHER_SPECIAL = Probe("other", Stage.RING, Workload(), "receive buffer")
SLOWLY = next(probe for probe in BATTERY if probe.is_one_at_a_time)
CROWD = next(probe for probe in BATTERY if probe.stage is Stage.ALL_TO_ONE)
SECONDS = 10

Odd = Mapping[tuple[str, str], float]
"""Factor on a metric of every run with host h3, by probe and metric."""


def readings(
    probes: tuple[Probe, ...],
    odd: Odd,
    metrics: tuple[str, ...] = (DELIVERED,),
    seconds: Callable[[int], int] = lambda run: SECONDS,
) -> list[HostReading]:
    """Return what a ring reads: levels within 0.5 %, and those of host h3 apart."""
    groups = [group.hosts for each in rounds(HOSTS, [FIRST]) for group in each]
    return [
        HostReading(
            host,
            1000 * place + run,
            (partner,),
            probe.name,
            {
                metric: (
                    100e9 * (1.0 + 0.001 * (run % 5)) * (odd.get((probe.name, metric), 1.0) if "h3" in pair else 1.0),
                )
                * seconds(run)
                for metric in metrics
            },
            float(SECONDS),
        )
        for place, probe in enumerate(probes)
        for run, pair in enumerate(groups)
        for host, partner in (pair, pair[::-1])
    ]


def judged(probes: tuple[Probe, ...], odd: Odd, *metrics: str) -> FleetVerdict:
    return judge(readings(probes, odd, metrics or (DELIVERED,)), HOSTS, probes, CATALOG)


def component(probes: tuple[Probe, ...], odd: Odd, *metrics: str) -> str | None:
    (standing,) = judged(probes, odd, *metrics).odd
    assert standing.host == "h3"
    return standing.component


def test_the_worked_example_has_its_range_and_its_score() -> None:
    verdict = judged((FIRST, SECOND), {("first", DELIVERED): 0.8})
    (h3,) = verdict.odd
    assert (h3.host, h3.component, verdict.metrics) == ("h3", "throughput", 2)
    assert h3.decisive.low == pytest.approx(87e9, rel=0.004)
    assert h3.decisive.high == pytest.approx(116e9, rel=0.004)
    assert h3.decisive.score == pytest.approx(-1.5, abs=0.06)


def test_a_short_run_does_not_narrow_the_range() -> None:
    """The longest window has the most stretches that chance can move."""
    whole = readings((FIRST, SECOND), {})
    cut = readings((FIRST, SECOND), {}, seconds=lambda run: 4 if run == 0 else SECONDS)
    lows = [judge(each, HOSTS, (FIRST, SECOND), CATALOG).standings[0].decisive.low / 100e9 for each in (whole, cut)]
    assert lows[1] == pytest.approx(lows[0], rel=0.002)


def test_a_host_that_is_not_odd_is_known_by_its_largest_deviation() -> None:
    for standing in judged((FIRST, SECOND), {("second", DELIVERED): 0.97}).standings:
        assert not standing.is_odd
        assert standing.score == max(abs(sign.score) for sign in standing.signs)


def test_the_delivered_rate_decides_before_a_counter_that_only_follows_it() -> None:
    odd = {("first", DELIVERED): 0.7, ("first", "rx_packets"): 0.1}
    assert component((FIRST,), odd, "rx_packets", DELIVERED) == "throughput"


def test_a_larger_path_mtu_is_no_cause() -> None:
    odd = {("first", PATH_MTU): 2.0, ("first", "stalls"): 9.0}
    assert component((FIRST,), odd, PATH_MTU, "stalls") == "PCIe"


def test_answers_that_take_less_than_twice_as_long_are_no_longer_way() -> None:
    for answers, expected in ((0.7, "throughput"), (0.55, "throughput"), (0.45, "latency")):
        assert component((FIRST, SLOWLY), {("first", DELIVERED): 0.7, (SLOWLY.name, DELIVERED): answers}) == expected


def test_a_resource_short_in_another_probe_does_not_explain_slow_answers() -> None:
    odd = {("first", "stalls"): 9.0, (SLOWLY.name, DELIVERED): 0.2}
    assert component((FIRST, SLOWLY), odd, "stalls", DELIVERED) == "latency"


def test_a_special_probe_points_at_its_component_only_by_what_runs_short() -> None:
    odd = {("special", DELIVERED): 2.0, ("other", "stalls"): 9.0}
    assert component((SPECIAL, OTHER_SPECIAL), odd, "stalls", DELIVERED) == "receive buffer"


def test_a_special_probe_whose_rate_fell_points_at_its_component() -> None:
    """A gauge that moved in an earlier one tells of no shortage."""
    odd = {("special", "level"): 2.0, ("other", DELIVERED): 0.7}
    assert component((SPECIAL, OTHER_SPECIAL), odd, "level", DELIVERED) == "receive buffer"


def test_a_counter_that_falls_is_neither_a_slow_answer_nor_a_shortage() -> None:
    slow = {("first", "rx_packets"): 0.1, (SLOWLY.name, "rx_packets"): 0.1}
    assert component((FIRST, SLOWLY), slow, "rx_packets") == "wire"
    short = {("other", "rx_packets"): 0.1, ("special", "stalls"): 9.0}
    assert component((OTHER_SPECIAL, SPECIAL), short, "rx_packets", "stalls") == "acknowledgement unit"


def test_a_counter_is_a_rate_and_a_gauge_is_a_level() -> None:
    (standing, *_others) = judged((FIRST,), {}, DELIVERED, PATH_MTU, "rx_packets", "level").standings
    units = {sign.metric.name: sign.unit for sign in standing.signs}
    assert units == {DELIVERED: "bit/s", PATH_MTU: "bytes", "rx_packets": "packets/s", "level": Unit.PERCENT.value}


def slowed(factors: Sequence[float]) -> HostAssessment:
    """Return the standing of host h3, whose runs deviate by a factor in each second."""
    read = [
        replace(each, samples={DELIVERED: tuple(map(mul, each.samples[DELIVERED], factors))})
        if "h3" in (each.host, *each.partners)
        else each
        for each in readings((FIRST,), {})
    ]
    (h3,) = (each for each in judge(read, HOSTS, (FIRST,), CATALOG).standings if each.host == "h3")
    return h3


def test_a_deviation_lasts_four_seconds_somewhere_in_the_window() -> None:
    for begin in (0, 1, 3, 6):
        for lasting, is_odd in ((4, True), (3, False)):
            end = begin + lasting
            assert slowed([1.0] * begin + [0.5] * lasting + [1.0] * (SECONDS - end)).is_odd == is_odd
    assert slowed([0.5, 1.5] * 5).score == 0.0, "it deviates to both sides"


@pytest.mark.parametrize("runs", [15, 16])
@pytest.mark.parametrize("ends", [(0, 1), (1,)], ids=["both ends", "sinks"])
def test_levels_are_medians_and_peers_are_runs_without_the_host_at_either_end(runs: int, ends: Sequence[int]) -> None:
    levels = {run: 100.0 + run * run % 17 for run in range(runs)}
    read = [
        replace(each, samples={DELIVERED: (levels[each.run],) * SECONDS})
        for number, each in enumerate(readings((FIRST,), {}))
        if each.run in levels and number % 2 in ends
    ]
    for standing in judge(read, HOSTS, (FIRST,), CATALOG).standings:
        host = standing.host
        own = [levels[each.run] for each in read if each.host == host]
        peers = [math.log(levels[each.run]) for each in read if host not in (each.host, *each.partners)]
        assert standing.decisive.value == pytest.approx(median(own))
        assert standing.decisive.median == pytest.approx(math.exp(median(peers)))


@pytest.mark.parametrize(("runs", "found"), [(2, [("h3", "receive buffer")]), (1, [])])
def test_the_sink_of_a_crowd_is_judged_by_both_of_its_runs(runs: int, found: list[tuple[str, str]]) -> None:
    hosts = tuple(f"h{index}" for index in range(30))
    pairs = [group.hosts for each in rounds(hosts, [FIRST]) for group in each]
    crowds = [group.hosts for each in rounds(hosts, [CROWD]) for group in each]
    of_h3 = [number for number, crowd in enumerate(crowds) if crowd[1] == "h3"]
    read = [
        HostReading(host, run, (partner,), FIRST.name, {DELIVERED: (1e11 + run,) * SECONDS}, SECONDS)
        for run, pair in enumerate(pairs)
        for host, partner in (pair, pair[::-1])
    ]
    read += [
        HostReading(
            sink,
            1000 + run,
            (first, *rest),
            CROWD.name,
            {"stalls": (9e6 if sink == "h3" else 1e6 + run,) * SECONDS},
            SECONDS,
        )
        for run, (first, sink, *rest) in enumerate(crowds)
        if run not in of_h3[runs:]
    ]
    verdict = judge(read, hosts, (FIRST, CROWD), CATALOG)
    assert [(standing.host, standing.component) for standing in verdict.odd] == found


def test_where_a_peer_reads_zero_the_spread_is_a_share_of_the_median_too() -> None:
    for level, is_odd in ((110.0, False), (120.0, True)):
        levels = {"h3": level, "h6": 0.0}
        read = [
            replace(each, samples={"stalls": (levels.get(each.host, 100.0),) * SECONDS})
            for each in readings((FIRST,), {})
        ]
        (h3,) = (each for each in judge(read, HOSTS, (FIRST,), CATALOG).standings if each.host == "h3")
        assert h3.is_odd == is_odd
        assert h3.decisive.low < 100.0 < h3.decisive.high < 120.0


def test_what_is_odd_in_a_later_probe_does_not_explain_the_plainest() -> None:
    odd = {("second", DELIVERED): 0.7, ("other", "stalls"): 9.0}
    assert component((SECOND, OTHER_SPECIAL), odd, "stalls", DELIVERED) == "throughput"


@pytest.mark.parametrize(
    ("odd", "probe", "name"),
    [
        ({("first", "wrong"): 3.0, ("first", "refused"): 9.0}, "first", "refused"),  # the one that rose most
        ({("first", "wrong"): 9.0, ("first", "refused"): 3.0}, "first", "wrong"),
        ({("first", "wrong"): 3.0, ("second", "refused"): 9.0}, "first", "wrong"),  # the one of the plainest probe
        ({("first", "refused"): 0.2, ("second", "wrong"): 3.0}, "second", "wrong"),  # one that falls is no error
    ],
)
def test_of_several_errors_one_decides_and_names_the_component(odd: Odd, probe: str, name: str) -> None:
    (standing,) = judged((FIRST, SECOND), odd, "wrong", "refused").odd
    assert standing.decisive.metric == Metric(probe, name)
    assert standing.component == {"wrong": "cable", "refused": "firmware"}[name]


def test_odd_metrics_come_with_the_decisive_one_first_and_the_largest_next() -> None:
    odd = {("first", "wrong"): 3.0, ("first", "stalls"): 9.0, ("second", "stalls"): 20.0}
    (standing,) = judged((FIRST, SECOND), odd, "stalls", "wrong").odd
    named = [sign.metric for sign in standing.odd_signs]
    assert named == [Metric("first", "wrong"), Metric("second", "stalls"), Metric("first", "stalls")]


def test_the_oddest_host_comes_first() -> None:
    read = [
        replace(each, samples={DELIVERED: tuple(0.5 * value for value in each.samples[DELIVERED])})
        if "h6" in (each.host, *each.partners)
        else each
        for each in readings((FIRST,), {("first", DELIVERED): 0.7})
    ]
    assert [standing.host for standing in judge(read, HOSTS, (FIRST,), CATALOG).standings][:2] == ["h6", "h3"]


def test_two_runs_with_two_partners_make_a_host_known() -> None:
    """As many as the sink of a crowd has."""
    read = readings((FIRST,), {("first", DELIVERED): 0.5})
    runs = [each.run for each in read if each.host == "h3"]
    some = [each for each in read if "h3" not in (each.host, *each.partners) or each.run in runs[:2]]
    assert [standing.host for standing in judge(some, HOSTS, (FIRST,), CATALOG).odd] == ["h3"]


def test_a_counter_at_rest_elsewhere_may_count_a_few_events_in_a_window() -> None:
    """The spread of zeros is one event per window."""
    of_student = bar(0.01 / (2 * len(HOSTS) * 1 * 7), 8)
    for events in (3.0, 30.0):
        read = [
            replace(each, samples={"stalls": (events / SECONDS if each.host == "h3" else 0.0,) * SECONDS})
            for each in readings((FIRST,), {})
        ]
        (h3, *_others) = judge(read, HOSTS, (FIRST,), CATALOG).standings
        assert h3.decisive.low == 0.0
        assert h3.decisive.high == pytest.approx(of_student / SECONDS)
        assert h3.score == pytest.approx(events / of_student)
        assert h3.is_odd == (events > of_student)


@pytest.mark.parametrize(("peers", "degrees"), [(1, 1), (2, 1), (6, 1), (24, 8)])
def test_the_freedom_of_a_spread_is_that_of_the_documented_fleets(peers: int, degrees: int) -> None:
    assert freedom(peers) == degrees
