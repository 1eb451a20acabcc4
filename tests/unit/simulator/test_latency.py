"""Latency of simulated flows: at low load, in queues, and with full send queues."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.detect.brackets import latencies_of
from collie.detect.measurement import Latency
from collie.simulator.hardware import Subsystem
from collie.simulator.latency import FlowLatency, latencies, latencies_between
from collie.simulator.model import FlowRates, SteadyState, evaluate, evaluate_between, evaluate_many
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.workload import Opcode, QpType, Workload

F = load_subsystem("F", SubsystemFile).hardware
HEALTHY = st.sampled_from([load_subsystem(name, SubsystemFile).hardware for name in ("F-healthy", "G")])
HARDWARE = st.sampled_from([F, load_subsystem("H", SubsystemFile).hardware])
SPACE = load_space("nsdi22")
WORKLOADS = st.integers(0, 1 << 32).map(lambda seed: SPACE.sample(Random(seed)))
STARVED_AT_FULL_QUEUES = Workload(loopback=True, qps=1536, messages=(64,), send_wq_depth=1)
SLACK = 1 + 1e-6

MEASURED_US = {64: 2.80, 256: 3.33, 1024: 3.57, 4096: 3.90, 8192: 4.46, 65536: 9.74, 524288: 51.08}
"""Typical latency of ib_write_lat with one queue pair and MTU 1024 on a production NIC (ScalaCN, NSDI '25)."""


def of_flows(subsystem: Subsystem, state: SteadyState) -> Iterator[tuple[FlowRates, FlowLatency]]:
    """The flows that deliver, with their latency."""
    for flow, latency in zip((state.forth, state.back, state.loop), latencies(subsystem, state), strict=True):
        assert (latency is None) == (flow.delivered == 0)
        if latency is not None:
            yield flow, latency


def forth(workload: Workload, subsystem: Subsystem = F) -> FlowLatency:
    latency = latencies(subsystem, evaluate(subsystem, workload)).forth
    assert latency is not None
    return latency


def quantiles(latency: FlowLatency) -> tuple[float, ...]:
    return (*latency.completion, *latency.one_way)


@settings(max_examples=300)
@given(HARDWARE, WORKLOADS, st.integers(0, 10**12))
def test_quantiles_are_finite_and_in_order(subsystem: Subsystem, workload: Workload, bps: int) -> None:
    for _, latency in of_flows(subsystem, evaluate(subsystem, workload.with_(offered_bps=bps))):
        assert all(math.isfinite(value) and value > 0 for value in quantiles(latency))
        for distribution in latency:
            assert distribution.median <= distribution.p99 * SLACK <= distribution.p999 * SLACK**2
        for whole, part in zip(latency.completion, latency.one_way, strict=True):
            assert part <= whole * SLACK


@settings(max_examples=200)
@given(HARDWARE, WORKLOADS)
def test_full_send_queues_follow_littles_law(subsystem: Subsystem, workload: Workload) -> None:
    for flow, latency in of_flows(subsystem, evaluate(subsystem, workload)):
        rate = flow.delivered if workload.qp_type is QpType.RC else flow.sent
        assert latency.completion.median * rate == pytest.approx(workload.qps * workload.send_wq_depth)


@settings(max_examples=200)
@given(HARDWARE, WORKLOADS, st.integers(0, 40).map(lambda exponent: 1 << exponent))
@example(F, STARVED_AT_FULL_QUEUES, 2 * 10**9)
def test_no_message_waits_for_more_than_the_send_queues_hold(
    subsystem: Subsystem, workload: Workload, bps: int
) -> None:
    for flow, latency in of_flows(subsystem, evaluate(subsystem, workload.with_(offered_bps=bps))):
        rate = flow.delivered if workload.qp_type is QpType.RC else flow.sent
        assert latency.completion.median * rate <= workload.qps * workload.send_wq_depth * SLACK


@settings(max_examples=100)
@given(HARDWARE, WORKLOADS)
def test_a_load_above_capacity_has_the_latency_of_full_queues(subsystem: Subsystem, workload: Workload) -> None:
    full = evaluate(subsystem, workload)
    most = max(flow.limit for flow in (full.forth, full.back, full.loop)) * full.traffic.payload * 8
    above = evaluate(subsystem, workload.with_(offered_bps=int(1.01 * most) + 1))
    for (_, one), (_, other) in zip(of_flows(subsystem, full), of_flows(subsystem, above), strict=True):
        assert quantiles(one) == pytest.approx(quantiles(other))


@settings(max_examples=300)
@given(HARDWARE, WORKLOADS, st.lists(st.floats(0.001, 1.2), min_size=2, max_size=6))
def test_more_load_is_never_faster(subsystem: Subsystem, workload: Workload, shares: list[float]) -> None:
    full = evaluate(subsystem, workload)
    limit = full.forth.limit * full.traffic.payload * 8
    loads = [max(1, int(share * limit)) for share in sorted(shares)]
    found = [latencies(subsystem, evaluate(subsystem, workload.with_(offered_bps=bps))).forth for bps in loads]
    for low, high in pairwise(found):
        assert low is not None
        assert high is not None
        for less, more in zip(quantiles(low), quantiles(high), strict=True):
            assert less <= more * SLACK


@settings(max_examples=30)
@given(HARDWARE, st.lists(WORKLOADS, min_size=2, max_size=6), st.integers(1, 10**11))
def test_many_points_at_once_are_those_one_by_one(subsystem: Subsystem, points: list[Workload], bps: int) -> None:
    workloads = [*points, *(point.with_(offered_bps=bps) for point in points)]
    together = latencies(subsystem, evaluate_many(subsystem, workloads))
    for index, workload in enumerate(workloads):
        alone = latencies(subsystem, evaluate(subsystem, workload))
        for many, one in zip(together, alone, strict=True):
            at_point = (
                [np.broadcast_to(value, len(workloads))[index] for value in quantiles(many)] if many else [0.0] * 6
            )
            assert at_point == pytest.approx(quantiles(one) if one else (0.0,) * 6)


def test_a_load_below_saturation_waits_in_open_queues_and_a_window_bounds_it() -> None:
    workload = Workload(qps=8, messages=(4096,))
    by_load = [forth(workload.with_(offered_bps=int(share * 195e9))).completion for share in (0.01, 0.5, 0.9, 0.999)]
    full = forth(workload).completion
    assert [each.median for each in by_load] == sorted(each.median for each in by_load)
    assert by_load[0].median < 4e-6
    assert by_load[2].p99 > 2 * by_load[0].p99
    assert by_load[-1].median < full.median < 200e-6


def test_a_short_message_waits_behind_bulk_ones_of_its_queue() -> None:
    short = forth(Workload(messages=(64,), offered_bps=10**9))
    behind = forth(Workload(messages=(64, 64, 64, 1 << 20), offered_bps=50 * 10**9, mr_bytes=1 << 20))
    assert behind.completion.median < 2 * short.completion.median + 60e-6
    assert behind.completion.p99 > 10 * short.completion.p99


def test_a_far_buffer_takes_longer_at_its_host() -> None:
    near = Workload(messages=(4096,), offered_bps=10**9)
    here, there = forth(near.with_(numa_node=1)), forth(near.with_(peer_numa_node=1))
    assert here.one_way.median - forth(near).one_way.median == pytest.approx(F.memory.far_latency_seconds)
    assert there.one_way.median - forth(near).one_way.median == pytest.approx(F.memory.far_latency_seconds)


def test_missed_contexts_show_in_the_median_and_few_of_them_in_the_tail() -> None:
    workload = Workload(messages=(512,), offered_bps=10**9, send_wq_depth=8)
    few, some, all_miss = (forth(workload.with_(qps=qps)).completion for qps in (8, 250, 8000))
    assert some.median == pytest.approx(few.median, rel=0.02)
    assert some.p99 > few.p99 + 0.5 * F.context_cache.miss_seconds
    assert all_miss.median > few.median + F.context_cache.miss_seconds


def test_a_read_takes_the_way_there_and_back() -> None:
    load = Workload(messages=(64,), offered_bps=10**8)
    read, write = forth(load.with_(opcode=Opcode.READ)), forth(load)
    assert read.one_way == read.completion
    assert read.completion.median == pytest.approx(write.completion.median, rel=0.05)
    assert read.one_way.median > write.one_way.median + 0.9 * F.wire.round_trip_seconds / 2
    datagram = forth(load.with_(qp_type=QpType.UD, opcode=Opcode.SEND))
    assert datagram.completion == datagram.one_way


def test_a_host_with_a_slower_slot_is_late_at_its_side() -> None:
    slow = F.with_part("pcie", write_latency_seconds=1e-6)
    workload = Workload(messages=(64,), max_inline_data=64, offered_bps=10**8)
    found = latencies_between(F, slow, evaluate_between(F, slow, workload)).forth
    assert found is not None
    assert found.one_way.median - forth(workload).one_way.median == pytest.approx(0.8e-6)


def test_a_message_in_the_work_request_saves_the_read_of_its_payload() -> None:
    load = Workload(messages=(64,), offered_bps=10**8)
    saved = forth(load).one_way.median - forth(load.with_(max_inline_data=64)).one_way.median
    assert saved == pytest.approx(F.pcie.idle_read_latency_seconds, rel=0.05)


def test_one_way_of_a_short_message_is_that_of_the_data_sheet() -> None:
    # Doorbell and write 0.2 us each, and half of the round trip through both NICs and one switch.
    assert forth(ping_pong(64)).one_way.median == pytest.approx(1.4e-6, rel=0.02)


@pytest.mark.parametrize("size", MEASURED_US)
def test_latencies_of_a_production_nic_follow_from_its_network(size: int) -> None:
    # The latency of the shortest message tells the network between the hosts. The line is that of one queue pair: 88.8
    # Gbit/s of payload from 64 to 512 KiB, so one port of 100 Gbit/s. All other rows are predictions.
    missing = MEASURED_US[64] * 1e-6 - forth(ping_pong(64)).one_way.median
    network = F.wire.round_trip_seconds + 2 * missing
    nic = F.with_part("wire", round_trip_seconds=network, line_rate_bps=100e9)
    assert forth(ping_pong(size), nic).one_way.median * 1e6 == pytest.approx(MEASURED_US[size], rel=0.2)


def ping_pong(size: int) -> Workload:
    """ib_write_lat: one queue pair, nearly idle, messages of at most 220 bytes inside the work request."""
    return Workload(messages=(size,), mtu=1024, max_inline_data=220, mr_bytes=1 << 20, offered_bps=10**6)


SIZES, LOADS, BATCHES = (64, 256, 1024, 16384), (10**10, 4 * 10**10, 10**11, 15 * 10**10), (1, 4, 16)
PLAIN = st.builds(
    lambda size, bps, batch, transport: Workload(
        qp_type=transport,
        opcode=Opcode.SEND,
        qps=16,
        messages=(size,),
        send_wq_depth=4096,
        offered_bps=bps,
        wqe_batch=batch,
    ),
    st.sampled_from(SIZES[:3]),
    st.sampled_from(LOADS),
    st.sampled_from(BATCHES),
    st.sampled_from([QpType.UD, QpType.RC]),
)


@settings(max_examples=200)
@given(HEALTHY, PLAIN)
def test_latencies_of_plain_traffic_lie_in_their_brackets(subsystem: Subsystem, own: Workload) -> None:
    """Near a limit of messages or doorbells, too, which shorter messages and smaller batches are nearer to."""

    def measured(plain: Workload) -> Latency | None:
        state = evaluate(subsystem, plain)
        carried = state.forth.sent >= 0.98 * plain.offered_bps / 8 / plain.messages[0]
        found = latencies(subsystem, state).forth
        return Latency(*found.completion) if found and carried else None

    others = [own.with_(messages=(a,), offered_bps=b, wqe_batch=c) for a, b, c in product(SIZES, LOADS, BATCHES)]
    here = measured(own)
    known = [(other, there) for other in others if (there := measured(other)) is not None]
    between = latencies_of(own, known)
    if here is not None:
        assert between.low is not None
        assert between.high is not None
        least, most = between.low.p99_seconds or math.inf, between.high.p99_seconds or 0.0
        assert least / 1.1 <= (here.p99_seconds or 0.0) <= 1.1 * most


LIGHT = Workload(qps=64, messages=(4096,), offered_bps=10 * 10**9)
DELAYS = {
    "acknowledgement_timer": ({"acknowledgement_timer_seconds": 1e-4, "acknowledgement_timer_ends": 16}, LIGHT),
    "cold_regions": ({"cold_region_seconds": 1e-3, "cold_regions": 64}, LIGHT.with_(mrs_per_qp=16)),
    "long_lists": ({"long_list_seconds": 1e-3, "long_list_entries": 12}, LIGHT.with_(sge_count=12)),
    "loopback_bursts": ({"loopback_burst_seconds": 1e-3}, LIGHT.with_(loopback=True, messages=(4 << 20,))),
}


@pytest.mark.parametrize("name", DELAYS)
def test_a_delay_costs_latency_and_no_throughput_where_there_is_room(name: str) -> None:
    changes, trigger = DELAYS[name]
    late = F.with_part("delays", **changes)
    assert forth(trigger, late).completion.p99 > 2 * forth(trigger).completion.p99
    assert evaluate(late, trigger).delivered_bps() == evaluate(F, trigger).delivered_bps()


@pytest.mark.parametrize(
    ("name", "escape"),
    [
        ("acknowledgement_timer", {"qps": 1}),
        ("acknowledgement_timer", {"opcode": Opcode.READ}),
        ("acknowledgement_timer", {"qp_type": QpType.UC}),
        ("cold_regions", {"mrs_per_qp": 1, "qps": 2}),
        ("long_lists", {"sge_count": 8}),
        ("loopback_bursts", {"loopback": False}),
        ("loopback_bursts", {"messages": (4096,)}),  # loopback yields between short messages
    ],
)
def test_a_delay_has_conditions(name: str, escape: dict[str, object]) -> None:
    changes, trigger = DELAYS[name]
    late, other = F.with_part("delays", **changes), trigger.with_(**escape)
    assert forth(other, late).completion.p99 < 1.5 * forth(other).completion.p99


def test_an_acknowledgement_timer_holds_up_a_sender_that_waits_for_each_answer() -> None:
    changes, trigger = DELAYS["acknowledgement_timer"]
    one_at_a_time = trigger.with_(send_wq_depth=1, offered_bps=0)
    slow, fast = (evaluate(each, one_at_a_time) for each in (F.with_part("delays", **changes), F))
    assert max(slow.delivered_bps()) < 0.3 * max(fast.delivered_bps())
