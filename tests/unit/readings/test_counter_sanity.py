"""Counters that stop, reset, hide or never count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.counters.catalog import Catalog, Counter, CounterKind, Unit
from collie.readings.recording import Recording
from collie.readings.window import measurement
from collie.workloads.plan import flows
from collie.workloads.workload import Direction, Workload
from tests.support.recorded_runs import BEGAN, POLICY, RDMA, Bytes, at, believed, host, steady


def test_a_level_of_errors_that_was_there_before_voids_nothing() -> None:
    level = Counter("bad", "hw_counters", Unit.OBJECTS, CounterKind.ERROR, "firmware", gauge=True)
    assert believed({}, {"hw_counters": {"bad": at(3)}}, Catalog("some", (level,))).problems == ()


def test_a_counter_that_has_stopped_is_unknown_and_voids_the_run() -> None:
    measured = believed({"hw_counters": {"tx": at(77)}}, {"hw_counters": {"rx": steady(1000), "tx": at(5)}})
    assert measured.problems == ("host a: tx stood at 77 while traffic ran; it has stopped counting",)
    assert measured.host("a").counters["tx"] is None
    assert measured.host("b").counters["tx"] == 0  # b sends nothing


def test_a_counter_stands_when_traffic_ends_as_the_window_begins() -> None:
    """As when all queue pairs fail: a sent its last packet before the window, and b counts it in its first step."""
    sent: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"tx": lambda t: 1000 * min(t, 1.2)}}
    received: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"rx": lambda t: 1000 * min(t, 1.4)}}
    measured = believed(sent, received, delivered=lambda t: 1e6 * min(t, 1.4))
    assert measured.host("b").delivered_bps > 0
    assert measured.problems == ()
    assert measured.host("a").counters["tx"] == 0


def test_a_counter_that_never_counts_is_unknown_and_only_noted() -> None:
    counted: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"rx": at(0), "lost": steady(10)}}
    measured = believed({"hw_counters": {"tx": steady(1000)}}, counted)
    assert measured.problems == ()
    assert "host b: rx stood at 0 while traffic ran; the driver does not count it" in measured.notes
    assert measured.host("b").counters["rx"] is None
    assert measured.host("b").loss_ratio is None


def test_loopback_across_ports_may_pass_counters_by_and_is_noted() -> None:
    samples = {
        "a": host(50.0, {"a-b/requester": steady(1e6)}, counters={"hw_counters": {"tx": at(77)}}),
        "b": host(9000.0, {"a-b/responder": None}, counters={"hw_counters": {"rx": at(0)}}),
    }
    recording = Recording(samples, BEGAN, dict.fromkeys("ab", "server-1"))
    measured = measurement(Workload(), recording, RDMA, POLICY)
    assert measured.problems == ()
    assert "a-b is loopback across ports of server-1" in measured.notes
    assert measured.host("b").counters["rx"] == 0
    assert measured.host("b").delivered_bps == pytest.approx(8e6)


def test_only_flows_between_devices_of_one_host_are_loopback_across_ports() -> None:
    workload = Workload(requesters=3, direction=Direction.BIDIRECTIONAL, loopback=True)
    machines = {"a": "server-1", "b": "server-2", "c": "server-2", "d": "server-1"}
    assert [flow.name for flow in flows(workload) if flow.is_across_ports(machines)] == ["c-b", "b-c"]
    assert not any(flow.is_across_ports({}) for flow in flows(workload))


def test_a_reset_voids_the_run_and_has_no_rate() -> None:
    def reset(t: float) -> float:
        return 1e9 + t if t < 2 else t

    measured = believed({}, {"hw_counters": {"rx": steady(1000), "lost": reset}})
    assert measured.problems == ("host b: lost went backwards: the device or its driver was reset",)
    assert measured.host("b").counters["lost"] is None


def changing(first: dict[str, int | None], then: dict[str, int | None]) -> tuple[str, ...]:
    a = host(50.0, {"a-b/requester": steady(1e6)})
    b = host(9000.0, {"a-b/responder": None})
    b = [replace(one, counters={"ethtool": first if number < 8 else then}) for number, one in enumerate(b)]
    return measurement(Workload(), Recording({"a": a, "b": b}, BEGAN), RDMA, POLICY).problems


def test_pfc_that_is_switched_during_a_run_voids_it() -> None:
    assert changing({"dropped": 0, "pause_3": 1}, {"dropped": 0}) == (
        "host b: the PFC state changed: pause_3 came or went",
    )
    assert changing({"dropped": 0}, {"dropped": 0, "rx": 7}) == (
        "host b: the driver changed its set of counters: port_rx came or went",
    )


def test_a_source_that_cannot_be_read_for_a_moment_changes_no_set() -> None:
    assert changing({"dropped": 0, "pause_3": 1}, {}) == ()
    assert changing({"rx5_packets": 0, "dropped": 1}, {"rx6_packets": 0, "dropped": 1}) == ()


def test_pause_is_unknown_and_said_to_be_off_while_its_counters_are_hidden() -> None:
    measured = believed({}, {"hw_counters": {"rx": steady(1000)}, "ethtool": {"dropped": steady(20)}})
    assert measured.host("b").tx_pause_ratio is None
    assert measured.host("b").loss_ratio == pytest.approx(0.02, rel=0.01)
    (note,) = measured.notes
    assert note.startswith("host b: PFC is off on every priority")


def test_nothing_is_said_of_pfc_where_pause_counts_or_nothing_could_be_read() -> None:
    assert believed({}, {"ethtool": {"pause_3": at(0)}}).notes == ()
