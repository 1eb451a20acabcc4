"""The worked example of the judgement, and the order in which a component is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from collie.counters.catalog import Catalog, Counter, CounterKind, Unit
from collie.fleet.battery import BATTERY, Probe, Stage, rounds
from collie.fleet.judge import judge
from collie.fleet.reading import DELIVERED, PATH_MTU, HostReading
from collie.fleet.verdict import FleetVerdict
from collie.workloads.workload import Workload

CATALOG = Catalog(
    "made-up",
    (
        Counter("rx_packets", "model", Unit.PACKETS, CounterKind.PERFORMANCE, "wire"),
        Counter("stalls", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "PCIe"),
    ),
)
HOSTS = tuple(f"h{index}" for index in range(8))
FIRST, SECOND = (Probe(name, Stage.RING, Workload()) for name in ("first", "second"))
SPECIAL = Probe("special", Stage.RING, Workload(), "acknowledgement unit")
OTHER_SPECIAL = Probe("other", Stage.RING, Workload(), "receive buffer")
SLOWLY = next(probe for probe in BATTERY if probe.is_one_at_a_time)
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


def test_answers_that_take_a_little_longer_are_no_longer_way() -> None:
    odd = {("first", DELIVERED): 0.7, (SLOWLY.name, DELIVERED): 0.7}
    assert component((FIRST, SLOWLY), odd) == "throughput"


def test_a_resource_short_in_another_probe_does_not_explain_slow_answers() -> None:
    odd = {("first", "stalls"): 9.0, (SLOWLY.name, DELIVERED): 0.2}
    assert component((FIRST, SLOWLY), odd, "stalls", DELIVERED) == "latency"


def test_a_special_probe_points_at_its_component_only_by_what_runs_short() -> None:
    odd = {("special", DELIVERED): 2.0, ("other", "stalls"): 9.0}
    assert component((SPECIAL, OTHER_SPECIAL), odd, "stalls", DELIVERED) == "receive buffer"


def test_probes_that_load_a_part_of_the_nic_need_one() -> None:
    parts = {probe.name for probe in BATTERY if probe.stresses not in (None, "latency")}
    assert {probe.name for probe in BATTERY if probe.needs_hardware} == parts


def test_the_largest_crowd_is_what_its_workload_takes() -> None:
    crowd = next(probe for probe in BATTERY if probe.stage is Stage.ALL_TO_ONE)
    groups = [group for each in rounds([f"h{index}" for index in range(200)], [crowd]) for group in each]
    assert max(len(group.hosts) for group in groups) == crowd.workload.requesters + 1
