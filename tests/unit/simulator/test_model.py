"""The model obeys physics, whatever the workload."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.simulator.bottleneck import bottleneck
from collie.simulator.caches import excess, miss_ratio, overrun, pushed_out
from collie.simulator.cures import cured
from collie.simulator.hardware import Subsystem
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import FlowRates, SteadyState, evaluate, evaluate_many
from collie.simulator.numbers import ONE
from collie.simulator.ordering import bulk_share, bulk_then_small, distinct_segments, small_share
from collie.simulator.readings import COUNTERS, counters
from collie.simulator.specification import specification
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.wire import message_overhead_bytes, packet_overhead_bytes
from collie.workloads.workload import Direction, Opcode, QpType, Workload

FILE = load_subsystem("F", SubsystemFile)
F = FILE.hardware
H = load_subsystem("H", SubsystemFile).hardware
SPACE = load_space("nsdi22")
WORKLOADS = st.integers(0, 1 << 32).map(lambda seed: SPACE.sample(Random(seed)))
TRIGGERS = {witness.mechanism: witness.trigger for witness in FILE.witnesses}
SLACK = 1 + 1e-6


HARDWARE = st.sampled_from([F, H])


def readings(subsystem: Subsystem, workload: Workload, host: int) -> dict[str, float]:
    return dict(zip(COUNTERS, counters(subsystem, evaluate(subsystem, workload))[host], strict=True))


def flows(state: SteadyState) -> tuple[FlowRates, FlowRates, FlowRates]:
    return state.forth, state.back, state.loop


def upstream_bytes(state: SteadyState) -> tuple[float, float]:
    """PCIe upstream of the payload's source and of its sink."""
    costs, forth, back, loop = state.costs, *flows(state)
    source = forth.sent * costs.upstream_out + back.delivered * costs.upstream_in
    sink = (back.sent + loop.sent) * costs.upstream_out + (forth.delivered + loop.delivered) * costs.upstream_in
    return source, sink


@settings(max_examples=300)
@given(HARDWARE, WORKLOADS)
def test_nothing_carries_more_than_it_can(subsystem: Subsystem, workload: Workload) -> None:
    state = evaluate(subsystem, workload)
    for load in (state.source, state.sink):
        assert max(load.steady) <= SLACK
        assert load.loopback <= SLACK
        assert 0 < load.accepted <= 1
        assert 0 < load.kept <= 1
        if state.lossless:  # after pause, nothing that arrives is more than its stage takes
            assert max(load.arrival) * load.accepted <= SLACK
    assert max(upstream_bytes(state)) <= subsystem.pcie.bytes_per_second * SLACK
    for host in (0, 1):
        assert readings(subsystem, workload, host)["tx_bytes"] * 8 <= subsystem.wire.line_rate_bps * SLACK
        assert 0 <= state.pause_ratio()[host] < 1
    for flow in flows(state):
        assert 0 <= flow.delivered <= flow.sent * SLACK <= flow.offered * SLACK**2
        assert flow.offered <= flow.limit * SLACK


@settings(max_examples=300)
@given(HARDWARE, WORKLOADS)
def test_a_host_that_receives_no_payload_pauses_nobody(subsystem: Subsystem, workload: Workload) -> None:
    one_way = workload.with_(direction=Direction.UNIDIRECTIONAL, loopback=False)
    assert evaluate(subsystem, one_way).source.accepted == 1


@settings(max_examples=200)
@given(HARDWARE, WORKLOADS)
def test_network_traffic_never_exceeds_the_data_sheet(subsystem: Subsystem, workload: Workload) -> None:
    quiet = workload.with_(loopback=False)
    state, bound = evaluate(subsystem, quiet), specification(subsystem, quiet)
    # Of unlike directions one may have what the other leaves of PCIe, held up by its memory: then both together count.
    if workload.numa_node == workload.peer_numa_node and workload.memory is workload.peer_memory:
        assert max(state.delivered_bps()) <= bound.bps * SLACK
        assert max(state.delivered_pps()) <= bound.pps * SLACK
    assert sum(state.delivered_bps()) <= quiet.directions * bound.bps * SLACK
    assert sum(state.delivered_pps()) <= quiet.directions * bound.pps * SLACK


