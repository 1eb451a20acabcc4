"""The detector of odd hosts, on readings made up: what it has to find, and what must not mislead it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given, settings, strategies as st

from collie.app.fleets import by_rail
from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.fleet.battery import BATTERY, MIN_HOSTS, Probe, Stage, is_large_enough, repeats, rounds
from collie.fleet.judge import judge
from collie.fleet.reading import DELIVERED, PATH_MTU, HostReading
from collie.fleet.spread import bar, freedom
from collie.fleet.verdict import FleetVerdict
from collie.inventory.hosts import host_of
from collie.workloads.workload import Workload

CATALOG = Catalog(
    "made-up",
    (
        Counter("rx_packets", "model", Unit.PACKETS, CounterKind.PERFORMANCE, "wire", role=Role.RX_PACKETS),
        Counter("stalls", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "PCIe"),
        Counter("wrong", "model", Unit.PACKETS, CounterKind.ERROR, "cable"),
    ),
)
PLAIN = Probe("plain", Stage.RING, Workload())
SPECIAL = Probe("special", Stage.RING, Workload(), "acknowledgement unit")
ONE_AT_A_TIME = next(probe for probe in BATTERY if probe.is_one_at_a_time)
NOISE = 0.03
SECONDS = 5

Level = Callable[[str, str, str, int], float]
"""Factor on a metric, by host, partner, metric and second."""


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"h{index}" for index in range(count))


def _as_ever(_host: str, _partner: str, _metric: str, _second: int) -> float:
    return 1.0


def _readings(
    hosts: tuple[str, ...], seed: int, level: Level = _as_ever, probe: str = "plain", first_run: int = 0
) -> list[HostReading]:
    """Return what a ring reads: run by run, a level that differs by chance, and seconds around it."""
    rng = Random(f"{seed} {probe}")
    pairs = [group.hosts for groups in rounds(hosts, [PLAIN]) * repeats(hosts) for group in groups]
    return [
        HostReading(
            host,
            first_run + run,
            (partner,),
            probe,
            {
                metric: tuple(
                    base * factor * rng.gauss(1.0, 0.01) * level(host, partner, metric, second)
                    for second in range(SECONDS)
                )
                for metric, base in (("stalls", 1e6), (DELIVERED, 1e11))
                for factor in [rng.gauss(1.0, NOISE)]
            },
            float(SECONDS),
        )
        for run, pair in enumerate(pairs)
        for host, partner in (pair, pair[::-1])
    ]


def _judged(readings: Iterable[HostReading], hosts: tuple[str, ...], *probes: Probe) -> FleetVerdict:
    return judge(readings, hosts, probes or (PLAIN,), CATALOG)


def _odd(verdict: FleetVerdict) -> list[str]:
    return [standing.host for standing in verdict.odd]


sizes = st.integers(MIN_HOSTS, 24)
seeds = st.integers(0, 10**6)


@settings(max_examples=25)
@given(sizes, seeds)
def test_a_fleet_with_nothing_odd_is_not_accused(size: int, seed: int) -> None:
    hosts = _names(size)
    verdict = _judged(_readings(hosts, seed), hosts)
    assert _odd(verdict) == []
    assert {standing.host for standing in verdict.standings} == set(hosts)


@settings(max_examples=25)
@given(sizes, seeds, st.sampled_from([0.2, 4.0]), st.data())
def test_the_odd_host_is_named_and_not_its_partners(size: int, seed: int, factor: float, data: st.DataObject) -> None:
    hosts = _names(size)
    odd = data.draw(st.sampled_from(hosts))
    # A fault shows at both ends of a run.
    read = _readings(hosts, seed, lambda host, partner, _m, _s: factor if odd in (host, partner) else 1.0)
    verdict = _judged(read, hosts)
    assert _odd(verdict) == [odd]
    decisive = verdict.odd[0].decisive
    assert not decisive.low <= decisive.value <= decisive.high
    assert decisive.low <= decisive.median <= decisive.high


@settings(max_examples=15)
@given(st.integers(6, 24), seeds, st.data())
def test_one_odd_pair_accuses_no_host(size: int, seed: int, data: st.DataObject) -> None:
    hosts = _names(size)
    index = data.draw(st.integers(0, size - 1))
    pair = {hosts[index], hosts[(index + 1) % size]}
    read = _readings(hosts, seed, lambda host, partner, _m, _s: 9.0 if {host, partner} == pair else 1.0)
    assert _odd(_judged(read, hosts)) == []


@settings(max_examples=15)
@given(sizes, seeds, st.integers(0, SECONDS - 1))
def test_a_passing_difference_accuses_no_host(size: int, seed: int, second: int) -> None:
    hosts = _names(size)
    read = _readings(
        hosts, seed, lambda host, _p, _m, now: 50.0 if (host, now // 2) == (hosts[0], second // 2) else 1.0
    )
    assert _odd(_judged(read, hosts)) == []


@settings(max_examples=15)
@given(sizes, seeds)
def test_neither_order_nor_unit_matters(size: int, seed: int) -> None:
    hosts = _names(size)
    read = _readings(hosts, seed, lambda host, *_rest: 2.0 if host == hosts[1] else 1.0)
    shuffled = Random(seed).sample(read, len(read))
    one, other = _judged(read, hosts), _judged(shuffled, hosts)
    assert [(each.host, each.decisive) for each in one.standings] == [
        (each.host, each.decisive) for each in other.standings
    ]
    larger = [
        HostReading(
            each.host,
            each.run,
            each.partners,
            each.probe,
            {name: tuple(1000.0 * value for value in samples) for name, samples in each.samples.items()},
            each.window_seconds,
        )
        for each in read
    ]
    assert [each.score for each in _judged(larger, hosts).standings] == pytest.approx(
        [each.score for each in one.standings]
    )


def test_a_sound_host_between_odd_ones_is_not_blamed() -> None:
    hosts = _names(20)
    odd = {hosts[4], hosts[6]}
    read = _readings(hosts, 1, lambda host, partner, _m, _s: 5.0 if odd & {host, partner} else 1.0)
    assert set(_odd(_judged(read, hosts))) == odd


def test_a_host_without_enough_runs_is_not_judged() -> None:
    hosts = _names(8)
    read = [each for each in _readings(hosts, 1) if "h3" not in (each.host, *each.partners) or each.run == 3]
    verdict = _judged(read, hosts)
    assert verdict.unjudged == ("h3",)


def test_a_host_of_which_nothing_could_be_read_is_not_like_the_others() -> None:
    hosts = _names(8)
    agreed = {PATH_MTU: (1024.0,) * SECONDS}
    read = [
        replace(each, samples=agreed if each.host == "h3" else {**each.samples, **agreed})
        for each in _readings(hosts, 1)
    ]
    assert _judged(read, hosts).unjudged == ("h3",)


@pytest.mark.parametrize("metric", [DELIVERED, "stalls"])
def test_hosts_that_read_the_same_are_alike_unless_they_read_nothing(metric: str) -> None:
    hosts = _names(8)
    for rate, unjudged in ((1e11, ()), (0.0, hosts)):
        read = [replace(each, samples={metric: (rate,) * SECONDS}) for each in _readings(hosts, 1)]
        assert _judged(read, hosts).unjudged == unjudged


def test_a_counter_that_stands_still_elsewhere_gives_a_host_away() -> None:
    hosts = _names(8)

    def with_errors(reading: HostReading) -> HostReading:
        errors = (40.0,) * SECONDS if reading.host == "h2" else (0.0,) * SECONDS
        samples = {**reading.samples, "wrong": errors}
        return HostReading(reading.host, reading.run, reading.partners, reading.probe, samples, reading.window_seconds)

    verdict = _judged(map(with_errors, _readings(hosts, 1)), hosts)
    assert _odd(verdict) == ["h2"]
    assert verdict.odd[0].component == "cable"
    assert verdict.odd[0].decisive.low == 0.0


def test_a_smaller_path_mtu_is_a_cause_before_the_work_that_it_makes() -> None:
    hosts = _names(8)

    def with_mtu(reading: HostReading) -> HostReading:
        mtu = 1024.0 if "h2" in (reading.host, *reading.partners) else 4096.0
        samples = {**reading.samples, PATH_MTU: (mtu,) * SECONDS}
        return HostReading(reading.host, reading.run, reading.partners, reading.probe, samples, reading.window_seconds)

    level: Level = lambda host, partner, metric, _s: 90.0 if metric == "stalls" and "h2" in (host, partner) else 1.0  # noqa: E731
    verdict = _judged(map(with_mtu, _readings(hosts, 1, level)), hosts)
    assert [(standing.host, standing.component) for standing in verdict.odd] == [("h2", "path MTU")]


def test_a_longer_way_is_a_cause_before_the_throughput_that_it_costs() -> None:
    hosts = _names(8)
    level: Level = lambda host, partner, metric, _s: 0.2 if metric == DELIVERED and "h5" in (host, partner) else 1.0  # noqa: E731
    readings = _readings(hosts, 1, level)
    alone = [replace(reading, probe=ONE_AT_A_TIME.name) for reading in _readings(hosts, 2, level, first_run=1000)]
    verdict = _judged([*readings, *alone], hosts, PLAIN, ONE_AT_A_TIME)
    assert [(standing.host, standing.component) for standing in verdict.odd] == [("h5", "latency")]


def test_lost_messages_are_no_longer_way() -> None:
    """Each lost one is waited for, but something counts them."""
    hosts = _names(8)

    def level(host: str, partner: str, metric: str, _second: int) -> float:
        if "h5" not in (host, partner):
            return 1.0
        return 0.2 if metric == DELIVERED else 9.0

    readings = [replace(reading, probe=ONE_AT_A_TIME.name) for reading in _readings(hosts, 1, level)]
    verdict = _judged([*_readings(hosts, 2, level, first_run=1000), *readings], hosts, PLAIN, ONE_AT_A_TIME)
    assert [(standing.host, standing.component) for standing in verdict.odd] == [("h5", "PCIe")]


def test_devices_of_one_host_are_no_peers_of_each_other() -> None:
    """What is wrong with a host shows in all of its devices, and the sound ones of it prove nothing against the odd."""
    fleet = tuple(f"h{machine}/mlx5_{device}" for device in range(2) for machine in range(6))
    level: Level = lambda host, _p, metric, _s: 3.0 if metric == "stalls" and host.startswith("h2/") else 1.0  # noqa: E731
    assert sorted(_odd(_judged(_readings(fleet, 1, level), fleet))) == ["h2/mlx5_0", "h2/mlx5_1"]


def test_a_host_with_a_single_partner_is_not_judged() -> None:
    hosts = ("a", "b", "c", "d")
    read = [
        HostReading(host, run, (partner,), "plain", {DELIVERED: (level,) * SECONDS}, float(SECONDS))
        for run, (one, other, level) in enumerate([("a", "b", 1e9), ("c", "d", 1e11)] * 4)
        for host, partner in ((one, other), (other, one))
    ]
    verdict = _judged(read, hosts)
    assert verdict.standings == ()
    assert set(verdict.unjudged) == set(hosts)


def test_devices_do_not_make_up_for_hosts() -> None:
    assert not is_large_enough([f"h{machine}/mlx5_{device}" for machine in range(3) for device in range(8)])
    assert is_large_enough([f"h1/mlx5_{device}" for device in range(4)])
    assert is_large_enough(_names(4))


def test_a_resource_that_runs_short_is_a_cause_before_the_throughput_that_it_costs() -> None:
    hosts = _names(8)

    def level(host: str, partner: str, metric: str, _second: int) -> float:
        if host != "h5":
            return 0.1 if partner == "h5" and metric == DELIVERED else 1.0
        return 0.1 if metric == DELIVERED else 1.6

    verdict = _judged(_readings(hosts, 1, level), hosts)
    assert [(standing.host, standing.component) for standing in verdict.odd] == [("h5", "PCIe")]


def test_what_is_odd_in_a_special_probe_alone_is_the_component_that_it_stresses() -> None:
    hosts = _names(8)
    odd: Level = lambda host, *_rest: 3.0 if host == "h1" else 1.0  # noqa: E731
    special = _readings(hosts, 1, odd, "special", first_run=1000)
    verdict = _judged([*_readings(hosts, 1), *special], hosts, PLAIN, SPECIAL)
    assert [(standing.host, standing.component) for standing in verdict.odd] == [("h1", "acknowledgement unit")]
    both = _judged([*_readings(hosts, 1, odd), *special], hosts, PLAIN, SPECIAL)
    assert both.odd[0].component == "PCIe"


def test_a_sink_is_not_blamed_for_an_odd_sender() -> None:
    hosts = _names(40)
    crowd = next(probe for probe in BATTERY if probe.stage is Stage.ALL_TO_ONE)
    odd = {hosts[3], hosts[5]}  # the sinks before them have one of them in each of their runs
    read = _readings(hosts, 1, lambda host, partner, _m, _s: 5.0 if odd & {host, partner} else 1.0)
    groups = [group.hosts for groups in rounds(hosts, [crowd]) for group in groups]
    rng = Random(3)
    for run, (first, sink, *others) in enumerate(groups, start=10_000):
        senders = (first, *others)
        level = 1e6 * rng.gauss(1.0, NOISE) * (2.0 if odd & {sink, *senders} else 1.0)
        read.append(HostReading(sink, run, senders, crowd.name, {"stalls": (level,) * SECONDS}, float(SECONDS)))
    assert set(_odd(_judged(read, hosts, PLAIN, crowd))) == odd


@settings(max_examples=50)
@given(st.integers(MIN_HOSTS, 60))
def test_every_host_has_its_runs_and_no_round_has_a_host_twice(size: int) -> None:
    hosts = _names(size)
    observed: dict[str, set[str]] = {host: set() for host in hosts}
    taken: dict[str, int] = dict.fromkeys(hosts, 0)
    for groups in rounds(hosts):
        in_round = [host for group in groups for host in group.hosts]
        assert len(in_round) == len(set(in_round))
        for group in groups:
            assert len(set(group.hosts)) == len(group.hosts)
            if any(probe.stage is Stage.ALL_TO_ONE for probe in group.probes):
                taken[group.hosts[1]] += 1
            else:
                for host in group.hosts:
                    observed[host] |= set(group.hosts) - {host}
    assert all(len(others) >= min(4, size - 1) for others in observed.values())
    assert len(set(taken.values())) == 1
    assert (size >= 30) == (taken[hosts[0]] == 2)


@pytest.mark.parametrize("devices", [(8, 1, 1, 1, 1), (8, 1, 1, 1), (2, 2, 1, 1), (4, 4, 1, 1), (8, 8, 2, 2, 2, 2)])
def test_devices_that_others_have_none_of_meet_several_machines_all_the_same(devices: tuple[int, ...]) -> None:
    hosts = by_rail(f"m{machine}/d{device}" for machine, count in enumerate(devices) for device in range(count))
    groups = [group.hosts for each in rounds(hosts, [PLAIN]) for group in each]
    assert len(set(groups)) == len(groups)
    for host in hosts:
        assert len({host_of(sink) for sender, sink in groups if sender == host}) >= 2
        assert len({host_of(sender) for sender, sink in groups if sink == host}) >= 2


def test_devices_of_a_machine_are_no_peers_of_each_other_where_runs_are_counted() -> None:
    assert repeats(("m1", "m2", "m3", "m4")) == repeats(tuple(f"m{m}/d{d}" for d in (1, 2) for m in (1, 2, 3, 4))) == 2
    assert repeats(tuple(map(str, range(16)))) == 1


@pytest.mark.parametrize(
    ("tail", "degrees", "expected"), [(0.05, 1, 6.314), (0.01, 2, 6.965), (0.01, 5, 3.365), (0.005, 30, 2.750)]
)
def test_the_bar_is_that_of_the_tables_of_student_s_t(tail: float, degrees: int, expected: float) -> None:
    assert bar(tail, degrees) == pytest.approx(expected, abs=5e-4)


@given(st.floats(1e-12, 0.1), st.integers(1, 500))
def test_the_bar_is_higher_for_less_chance_and_for_fewer_peers(tail: float, degrees: int) -> None:
    assert bar(tail / 2.0, degrees) > bar(tail, degrees)
    assert bar(tail, degrees) >= bar(tail, degrees + 1) * (1.0 - 1e-3)  # Student's t becomes the normal distribution
    assert freedom(degrees) >= 1


@settings(max_examples=50)
@given(st.integers(1, 12), st.integers(2, 8))
def test_devices_of_one_host_meet_in_no_round_and_in_no_group(machines: int, devices: int) -> None:
    fleet = [f"host-{machine}/mlx5_{device}" for device in range(devices) for machine in range(machines)]
    assume(len(fleet) >= MIN_HOSTS)
    seen: set[str] = set()
    for groups in rounds(fleet):
        busy = [host_of(host) for group in groups for host in {host_of(each): each for each in group.hosts}]
        assert len(busy) == len(set(busy)), "two groups of a round on one host"
        for group in groups:
            sender, sink, *others = map(host_of, group.hosts)
            assert machines == 1 or sink not in {sender, *others}
            seen.update(group.hosts)
    assert seen == set(fleet)
