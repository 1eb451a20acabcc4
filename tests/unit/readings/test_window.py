"""From samples to a measurement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.counters.catalog import Catalog
from collie.readings.delivery import accounting_step_bytes
from collie.readings.policy import WindowPolicy
from collie.readings.samples import parse_sample
from collie.workloads.plan import streams
from collie.workloads.workload import Direction, Opcode, QpType, Workload
from tests.support.recorded_runs import PAUSE_AT_3, PERIOD, RDMA, Bytes, b_with, host, measure, steady, unidirectional


def test_a_write_is_counted_at_the_requester_and_attributed_to_the_responder() -> None:
    measured = measure(Workload(), *unidirectional(steady(1e6), None))
    assert measured.host("a").delivered_bps is None
    assert measured.host("b").delivered_bps == pytest.approx(8e6)
    assert measured.host("b").delivered_pps == pytest.approx(1e6 / 4096)
    assert measured.stable
    assert measured.problems == ()
    assert measured.window_seconds == pytest.approx(1.5, abs=0.2)


def test_a_send_is_counted_at_the_responder() -> None:
    measured = measure(Workload(opcode=Opcode.SEND, messages=(64,)), *unidirectional(None, steady(64e3)))
    assert measured.host("b").delivered_bps == pytest.approx(512e3)
    assert measured.host("b").delivered_pps == pytest.approx(1000, rel=0.01)


def test_a_read_is_received_by_its_requester() -> None:
    measured = measure(Workload(opcode=Opcode.READ), *unidirectional(steady(1e6), None))
    assert measured.host("a").delivered_bps == pytest.approx(8e6)
    assert measured.host("b").delivered_bps is None


def test_both_directions_and_loopback_add_up_at_each_sink() -> None:
    workload = Workload(direction=Direction.BIDIRECTIONAL, loopback=True)
    a = host(50.0, {"a-b/requester": steady(1e6), "b-a/responder": None})
    own = {"b-b/requester": steady(5e6), "b-b/responder": None}
    b = host(9000.0, {"a-b/responder": None, "b-a/requester": steady(3e6), **own})
    measured = measure(workload, a, b)
    assert measured.host("a").delivered_bps == pytest.approx(24e6)
    assert measured.host("b").delivered_bps == pytest.approx(48e6, rel=0.001)


def test_an_uncounted_flow_has_unknown_throughput() -> None:
    measured = measure(Workload(qp_type=QpType.UC), *unidirectional(None, None))
    assert measured.host("b").delivered_bps is None
    assert not measured.stable


def test_start_up_is_not_in_the_window() -> None:
    measured = measure(Workload(), *unidirectional(lambda t: 1e6 * max(0.0, t - 0.7), None))
    assert measured.stable
    assert measured.host("b").delivered_bps == pytest.approx(8e6, rel=0.01)
    early = [s.values["delivered_bps"] for s in measured.series if s.host == "b" and s.seconds < 0.6]
    assert early
    assert early == pytest.approx([0.0] * len(early), abs=1.0)


def test_a_host_that_sends_no_samples_voids_the_run() -> None:
    measured = measure(Workload(), host(0.0, {"a-b/requester": steady(1)}), [])
    assert measured.problems == ("host b sent no samples",)
    assert not measured.stable


def test_lost_samples_void_the_run() -> None:
    a = host(50.0, {"a-b/requester": steady(1e6)}, dropped=1)
    b = host(9000.0, {"a-b/responder": None})
    assert "host a lost 6 samples in the window" in measure(Workload(), a, b).problems


def test_counters_are_rates_gauges_are_means_and_missing_is_none() -> None:
    def wrapping(t: float) -> float:
        return (2**32 - 500 + 1000 * t) % 2**32

    measured = b_with({"hw_counters": {"rx": wrapping, "lost": None, "level": lambda t: 40}})
    counters = measured.host("b").counters
    assert counters["rx"] == pytest.approx(1000, rel=0.01)
    assert counters["level"] == 40
    assert counters["lost"] is None
    assert counters["pause_0"] is None
    assert measured.host("b").loss_ratio is None
    assert measured.host("b").tx_pause_ratio is None


def test_a_sample_of_the_protocol_is_read() -> None:
    raw = {
        "event": "sample",
        "n": 12,
        "clock": 10.0,
        "clock_end": 10.002,
        "phase": "running",
        "flows": {
            "a-b/requester": {
                "posted_messages": 4096,
                "posted_bytes": 1,
                "completed_messages": 3968,
                "delivered_messages": 3968,
                "delivered_bytes": 260046848,
                "qp_messages": {"min": 990, "mean": 992.0, "max": 994},
                "failed_qps": 0,
                "stalled": False,
            }
        },
        "health": {"iterations": 9, "idle_polls": 5, "queue_empty": 3, "posts": 64, "errors": {}, "post_errors": 0},
        "counters": {"hw_counters": {"rcvd_pkts": 1}, "counters": {}},
        "link": {"state": "4: ACTIVE", "pci_width": None},
        "host": {"cpu_seconds": {"user": 1.5}, "agent_cpu_seconds": 0.25, "device_cpu_seconds": 0.125},
        "dropped_samples": 0,
    }
    sample = parse_sample(raw, arrived=5.0)
    assert sample.clock == pytest.approx(10.001)
    assert sample.flows["a-b/requester"].delivered_bytes == 260046848
    assert sample.engine is not None
    assert sample.engine.idle_polls == 5
    assert sample.engine.wait_seconds is None
    assert (sample.link["state"], sample.host.cpu_seconds["user"], sample.host.agent_cpu_seconds) == (
        "4: ACTIVE",
        1.5,
        0.25,
    )
    assert sample.host.device_cpu_seconds == 0.125
    assert parse_sample({"clock": 1, "clock_end": 1, "counters": {}}, 0.0).engine is None


@pytest.mark.parametrize("name", ["clock", "clock_end"])
@pytest.mark.parametrize(("clock", "possible"), [(0, True), (0.5, True), (1e12, True), (-0.1, False), (1.1e12, False)])
def test_a_sample_has_the_time_of_a_monotonic_clock(name: str, clock: float, possible: bool) -> None:
    raw = {"clock": clock, "clock_end": clock, "counters": {}}
    if possible:
        assert parse_sample(raw, 7.0).clock == pytest.approx(clock)
        return
    with pytest.raises(ValueError, match=f"^{name} is .* which no monotonic clock shows"):
        parse_sample({**raw, "clock": 1.0, "clock_end": 1.0, name: clock}, 7.0)


def test_the_worked_example_of_a_window() -> None:
    """The docstring of `collie.readings`. What happens before the first sample after the warm-up does not count."""

    def since_warm_up(rate: float) -> Bytes:
        return lambda t: rate * t if t >= 0.5 else 0.0

    a = host(50.0, {"a-b/requester": since_warm_up(1200e6)}, delay=0.0, samples=9)
    pause: dict[str, dict[str, Bytes | None]] = {"ethtool": {"pause_3": since_warm_up(2000)}}
    b = host(9000.0, {"a-b/responder": None}, delay=0.0, samples=9, counters=pause)
    measured = measure(Workload(), a, b, WindowPolicy())
    assert measured.window_seconds == pytest.approx(2.0 - 0.4)
    assert measured.host("b").delivered_bps == pytest.approx(9.6e9)
    assert measured.host("b").tx_pause_ratio == pytest.approx(0.002)
    assert measured.stable


def test_payload_both_ways_is_known_at_both_hosts() -> None:
    mix = Workload(opcode=Opcode.SEND, more_opcodes=(Opcode.READ,), messages=(64, 8192))
    a, b = unidirectional(None, steady(64e3))
    key = "a-b/requester"
    returned = [replace(one.flows[key], returned_bytes=int(8192e3 * PERIOD * n)) for n, one in enumerate(a)]
    returning = [replace(one, flows={key: flow}) for one, flow in zip(a, returned, strict=True)]
    measured = measure(mix, returning, b)
    assert measured.host("a").delivered_bps == pytest.approx(8 * 8192e3)
    assert measured.host("a").delivered_pps == pytest.approx(2000)
    assert measured.host("b").delivered_bps == pytest.approx(8 * 64e3)
    assert measured.host("b").delivered_pps == pytest.approx(1000)


def test_a_step_of_the_accounting_is_what_one_completion_stands_for() -> None:
    mix = Workload(opcode=Opcode.SEND, more_opcodes=(Opcode.READ,), messages=(64, 8192), wqe_batch=4, signal_every=2)
    assert [accounting_step_bytes(mix, stream) for stream in streams(mix)] == [64, 4 * 8192]
    (only,) = streams(write := Workload(wqe_batch=4, signal_every=2))
    assert accounting_step_bytes(write, only) == 8 * 65536


def test_a_window_holds_four_refreshes_of_what_decides() -> None:
    slow = Catalog("slow", (replace(PAUSE_AT_3, refresh_seconds=1.0),))
    assert WindowPolicy().for_catalog(slow).window_seconds == 4.0
    assert WindowPolicy().for_catalog(RDMA) == WindowPolicy()


def test_a_run_that_ends_before_its_warm_up_has_a_window_of_no_length() -> None:
    a = host(50.0, {"a-b/requester": steady(1e6)}, samples=2)
    b = host(9000.0, {"a-b/responder": None}, samples=2)
    measured = measure(Workload(), a, b)
    assert measured.window_seconds == 0.0
    assert "host a sent 0 samples in the window" in measured.problems
    assert not measured.stable