@settings(max_examples=200)
@given(HARDWARE, WORKLOADS)
def test_what_one_port_sends_the_other_receives(subsystem: Subsystem, workload: Workload) -> None:
    a, b = readings(subsystem, workload, 0), readings(subsystem, workload, 1)
    for what in ("bytes", "packets", "pause_duration"):
        assert a[f"tx_{what}"] == pytest.approx(b[f"rx_{what}"])
        assert b[f"tx_{what}"] == pytest.approx(a[f"rx_{what}"])
    assert all(value >= 0 for value in (*a.values(), *b.values()))


@settings(max_examples=200)
@given(HARDWARE, WORKLOADS)
def test_what_was_sent_is_delivered_or_counted_as_lost(subsystem: Subsystem, workload: Workload) -> None:
    state = evaluate(subsystem, workload)
    sent = state.by_host(state.back.sent, state.forth.sent + state.loop.sent)
    for host in (0, 1):
        lost = state.loss_ratio()[host]
        assert state.delivered()[host] == pytest.approx(sent[host] * (1 - lost))
        assert readings(subsystem, workload, host)["out_of_buffer"] == pytest.approx(
            sent[host] * state.traffic.packets * lost
        )


@settings(max_examples=200)
@given(HARDWARE, WORKLOADS)
def test_swapped_hosts_give_the_mirrored_result(subsystem: Subsystem, workload: Workload) -> None:
    both = workload.with_(direction=Direction.BIDIRECTIONAL, loopback=False)
    swapped = both.with_(
        numa_node=both.peer_numa_node,
        peer_numa_node=both.numa_node,
        memory=both.peer_memory,
        peer_memory=both.memory,
    )
    for host in (0, 1):
        mirrored = readings(subsystem, swapped, 1 - host)
        assert readings(subsystem, both, host) == pytest.approx(mirrored, rel=1e-9)


@settings(max_examples=50)
@given(HARDWARE, st.lists(WORKLOADS, min_size=1, max_size=8))
def test_many_points_at_once_are_those_one_by_one(subsystem: Subsystem, workloads: list[Workload]) -> None:
    many = evaluate_many(subsystem, workloads)
    read = counters(subsystem, many)
    for index, workload in enumerate(workloads):
        one = evaluate(subsystem, workload)
        for host in (0, 1):
            assert many.delivered_bps()[host][index] == pytest.approx(one.delivered_bps()[host])
            assert many.pause_ratio()[host][index] == pytest.approx(one.pause_ratio()[host])
            assert many.loss_ratio()[host][index] == pytest.approx(one.loss_ratio()[host])
            values = counters(subsystem, one)[host]
            for name, together, alone in zip(COUNTERS, read[host], values, strict=True):
                assert np.broadcast_to(together, len(workloads))[index] == pytest.approx(alone), name


GROWTHS: list[tuple[str, str, float]] = [
    ("engine", "unit_packets_per_second", 2),
    ("engine", "doorbells_per_second", 2),
    ("engine", "wqe_fetches_per_qp", 2),
    ("reads", "requester_slow_packets_per_second", 1.1),
    ("reads", "scatter_lists", 2),
    ("reads", "pending_requests", 2),
    ("acknowledgements", "contexts", 2),
    ("arbiter", "packets_per_second", 1.2),
    ("transmit_staging", "size_bytes", 2),
    ("pcie", "read_tags", 2),
    ("pcie", "generation", 1.25),
    ("context_cache", "entries", 2),
    ("context_cache", "outstanding_misses", 2),
    ("translation_cache", "entries", 2),
    ("translation_cache", "outstanding_misses", 2),
    ("datagram_receives", "prefetch_wqes", 2),
    ("datagram_receives", "resident_wqes_per_queue", 2),
    ("datagram_receives", "size_bytes", 2),
    ("datagram_receives", "outstanding_fetches", 2),
    ("reliable_receives", "prefetch_wqes", 2),
    ("reliable_receives", "size_bytes", 2),
    ("socket_link", "streamed_rate_bps", 1.1),
    ("gpu_bridge", "contended_write_bps", 1.1),
    ("wire", "line_rate_bps", 2),
    ("memory", "bandwidth_bps", 2),
]


