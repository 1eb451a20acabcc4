"""Workloads, parsing, spaces and features."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from collie.content.spaces import load_space
from collie.workloads.constraint import VERBS
from collie.workloads.feature import Condition, Mfs, Op, feature_value
from collie.workloads.parse import parse_workload
from collie.workloads.plan import flows, sinks, streams
from collie.workloads.space import Space
from collie.workloads.units import format_bytes, parse_bytes, parse_rate, parse_seconds
from collie.workloads.workload import (
    Connection,
    Direction,
    Opcode,
    QpType,
    Workload,
    render,
    split_message,
    stable_text,
)
from tests.support.strategies import workloads

NSDI22 = load_space("nsdi22")
SOFT_ROCE = load_space("soft-roce")

spaces = st.sampled_from([NSDI22, SOFT_ROCE])
seeds = st.integers(0, 2**32)


@given(workloads())
def test_parsing_what_was_rendered_gives_the_same_workload(workload: Workload) -> None:
    assert parse_workload(render(workload)) == (workload, [])


@given(spaces, seeds)
def test_every_sample_is_in_its_space(space: Space, seed: int) -> None:
    assert space.complaints(space.sample(Random(seed))) == []


@given(spaces, seeds)
def test_a_mutation_is_in_the_space_and_differs_in_one_dimension(space: Space, seed: int) -> None:
    rng = Random(seed)
    workload = space.sample(rng)
    other = space.mutate(workload, rng)
    assert space.complaints(other) == []
    assert sum(workload.get(name) != other.get(name) for name in space.dimensions) == 1


@given(spaces)
def test_the_plain_workload_is_in_its_space(space: Space) -> None:
    assert space.complaints(space.base) == []


def test_drawing_reaches_every_value_of_every_ladder() -> None:
    rng = Random(1)
    drawn = [SOFT_ROCE.sample(rng) for _ in range(1500)]
    for name, dimension in SOFT_ROCE.dimensions.items():
        if name != "messages":
            assert {workload.get(name) for workload in drawn} == set(dimension.candidates()), name


def test_narrowing_fixes_and_limits() -> None:
    space = NSDI22.narrowed({"qp_type": QpType.UD}, {"qps": 100, "messages": 1000})
    assert "qp_type" not in space.dimensions
    for seed in range(50):
        workload = space.sample(Random(seed))
        assert workload.qp_type is QpType.UD
        assert workload.qps <= 100
        assert max(workload.messages) <= 1000
    assert space.log10_size() < NSDI22.log10_size()


@pytest.mark.parametrize(
    ("fix", "limit", "message"),
    [
        ({"qqs": 1}, {}, "no dimension 'qqs'"),
        ({"qps": 30000}, {}, "out of range"),
        ({}, {"qps": 0}, "leaves nothing"),
        ({}, {"opcode": 4}, "no ordered dimension"),
    ],
)
def test_narrowing_refuses_what_is_not_there(fix: dict[str, object], limit: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NSDI22.narrowed(fix, limit)


@given(st.integers(1, 1 << 22), st.integers(1, 16), st.lists(st.integers(1, 1 << 18), max_size=16))
def test_a_split_keeps_every_byte_and_leaves_no_empty_entry(message: int, count: int, leading: list[int]) -> None:
    entries = split_message(message, count, tuple(leading) or "even")
    assert sum(entries) == message
    assert all(entries)
    assert len(entries) <= count


def test_a_split_fills_leading_entries_first() -> None:
    assert split_message(66688, 3, (128, 65536)) == (128, 65536, 1024)
    assert split_message(100, 3, (128, 65536)) == (100,)
    assert split_message(1000, 2, (128, 64)) == (128, 872)


def test_a_read_delivers_to_its_requester() -> None:
    read = Workload(opcode=Opcode.READ)
    assert sinks(read) == ("a",)
    assert sinks(Workload()) == ("b",)
    assert [flow.name for flow in flows(read.with_(loopback=True))] == ["a-b", "a-a"]
    both = Workload(direction=Direction.BIDIRECTIONAL, loopback=True)
    assert [flow.name for flow in flows(both)] == ["a-b", "b-a", "b-b"]
    assert sinks(both) == ("b", "a")


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (Workload(qp_type=QpType.UD, opcode=Opcode.READ, messages=(64,)), "UD queue pairs cannot READ"),
        (Workload(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(8192,)), "do not fit mtu 4096"),
        (Workload(wqe_batch=64, send_wq_depth=16), "deeper than send_wq_depth 16"),
        (Workload(opcode=Opcode.SEND, wqe_batch=64, recv_wq_depth=16), "deeper than recv_wq_depth 16"),
        (Workload(messages=(1 << 20,)), "do not fit mr_bytes"),
        (Workload(qps=20000, mrs_per_qp=100), "at most 200000"),
        (Workload(sge_count=1, sge_split=(64, 64)), "names 2 entries"),
        (Workload(srq=True), "takes no receive"),
    ],
)
def test_impossible_combinations_say_what_is_wrong(workload: Workload, message: str) -> None:
    assert any(message in wrong for _, wrong in NSDI22.violations(workload))
    assert not NSDI22.allows(workload)


def test_features_derive_totals_and_extremes() -> None:
    workload = Workload(
        qps=8, mrs_per_qp=4, messages=(128, 65536), direction=Direction.BIDIRECTIONAL, recv_wq_depth=16, sge_count=2
    )
    expected = {
        "min_message_bytes": 128, "max_message_bytes": 65536, "total_qps": 16, "total_mrs": 32,
        "total_recv_wqes": 128, "min_segment_bytes": 64, "max_segment_bytes": 32768,
    }  # fmt: skip
    assert {name: feature_value(workload, name) for name in expected} == expected


def test_an_mfs_covers_what_satisfies_every_condition() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 64), Condition("qp_type", Op.ONE_OF, (QpType.UD, QpType.UC))))
    inside = Workload(wqe_batch=64, qp_type=QpType.UC)
    assert mfs.covers(inside)
    assert not mfs.covers(inside.with_(wqe_batch=32))
    assert not mfs.covers(inside.with_(qp_type=QpType.RC))
    assert str(mfs) == "wqe_batch >= 64 and qp_type in {UD, UC}"


def test_an_empty_mfs_explains_nothing() -> None:
    assert not Mfs(()).covers(Workload())


@pytest.mark.parametrize(("text", "size"), [("64", 64), ("4KiB", 4096), ("2 MiB", 2 << 20), (7, 7)])
def test_sizes(text: int | str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["4KB", "10 furlongs", "", "-1", True, "1.5KiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        parse_bytes(text)


def test_times_and_rates() -> None:
    assert parse_seconds("45m") == 2700
    assert parse_seconds("250ms") == 0.25
    assert parse_rate("200Gbit/s") == 200e9
    assert format_bytes(65536) == "64 KiB"


@pytest.mark.parametrize(("reader", "text"), [(parse_seconds, "soon"), (parse_rate, "fast"), (parse_rate, "25")])
def test_what_is_no_time_or_rate_is_refused(reader: object, text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        reader(text)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"qp_typ": "RC"}, "did you mean 'qp_type'"),
        ({"qp_type": "RD"}, "one of RC, UC, UD, XRC, DC, SRD"),
        ({"qps": 0}, "the least is 1"),
        ({"qps": 1.5}, "no whole number"),
        ({"mtu": 1500}, "no path MTU"),
        ({"timeout": 32}, "at most 31"),
        ({"messages": []}, "sends nothing"),
        ({"sge_split": "odd"}, "write even"),
        ({"loopback": "maybe"}, "neither true nor false"),
        ({"messages": ["4KB"]}, "is no size"),
    ],
)
def test_a_wrong_field_says_what_would_be_right(raw: dict[str, object], message: str) -> None:
    workload, complaints = parse_workload(raw)
    assert workload is None
    assert len(complaints) == 1
    assert message in complaints[0][1]


def test_weights_stand_for_a_list_in_its_shortest_form() -> None:
    raw = {"messages": {64: 30, "64KiB": 10}, "opcode": "SEND", "more_opcodes": {"READ": 2}}
    workload, complaints = parse_workload(raw)
    assert not complaints
    assert workload is not None
    assert workload.messages == (64, 64, 64, 65536)
    assert workload.more_opcodes == (Opcode.READ,)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"messages": {64: 0}}, "the least is 1"),
        ({"messages": {}}, "sends nothing"),
        ({"messages": {64: 1, 128: 9999}}, "use smaller ones"),
        ({"more_opcodes": ["FLUSH"]}, "is unknown"),
    ],
)
def test_a_wrong_mix_says_what_would_be_right(raw: dict[str, object], message: str) -> None:
    workload, ((_, complaint),) = parse_workload(raw)
    assert workload is None
    assert message in complaint


def test_an_atomic_takes_eight_bytes_whatever_messages_says() -> None:
    mix = Workload(opcode=Opcode.FETCH_ADD, more_opcodes=(Opcode.WRITE,), messages=(64, 128, 256), sge_count=2)
    assert mix.turn == (
        (Opcode.FETCH_ADD, 8),
        (Opcode.WRITE, 128),
        (Opcode.FETCH_ADD, 8),
        (Opcode.WRITE, 64),
        (Opcode.FETCH_ADD, 8),
        (Opcode.WRITE, 256),
    )
    assert mix.mean_message_bytes == (3 * 8 + 64 + 128 + 256) / 6
    assert mix.segments()[:2] == ((8,), (64, 64))


def test_an_added_field_leaves_the_text_of_older_workloads_as_it_was() -> None:
    assert "signal_every" not in repr(Workload())
    assert "signal_every=4" in repr(Workload(signal_every=4))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"signal_every": 64, "wqe_batch": 4}, "would stand still"),
        ({"signal_every": 2, "sq_sig_all": True}, "has no effect"),
        ({"qp_type": QpType.UC, "more_opcodes": (Opcode.READ,)}, "cannot READ"),
        ({"qp_type": QpType.UC, "more_opcodes": (Opcode.SEND,)}, "cannot be told"),
        ({"more_opcodes": (Opcode.WRITE, Opcode.WRITE)}, "adds nothing"),
        ({"qp_type": QpType.UC, "connection": Connection.RDMA_CM}, "cannot meet by rdma_cm"),
        ({"opcode": Opcode.FETCH_ADD, "mr_bytes": 4}, "do not fit mr_bytes"),
        ({"more_opcodes": (Opcode.SEND,), "wqe_batch": 4, "recv_wq_depth": 2}, "recv_wq_depth"),
    ],
)
def test_mixes_and_intervals_that_no_device_can_run_are_refused(changes: dict[str, Any], complaint: str) -> None:
    found = [text for rule in VERBS if (text := rule.check(Workload().with_(**changes)))]
    assert len(found) == 1
    assert complaint in found[0]


def test_a_receive_for_some_of_the_messages_is_reason_enough_for_a_shared_queue() -> None:
    assert not any(rule.check(Workload(srq=True, more_opcodes=(Opcode.SEND,))) for rule in VERBS)
    assert any(rule.check(Workload(srq=True)) for rule in VERBS)


def test_payload_both_ways_makes_two_streams_of_one_flow() -> None:
    mix = Workload(opcode=Opcode.SEND, more_opcodes=(Opcode.READ,), messages=(64, 4096))
    assert [(s.sink, s.returned, s.payloads, s.per_request) for s in streams(mix)] == [
        ("b", False, (64,), 32.0),
        ("a", True, (4096,), 2048.0),
    ]
    assert sinks(mix) == ("b", "a")
    assert sinks(Workload(opcode=Opcode.READ, more_opcodes=(Opcode.CMP_SWP,))) == ("a",)


def test_a_field_at_its_default_that_came_later_changes_no_draw() -> None:
    first = stable_text(Workload())
    assert first.startswith(
        "Workload(direction=<Direction.UNIDIRECTIONAL: 'unidirectional'>, loopback=False, numa_node=0, "
    )
    assert first.endswith("sq_psn=0, traffic_class=0, hop_limit=64)")
    assert first.count("=") == 31
    assert "requesters=2" in stable_text(Workload(requesters=2))
