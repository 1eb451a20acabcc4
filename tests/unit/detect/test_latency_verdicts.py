"""Verdicts on latency and on stalls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.detect.bounds import Bound
from collie.detect.judge import can_be_late, judge
from collie.detect.measurement import GeneratorHealth, HostMeasurement, Latency, Measurement
from collie.detect.symptom import Symptom, Verdict
from collie.detect.thresholds import Thresholds
from collie.workloads.workload import Direction, Workload
from tests.support.measurements import LINE, measurement

LOAD = Workload(offered_bps=10 * 10**9)
USUAL = Latency(10e-6, 30e-6)
SIBLING = Bound(10e9, 1e6, "plain sibling", latency=USUAL)


def of(flow: str, median: float, p99: float, stall: float | None = None) -> Measurement:
    """A run that delivers 9.95 of 10 Gbit/s."""
    return replace(measurement(9.95e9, 0.995e6), latency={flow: Latency(median, p99, stall_seconds=stall)})


def verdict(found: Measurement, workload: Workload = LOAD, bound: Bound = SIBLING) -> Verdict:
    return judge(workload, found, bound, Thresholds())


@pytest.mark.parametrize(
    ("median", "p99", "is_late"),
    [
        (10e-6, 119e-6, False),  # less than 4 times
        (10e-6, 121e-6, True),
        (41e-6, 100e-6, True),  # the median decides
        (34e-6, 100e-6, False),  # 24 us more than the sibling
    ],
)
def test_a_latency_is_wrong_beyond_a_ratio_and_a_floor(median: float, p99: float, is_late: bool) -> None:
    found = verdict(of("a-b", median, p99))
    assert (found.symptom is Symptom.LATENCY) == is_late
    assert found.is_normal != is_late


def test_a_late_run_names_both_latencies_and_the_share_that_is_waiting() -> None:
    found = verdict(of("a-b", 10e-6, 300e-6))
    words = "99% of the messages of flow a-b complete within 300 us, those of the plain sibling within 30 us"
    assert words in found.reason
    assert found.severity == pytest.approx(0.9)
    assert found.figure == "waiting is 90% of the latency"
    assert found.margin == pytest.approx(10 / 4)
    near_the_floor = verdict(of("a-b", 31e-6, 100e-6), bound=replace(SIBLING, latency=Latency(1e-6, 30e-6)))
    assert near_the_floor.margin == pytest.approx(30 / 25)
    later = verdict(of("a-b", 10e-6, 0.3))
    assert later.reason.endswith(": waiting is over 99% of the latency")
    assert later.figure == "waiting is over 99% of the latency"


@pytest.mark.parametrize(
    ("workload", "bound"),
    [
        (Workload(), SIBLING),  # full send queues
        (LOAD, LINE),  # no sibling at this load is known
        (LOAD, replace(SIBLING, latency=None)),  # it does not carry the load
        (Workload(offered_bps=11 * 10**9), replace(SIBLING, bps=11e9)),  # the workload does not carry it
    ],
)
def test_latency_has_no_right_value_without_a_load_that_both_carry(workload: Workload, bound: Bound) -> None:
    assert verdict(of("a-b", 1e-3, 2e-3), workload, bound).symptom is not Symptom.LATENCY


def test_loopback_beside_other_traffic_is_not_compared() -> None:
    looped = replace(LOAD, loopback=True)
    late = replace(measurement(19.9e9, 1.99e6), latency={"a-b": USUAL, "b-b": Latency(1e-3, 2e-3)})
    assert verdict(late, looped).is_normal
    assert verdict(replace(late, latency={"a-b": Latency(1e-3, 2e-3)}), looped).symptom is Symptom.LATENCY


def test_loopback_that_is_all_the_traffic_is_compared() -> None:
    looped = LOAD.with_(loopback=True, remote=False)
    hosts = (replace(measurement(9.95e9, 0.995e6).hosts[1], host="a"),)
    found = Measurement(hosts, 4.0, latency={"a-a": Latency(1e-3, 2e-3)})
    assert verdict(found, looped).symptom is Symptom.LATENCY


def test_latency_can_be_wrong_only_if_some_message_waits_and_the_load_is_carried() -> None:
    def can(found: Measurement, workload: Workload = LOAD) -> bool:
        return can_be_late(workload, found, Thresholds())

    late = of("a-b", 10e-6, 300e-6)
    assert can(late)
    assert not can(of("a-b", 10e-6, 20e-6))
    assert not can(late, Workload())
    assert not can(late, Workload(offered_bps=11 * 10**9))
    assert not can(replace(late, stopped="host b sends pause for 0.5 s"))


def test_every_flow_into_a_host_must_carry_its_load() -> None:
    looped = replace(LOAD, loopback=True)
    starved = replace(measurement(12e9, 1.2e6), latency={"a-b": Latency(1e-3, 2e-3)})
    assert verdict(starved, looped).is_normal


def test_low_throughput_comes_before_latency() -> None:
    slow = replace(measurement(5e9, 0.5e6), latency={"a-b": Latency(1e-3, 2e-3)})
    assert verdict(slow).symptom is Symptom.LOW_THROUGHPUT


def test_a_late_run_of_a_starved_generator_or_without_one_level_is_inconclusive() -> None:
    late = of("a-b", 10e-6, 300e-6)
    assert verdict(replace(late, health=GeneratorHealth(driven=False, reason="no CPU"))).is_inconclusive
    assert verdict(replace(late, stable=False)).is_inconclusive


def test_nothing_completes_for_long_is_a_stall() -> None:
    found = verdict(of("a-b", 10e-6, 30e-6, stall=1.0))
    assert (found.symptom, found.severity) == (Symptom.STALL, 0.25)
    assert "nothing completes on flow a-b for 1 s, 25% of the window" in found.reason
    assert verdict(of("a-b", 10e-6, 30e-6, stall=0.4)).is_normal
    longer = verdict(of("a-b", 10e-6, 30e-6, stall=5.0))  # it began before the window of 4 s
    assert (longer.severity, "nothing completes on flow a-b for 5 s, 100% of the window" in longer.reason) == (
        1.0,
        True,
    )


BOTH_WAYS = Measurement((HostMeasurement("a", 95e9, 9.5e6), HostMeasurement("b", 95e9, 9.5e6)), 4.0)


@pytest.mark.parametrize("worse", ["a-b", "b-a"])
def test_a_stall_is_that_of_the_flow_that_stalls_longest(worse: str) -> None:
    stalls = {flow: Latency(stall_seconds=2.0 if flow == worse else 0.6) for flow in ("a-b", "b-a")}
    found = judge(Workload(direction=Direction.BIDIRECTIONAL), replace(BOTH_WAYS, latency=stalls), LINE, Thresholds())
    assert (found.symptom, found.severity) == (Symptom.STALL, 0.5)
    assert f"nothing completes on flow {worse} for 2 s, 50% of the window" in found.reason