@pytest.mark.parametrize(("part", "field", "factor"), GROWTHS)
@settings(max_examples=60)
@given(subsystem=HARDWARE, workload=WORKLOADS)
def test_more_of_a_resource_is_never_slower(
    part: str, field: str, factor: float, subsystem: Subsystem, workload: Workload
) -> None:
    value = getattr(getattr(subsystem, part), field)
    more = subsystem.with_part(part, **{field: type(value)(value * factor)})
    # Unlike flows compete: what one wins the other may lose. So both directions are alike, and nothing loops.
    network = workload.with_(loopback=False, peer_numa_node=workload.numa_node, peer_memory=workload.memory)
    before, after = evaluate(subsystem, network), evaluate(more, network)
    for host in (0, 1):
        assert after.delivered_bps()[host] >= before.delivered_bps()[host] * (1 - 1e-6)


@settings(max_examples=200)
@given(WORKLOADS)
def test_without_the_planted_mechanisms_no_host_pauses(workload: Workload) -> None:
    state = evaluate(cured(F, Mechanism), workload)
    assert state.pause_ratio()[0] == state.pause_ratio()[1] == 0


def test_without_pfc_ud_drops_silently_and_rc_slows_down() -> None:
    lossy = FILE.with_settings({"pfc": "disabled"}).hardware
    trigger = TRIGGERS[Mechanism.DATAGRAM_PREFETCH]
    lossless_state, state = evaluate(F, trigger), evaluate(lossy, trigger)
    assert state.pause_ratio()[1] == 0
    assert state.loss_ratio()[1] == pytest.approx(lossless_state.pause_ratio()[1])
    assert state.forth.sent > state.forth.delivered  # the sender is none the wiser
    assert readings(lossy, trigger, 0)["tx_packets"] > lossless_state.forth.sent
    assert readings(lossy, trigger, 1)["out_of_buffer"] > 0
    read = TRIGGERS[Mechanism.READ_SLOW_PATH]
    assert evaluate(lossy, read).delivered_bps()[0] < evaluate(F, read).delivered_bps()[0]


def test_datagrams_without_a_receive_are_dropped_and_rc_is_held_back() -> None:
    dropped = evaluate(F, TRIGGERS[Mechanism.DATAGRAM_RECEIVE_CACHE])
    assert dropped.pause_ratio() == (0, 0)
    assert dropped.forth.sent > 1.2 * dropped.forth.delivered
    assert dropped.loss_ratio()[1] > 0.2
    withheld = evaluate(F, TRIGGERS[Mechanism.RELIABLE_RECEIVE_CACHE])
    assert withheld.pause_ratio() == (0, 0)
    assert withheld.forth.sent == withheld.forth.delivered
    assert bottleneck(withheld) == "receive credits of host b"


def test_a_slot_too_narrow_for_the_line_is_what_limits() -> None:
    narrow = F.with_part("pcie", generation=3)
    wide_state, narrow_state = evaluate(F, Workload(qps=8)), evaluate(narrow, Workload(qps=8))
    assert narrow_state.delivered_bps()[1] < 113.7e9 < wide_state.delivered_bps()[1]
    # The sender's slot is as narrow, and reads carry 20 bytes where writes carry 24: hardly anything piles up.
    assert 0 < narrow_state.pause_ratio()[1] < 0.01
    assert bottleneck(narrow_state) == "PCIe upstream of host b"


