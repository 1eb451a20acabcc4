"""How a workload becomes chains of work requests, and what of a workload is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from collie.agent import pattern
from collie.agent.faults import AgentFault
from tests.support.agent_workloads import workload


@pytest.mark.parametrize(
    ("message", "count", "how", "lengths"),
    [
        (4096, 1, "even", (4096,)),
        (10, 4, "even", (3, 3, 2, 2)),
        (2, 4, "even", (1, 1)),
        (100, 3, (64,), (64, 18, 18)),
        (100, 2, (64, 4), (64, 36)),
        (40, 3, (64,), (40,)),
        (100, 3, (0, 64), (64, 36)),
    ],
)
def test_a_message_is_split_as_requested(message: int, count: int, how: Any, lengths: tuple[int, ...]) -> None:
    assert pattern.split(message, count, how) == lengths


@given(
    message=st.integers(1, 1 << 20),
    count=st.integers(1, 32),
    listed=st.lists(st.integers(0, 1 << 16), max_size=32),
)
def test_a_split_keeps_every_byte_and_has_no_empty_entry(message: int, count: int, listed: list[int]) -> None:
    lengths = pattern.split(message, count, listed[:count] or "even")
    assert sum(lengths) == message
    assert all(lengths)
    assert len(lengths) <= count


def test_only_the_last_request_of_a_chain_is_signalled_and_proves_the_chain() -> None:
    (chain,) = pattern.send_chains(workload(wqe_batch=3, messages=[100, 200, 300]), 1)
    assert [request.signalled for request in chain.requests] == [False, False, True]
    assert chain.requests[-1].delivers == (3, 600)
    assert chain.total_bytes == 600


def test_with_every_request_signalled_each_proves_itself() -> None:
    (chain,) = pattern.send_chains(workload(wqe_batch=2, messages=[100, 200], sq_sig_all=True), 1)
    assert [(r.signalled, r.delivers) for r in chain.requests] == [(True, (1, 100)), (True, (1, 200))]


def test_with_a_signalling_interval_the_last_request_of_a_round_proves_it() -> None:
    chains = pattern.send_chains(workload(wqe_batch=2, signal_every=2, messages=[100, 200, 300]), 1)
    requests = [request for chain in chains for request in chain.requests]
    assert [request.signalled for request in requests] == [False, False, False, True] * 3
    assert [request.delivers.bytes for request in requests if request.signalled] == [700, 800, 900]
    assert [request.ends_round for request in requests] == [request.signalled for request in requests]


def test_requests_take_opcodes_and_sizes_in_turn_and_an_atomic_takes_eight_bytes() -> None:
    mix = workload(opcode="SEND", more_opcodes=["READ", "FETCH_ADD"], messages=[64, 128], sge_count=4, wqe_batch=6)
    (chain,) = pattern.send_chains(mix, 1)
    assert [(r.opcode, r.message_bytes) for r in chain.requests] == [
        ("SEND", 64),
        ("READ", 128),
        ("FETCH_ADD", 8),
        ("SEND", 128),
        ("READ", 64),
        ("FETCH_ADD", 8),
    ]
    assert chain.requests[2].segments == (8,)
    assert chain.requests[-1].delivers == (2, 64 + 128)
    assert chain.requests[-1].returns == (4, 128 + 8 + 64 + 8)


def test_what_only_fetches_delivers_to_its_requester() -> None:
    (chain,) = pattern.send_chains(workload(opcode="READ", more_opcodes=["CMP_SWP"], wqe_batch=2), 1)
    assert (chain.requests[-1].delivers, chain.requests[-1].returns) == ((2, 4096 + 8), (0, 0))


def test_an_atomic_alone_needs_no_room_for_messages() -> None:
    assert workload(opcode="FETCH_ADD", messages=[1 << 20], mr_bytes=8).buffer_bytes == 8


@given(
    batch=st.integers(1, 64),
    messages=st.lists(st.integers(1, 4096), min_size=1, max_size=12),
    mrs=st.integers(1, 50),
    qps=st.integers(1, 500),
)
def test_chains_in_turn_repeat_the_message_mix(batch: int, messages: list[int], mrs: int, qps: int) -> None:
    item = workload(wqe_batch=batch, messages=messages, mrs_per_qp=mrs, mr_bytes=4096)
    chains = pattern.send_chains(item, qps)
    sent = [request.message_bytes for chain in chains for request in chain.requests]
    assert len(sent) % len(messages) == 0
    assert sent == messages * (len(sent) // len(messages))
    assert all(request.mr < mrs for chain in chains for request in chain.requests)


def test_every_mr_gets_its_turn() -> None:
    chains = pattern.send_chains(workload(wqe_batch=4, messages=[1, 2, 3], mrs_per_qp=200), 1)
    assert {request.mr for chain in chains for request in chain.requests} == set(range(200))


def test_the_number_of_chains_stays_within_what_can_be_built() -> None:
    chains = pattern.send_chains(workload(wqe_batch=7, messages=[8] * 11, mrs_per_qp=13, mr_bytes=8), 500)
    assert sum(len(chain.requests) for chain in chains) * 500 <= pattern.MAX_REQUESTS + 500 * 77


@pytest.mark.parametrize(("depth", "batch", "chains"), [(128, 1, 128), (128, 64, 2), (128, 48, 2), (16, 16, 1)])
def test_the_queue_holds_whole_chains(depth: int, batch: int, chains: int) -> None:
    assert pattern.fitting(depth, batch) == chains


def test_receives_fit_the_largest_message_and_the_ud_header() -> None:
    item = workload(qp_type="UD", opcode="SEND", messages=[64, 1000], sge_count=2)
    plan = pattern.receive_plan(item, 1, 1)
    assert plan.segments == (500 + pattern.GRH_BYTES, 500)


def test_receives_are_posted_in_chains_of_the_batch_over_all_mrs() -> None:
    item = workload(opcode="SEND", wqe_batch=8, recv_wq_depth=20, mrs_per_qp=10)
    plan = pattern.receive_plan(item, 10, 1)
    assert plan.batch == 8
    assert plan.chains_in_queue == 2
    assert {mr for chain in plan.chains for mr in chain} == set(range(10))


def test_a_batch_deeper_than_the_receive_queue_is_cut_to_it() -> None:
    assert pattern.receive_plan(workload(opcode="SEND", wqe_batch=8, recv_wq_depth=2), 1, 1).batch == 2


def test_payload_per_packet_follows_the_mix() -> None:
    bytes_per_packet, messages_per_packet = pattern.payload_per_packet(workload(messages=[4096, 100], mtu=1024))
    assert bytes_per_packet == pytest.approx(4196 / 5)
    assert messages_per_packet == pytest.approx(2 / 5)


@given(needs=st.lists(st.integers(1, 300), min_size=1, max_size=60), capacity=st.integers(300, 1000))
def test_completion_queues_hold_what_their_queue_pairs_may_raise(needs: list[int], capacity: int) -> None:
    groups = pattern.group(needs, capacity)
    assert [index for group in groups for index in group] == list(range(len(needs)))
    assert all(sum(needs[index] for index in group) <= capacity for group in groups)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"qpz": 1}, "unknown field qpz"),
        ({"wqe_batch": 0}, "wqe_batch"),
        ({"wqe_batch": True}, "wqe_batch"),
        ({"wqe_batch": 256}, "deeper than send_wq_depth"),
        ({"messages": []}, "messages"),
        ({"messages": [0]}, "messages"),
        ({"mr_bytes": 64}, "fit one MR"),
        ({"mtu": 1500}, "mtu"),
        ({"qp_type": "UD", "opcode": "READ"}, "UD has no READ"),
        ({"qp_type": "UC", "opcode": "READ"}, "UC has no READ"),
        ({"qp_type": "UD", "opcode": "SEND"}, "one packet"),
        ({"sge_count": 1, "sge_split": [1, 2]}, "sge_split"),
        ({"sge_split": "odd"}, "sge_split"),
        ({"rnr_retry": 8}, "rnr_retry"),
        ({"srq": 1}, "srq"),
        ({"opcode": "FLUSH"}, "an opcode must be one of"),
        ({"more_opcodes": ["FLUSH"]}, "an opcode must be one of"),
        ({"more_opcodes": "READ"}, "more_opcodes must be a list"),
        ({"connection": "by_hand"}, "connection must be one of out_of_band, rdma_cm"),
        ({"more_opcodes": [1]}, "more_opcodes must be a list"),
        ({"qp_type": "UC", "opcode": "FETCH_ADD"}, "UC has no FETCH_ADD"),
        ({"qp_type": "UC", "more_opcodes": ["SEND"]}, "UC mixes only"),
        ({"qp_type": "UD", "opcode": "SEND", "messages": [64], "more_opcodes": ["CMP_SWP"]}, "UD has no CMP_SWP"),
        ({"messages": [64] * 4097}, "a turn of opcodes and messages"),
        ({"wqe_batch": 64, "signal_every": 4}, "a full queue signals nothing"),
        ({"signal_every": 0}, "signal_every"),
    ],
)
def test_a_workload_that_no_host_could_run_is_refused_by_name(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(AgentFault, match=says) as caught:
        workload(**fields)
    assert caught.value.kind == "bad_request"


@pytest.mark.parametrize("fields", [{"memory": "gpu"}, {"qp_type": "UC", "connection": "rdma_cm"}])
def test_what_the_agent_does_not_drive_is_unsupported_rather_than_wrong(fields: dict[str, Any]) -> None:
    with pytest.raises(AgentFault) as caught:
        workload(**fields)
    assert caught.value.kind == "unsupported"
