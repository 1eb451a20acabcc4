"""Fields of workloads, and what follows from them."""

from __future__ import annotations

from hypothesis import given, strategies as st

from collie.workloads.plan import flows, sinks, streams
from collie.workloads.workload import (
    Direction,
    Opcode,
    Workload,
    split_message,
)


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


def test_payload_both_ways_makes_two_streams_of_one_flow() -> None:
    mix = Workload(opcode=Opcode.SEND, more_opcodes=(Opcode.READ,), messages=(64, 4096))
    assert [(s.sink, s.returned, s.payloads, s.per_request) for s in streams(mix)] == [
        ("b", False, (64,), 32.0),
        ("a", True, (4096,), 2048.0),
    ]
    assert sinks(mix) == ("b", "a")
    assert sinks(Workload(opcode=Opcode.READ, more_opcodes=(Opcode.CMP_SWP,))) == ("a",)