def test_yielding_loopback_takes_what_is_left() -> None:
    network = Workload(qps=8, messages=(4096,))
    alone, beside = evaluate(F, network), evaluate(F, network.with_(loopback=True))
    assert beside.forth.delivered == pytest.approx(alone.forth.delivered, rel=0.02)
    assert 0 < beside.loop.delivered < beside.forth.delivered


def test_inlined_messages_save_the_payload_read() -> None:
    workload = Workload(qps=8, messages=(64,), wqe_batch=16)
    inline = workload.with_(max_inline_data=64)
    assert evaluate(F, inline).traffic.gather == 0
    assert evaluate(F, inline).traffic.send_wqe == 128


def test_a_minimum_mtu_is_what_every_connection_gets() -> None:
    raised = FILE.with_settings({"minimum_mtu": "4096"}).hardware
    small = Workload(qps=8, mtu=256)
    assert evaluate(raised, small).delivered_bps() == evaluate(F, small.with_(mtu=4096)).delivered_bps()


def test_bytes_on_the_wire_are_those_of_rocev2() -> None:
    assert packet_overhead_bytes(QpType.RC) == 82
    assert packet_overhead_bytes(QpType.UD) == 82 + 8, "DETH"
    assert message_overhead_bytes(Opcode.SEND) == 0
    assert message_overhead_bytes(Opcode.WRITE) == 16, "RETH"
    assert message_overhead_bytes(Opcode.SEND_WITH_IMM) == 4
    assert message_overhead_bytes(Opcode.WRITE_WITH_IMM) == 16 + 4
    assert F.pcie.bytes_per_second * 8 == pytest.approx(227.4e9)


def test_the_plain_workload_fills_the_line() -> None:
    state = evaluate(F, SPACE.base)
    assert state.delivered_bps()[1] == pytest.approx(specification(F, SPACE.base).bps)
    assert bottleneck(state) == "wire of host a"
    assert state.receives() == (0, 1)
    assert bottleneck(evaluate(F, Workload(qps=1, send_wq_depth=1, messages=(64,)))) == "window"


def test_hit_curves() -> None:
    assert miss_ratio(0, 100, 4, 0.05) == 0
    assert miss_ratio(100, 100, 4, 0) == pytest.approx(0.5)
    assert miss_ratio(1e12, 100, 16, 0.05) == pytest.approx(1)
    curve = [miss_ratio(size, 100, 8, 0.05) for size in range(0, 400, 10)]
    assert curve == sorted(curve)
    assert [overrun(ONE, amount, 32) for amount in (1, 32, 40, 48, 64, 128)] == [0, 0, 0.25, 0.5, 1, 1]
    assert [excess(ONE, amount, 16) for amount in (1, 16, 32, 64)] == [0, 0, 0.5, 0.75]
    assert [pushed_out(ONE, amount, 32) for amount in (8, 16, 32, 64, 128)] == [1 / 64, 1 / 16, 0.25, 1, 1]


@settings(max_examples=200)
@given(WORKLOADS)
def test_distinct_segments_are_the_segments(workload: Workload) -> None:
    every = [size for message in workload.segments() for size in message]
    distinct = distinct_segments(workload)
    assert abs(max(distinct) - max(every)) <= 1
    assert abs(min(distinct) - min(every)) <= 1


def test_ordering_counts_short_behind_bulk() -> None:
    assert [bulk_share(size, 65536) for size in (1024, 49152, 57344, 65536, 1 << 20)] == [0, 0, 0.5, 1, 1]
    assert [small_share(size, 1024) for size in (64, 1024, 1536, 2048, 65536)] == [1, 1, 0.5, 0, 0]
    assert bulk_then_small([128, 65536, 1024], 65536, 1024) == 1
    assert bulk_then_small([65536, 65536], 65536, 1024) == 0
    assert bulk_then_small([64, 1 << 20, 64, 1 << 20], 65536, 1024) == 2
    assert bulk_then_small([57344, 1536], 65536, 1024) == 0.25
