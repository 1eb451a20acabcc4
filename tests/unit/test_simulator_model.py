"""The model obeys physics, whatever the workload."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collie.content.locate import Kind, find
from collie.content.model import load_model
from collie.content.spaces import load_space
from collie.simulator.caches import miss_ratio, overrun, pressure
from collie.simulator.demand import KINDS
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import State, evaluate
from collie.simulator.ordering import bulk_share, bulk_then_small, distinct_segments, small_share
from collie.simulator.readings import COUNTERS, counters
from collie.simulator.specification import specification
from collie.simulator.subsystem import Subsystem, SubsystemFile
from collie.simulator.truth import cured
from collie.simulator.wire import data_bytes
from collie.workloads.workload import Direction, Opcode, QpType, Workload

F = load_model(find(Kind.SUBSYSTEM, "F"), SubsystemFile)
SPACE = load_space("nsdi22")
WORKLOADS = st.integers(0, 1 << 32).map(lambda seed: SPACE.sample(Random(seed)))
TRIGGERS = {witness.mechanism: witness.trigger for witness in F.witnesses}
SLACK = 1 + 1e-6


def readings(subsystem: Subsystem, workload: Workload, host: int) -> dict[str, float]:
    return dict(zip(COUNTERS, counters(subsystem, workload, evaluate(subsystem, workload), host), strict=True))


def upstream_bytes(state: State, host: int) -> float:
    sent = sum(rate.sent * rate.demand.upstream_out for rate in state.flows if rate.demand.source == host)
    return sent + sum(rate.delivered * rate.demand.upstream_in for rate in state.flows if rate.demand.sink == host)


@settings(max_examples=300, deadline=None)
@given(WORKLOADS)
def test_nothing_carries_more_than_it_can(workload: Workload) -> None:
    state = evaluate(F, workload)
    assert max(state.steady) <= SLACK
    for host in (0, 1):
        assert upstream_bytes(state, host) <= F.pcie.bytes_per_second * SLACK
        assert readings(F, workload, host)["tx_bytes"] * 8 <= F.wire.line_rate_bps * SLACK
        assert 0 <= state.pause_ratio(host) < 1
    for rate in state.flows:
        assert 0 <= rate.delivered <= rate.sent * SLACK <= rate.offered * SLACK**2
        assert rate.offered <= rate.demand.limit * SLACK


@settings(max_examples=200, deadline=None)
@given(WORKLOADS)
def test_network_traffic_never_exceeds_the_data_sheet(workload: Workload) -> None:
    quiet = workload.with_(loopback=False)
    state, bound = evaluate(F, quiet), specification(F, quiet)
    for host in (0, 1):
        assert state.delivered_bps(host) <= bound.bps * SLACK
        assert state.delivered_pps(host) <= bound.pps * SLACK


@settings(max_examples=200, deadline=None)
@given(WORKLOADS)
def test_what_one_port_sends_the_other_receives(workload: Workload) -> None:
    a, b = readings(F, workload, 0), readings(F, workload, 1)
    for what in ("bytes", "packets", "pause_duration"):
        assert a[f"tx_{what}"] == pytest.approx(b[f"rx_{what}"])
        assert b[f"tx_{what}"] == pytest.approx(a[f"rx_{what}"])
    assert all(value >= 0 for value in (*a.values(), *b.values()))


@settings(max_examples=200, deadline=None)
@given(WORKLOADS)
def test_swapped_hosts_give_the_mirrored_result(workload: Workload) -> None:
    both = workload.with_(direction=Direction.BIDIRECTIONAL, loopback=False)
    swapped = both.with_(
        numa_node=both.peer_numa_node,
        peer_numa_node=both.numa_node,
        memory=both.peer_memory,
        peer_memory=both.memory,
    )
    for host in (0, 1):
        mirrored = readings(F, swapped, 1 - host)
        assert readings(F, both, host) == pytest.approx(mirrored, rel=1e-9)


GROWTHS: list[tuple[str, str, float]] = [
    ("engine", "packets_per_second", 2),
    ("engine", "doorbells_per_second", 2),
    ("engine", "read_requester_slow_packets_per_second", 1.1),
    ("engine", "wqe_fetches_per_qp", 2),
    ("pcie", "read_tags", 2),
    ("pcie", "generation", 1.25),
    ("context_cache", "entries", 2),
    ("context_cache", "outstanding_misses", 2),
    ("translation_cache", "entries", 2),
    ("translation_cache", "outstanding_misses", 2),
    ("receive_wqe_cache", "prefetch_wqes", 2),
    ("receive_wqe_cache", "resident_wqes_per_queue", 2),
    ("receive_wqe_cache", "outstanding_fetches", 2),
    ("wire", "line_rate_bps", 2),
    ("memory", "bandwidth_bps", 2),
]


@pytest.mark.parametrize(("part", "field", "factor"), GROWTHS)
@settings(max_examples=60, deadline=None)
@given(workload=WORKLOADS)
def test_more_of_a_resource_is_never_slower(part: str, field: str, factor: float, workload: Workload) -> None:
    value = getattr(getattr(F, part), field)
    more = F.with_part(part, **{field: type(value)(value * factor)})
    network = workload.with_(loopback=False)  # on a host with both, what one flow wins the other may lose
    before, after = evaluate(F, network), evaluate(more, network)
    for host in (0, 1):
        assert after.delivered_bps(host) >= before.delivered_bps(host) * (1 - 1e-6)


@settings(max_examples=200, deadline=None)
@given(WORKLOADS)
def test_without_the_planted_mechanisms_nobody_pauses(workload: Workload) -> None:
    state = evaluate(cured(F, Mechanism), workload)
    assert state.pause_ratio(0) == state.pause_ratio(1) == 0


def test_without_pfc_ud_drops_silently_and_rc_slows_down() -> None:
    lossy = F.with_part("settings", pfc=False)
    trigger = TRIGGERS[Mechanism.RECEIVE_WQE_PREFETCH]
    lossless_state, state = evaluate(F, trigger), evaluate(lossy, trigger)
    assert state.pause_ratio(1) == 0
    assert state.loss_ratio(1) == pytest.approx(lossless_state.pause_ratio(1))
    assert state.flows[0].sent > state.flows[0].delivered  # the sender is none the wiser
    assert readings(lossy, trigger, 0)["tx_packets"] > lossless_state.flows[0].sent
    assert readings(lossy, trigger, 1)["out_of_buffer"] > 0
    read = TRIGGERS[Mechanism.READ_SLOW_PATH]
    assert evaluate(lossy, read).delivered_bps(0) < evaluate(F, read).delivered_bps(0)


def test_a_slot_too_narrow_for_the_line_is_what_limits() -> None:
    narrow = F.with_part("pcie", generation=3)
    sender, receiver = evaluate(F, Workload(qps=8)), evaluate(narrow, Workload(qps=8))
    assert receiver.delivered_bps(1) < 113.7e9 < sender.delivered_bps(1)
    # The sender's slot is as narrow, and reads carry 20 bytes where writes carry 24: hardly anything piles up.
    assert 0 < receiver.pause_ratio(1) < 0.01
    assert receiver.bottleneck == "PCIe upstream of host b"


def test_yielding_loopback_takes_what_is_left() -> None:
    network = Workload(qps=8, messages=(4096,))
    alone, beside = evaluate(F, network), evaluate(F, network.with_(loopback=True))
    wire, loop = beside.flows
    assert loop.demand.yields
    assert wire.delivered == pytest.approx(alone.flows[0].delivered, rel=0.02)
    assert 0 < loop.delivered < wire.delivered


def test_inlined_messages_save_the_payload_read() -> None:
    workload = Workload(qps=8, messages=(64,), wqe_batch=16)
    inline = workload.with_(max_inline_data=64)
    assert evaluate(F, inline).pattern.gather_bytes == 0
    assert evaluate(F, inline).pattern.send_wqe_bytes == 128


def test_bytes_on_the_wire_are_those_of_rocev2() -> None:
    # 4096 + 82 + 16 (RETH); a UD packet has 8 more (DETH); 1 KiB at MTU 256 is four packets.
    assert data_bytes(4096, 4096, QpType.RC, Opcode.WRITE) == 4194
    assert data_bytes(2048, 2048, QpType.UD, Opcode.SEND) == 2138
    assert data_bytes(1024, 256, QpType.RC, Opcode.SEND) == 1024 + 4 * 82
    assert data_bytes(64, 256, QpType.UC, Opcode.SEND_WITH_IMM) == 64 + 82 + 4
    assert data_bytes(64, 256, QpType.UC, Opcode.WRITE_WITH_IMM) == 64 + 82 + 16 + 4
    assert F.pcie.bytes_per_second * 8 == pytest.approx(227.4e9)


def test_the_plain_workload_fills_the_line() -> None:
    state = evaluate(F, SPACE.base)
    assert state.delivered_bps(1) == pytest.approx(specification(F, SPACE.base).bps)
    assert state.bottleneck == "wire of host a"
    assert state.receives(1)
    assert not state.receives(0)
    assert evaluate(F, Workload(qps=1, send_wq_depth=1, messages=(64,))).bottleneck == "window"


def test_hit_curves() -> None:
    assert miss_ratio(0, 100, 4, 0.05) == 0
    assert miss_ratio(100, 100, 4, 0) == pytest.approx(0.5)
    assert miss_ratio(1e12, 100, 16, 0.05) == pytest.approx(1)
    curve = [miss_ratio(size, 100, 8, 0.05) for size in range(0, 400, 10)]
    assert curve == sorted(curve)
    assert [overrun(amount, 32) for amount in (1, 32, 48, 64, 128)] == [0, 0, 0.5, 1, 1]
    assert [pressure(amount, 64) for amount in (16, 64, 128)] == [1 / 16, 1, 1]


@settings(max_examples=200, deadline=None)
@given(WORKLOADS)
def test_distinct_segments_are_the_segments(workload: Workload) -> None:
    every = [size for message in workload.segments() for size in message]
    distinct = distinct_segments(workload)
    assert abs(max(distinct) - max(every)) <= 1
    assert abs(min(distinct) - min(every)) <= 1


def test_ordering_counts_short_behind_bulk() -> None:
    assert [bulk_share(size, 65536) for size in (1024, 49152, 57344, 65536, 1 << 20)] == [0, 0, 0.5, 1, 1]
    assert [small_share(size, 1024) for size in (64, 1024, 1536, 2048, 65536)] == [1, 1, 0.5, 0, 0]
    assert bulk_then_small([128, 65536, 1024], 65536, 1024)[0] == 1
    assert bulk_then_small([65536, 65536], 65536, 1024) == (0, 0)
    assert bulk_then_small([64, 1 << 20, 64, 1 << 20], 65536, 1024)[0] == 2


def test_steady_resources_are_listed_per_host() -> None:
    state = evaluate(F, SPACE.base.with_(direction=Direction.BIDIRECTIONAL))
    assert state.steady[:KINDS] == pytest.approx(state.steady[KINDS:])
