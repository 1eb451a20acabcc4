"""Payload verification: what is right, untouched or wrong, and what has certainly arrived."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from collie.agent.content import (
    COMPLEMENT,
    Content,
    compare,
    first_difference,
    is_sink,
    is_source,
    landed,
    verify,
)
from collie.agent.workload import Workload
from tests.support.agent_workloads import workload


def test_the_content_distinguishes_places_and_queue_pairs() -> None:
    content = Content(workload(qps=3), 3, 1 << 16)
    assert len({content.of(pair) for pair in range(3)}) == 3
    whole = content.of(0)
    assert len({whole[place : place + 16] for place in range(0, len(whole), 16)}) == len(whole) // 16


def test_both_ends_agree_on_the_content_whatever_else_they_hold() -> None:
    assert Content(workload(), 4, 4096).of(2) == Content(workload(), 9, 8192).of(2)[:4096]


def test_receives_shared_by_all_queue_pairs_have_one_content() -> None:
    content = Content(workload(opcode="SEND", srq=True), 2, 4096)
    assert content.of(0) == content.of(1)


@given(
    right=st.binary(min_size=1, max_size=400),
    states=st.lists(st.sampled_from(["right", "untouched", "wrong"]), min_size=400, max_size=400),
)
def test_every_byte_is_right_untouched_or_wrong(right: bytes, states: list[str]) -> None:
    untouched = right.translate(COMPLEMENT)
    states = states[: len(right)]
    made = {"right": lambda p: right[p], "untouched": lambda p: untouched[p], "wrong": lambda p: (right[p] + 1) % 256}
    found = bytes(made[state](place) for place, state in enumerate(states))
    # 127 and 128 are each other's complement, and 1 apart: such a "wrong" byte is an untouched one.
    wrong = [p for p, state in enumerate(states) if state == "wrong" and found[p] != untouched[p]]
    tally = compare(found, right, untouched)
    assert tally == (states.count("right"), len(wrong))
    if wrong:
        assert first_difference(found, right, untouched) == wrong[0]
    assert compare(found, right, None) == (states.count("right"), len(right) - states.count("right"))


@pytest.mark.parametrize(
    ("fields", "requester", "sink", "source"),
    [
        ({}, True, False, True),
        ({}, False, True, False),
        ({"opcode": "READ"}, True, True, False),
        ({"opcode": "READ"}, False, False, True),
        ({"more_opcodes": ["READ"]}, True, True, True),
        ({"more_opcodes": ["READ"]}, False, True, True),
    ],
)
def test_who_sends_and_who_receives(fields: dict[str, Any], requester: bool, sink: bool, source: bool) -> None:
    item = workload(**fields)
    assert (is_sink(item, requester), is_source(item, requester)) == (sink, source)


def test_what_has_landed_follows_the_order_of_posting() -> None:
    item = workload(messages=[64, 4096], mrs_per_qp=4)
    assert landed(item, False, 1, 0) == {}
    assert landed(item, False, 1, 3) == {0: 64, 1: 4096, 2: 64}
    assert landed(item, True, 1, 3) == {}
    assert landed(workload(opcode="READ", mrs_per_qp=2), True, 1, 9) == {0: 4096, 1: 4096}


def test_a_send_lands_where_the_next_receive_is() -> None:
    item = workload(opcode="SEND", more_opcodes=["WRITE"], messages=[64, 4096], mrs_per_qp=4)
    # SENDs have even numbers and take receives 0, 1, ...; WRITEs go to the MR of their own number.
    assert landed(item, False, 1, 4) == {0: 64, 1: 4096, 3: 4096}


def test_a_queue_that_goes_on_takes_its_next_receive() -> None:
    item = workload(opcode="SEND", messages=[64, 4096], mrs_per_qp=4)
    assert landed(item, False, 1, 2, first_receive=3) == {3: 64, 0: 4096}


@pytest.mark.parametrize(
    "fields",
    [{"qp_type": "UC"}, {"qp_type": "UD", "opcode": "SEND", "mtu": 4096}, {"opcode": "SEND", "srq": True}],
)
def test_nothing_is_certain_where_messages_may_be_lost_or_land_anywhere(fields: dict[str, Any]) -> None:
    assert landed(workload(**fields), False, 2, 100) == {}


def compared(item: Workload, memory: bytes, completed: int) -> dict[str, Any]:
    content = Content(item, 1, len(memory))
    return verify(item, False, content, lambda pair, mr: memory, 1, completed, {})


def test_a_changed_byte_is_found_with_its_place() -> None:
    item = workload()
    memory = bytearray(Content(item, 1, 4096).of(0))
    memory[1000] ^= 1
    result = compared(item, bytes(memory), completed=1)
    assert (result["checked_bytes"], result["wrong_bytes"]) == (4096, 1)
    assert (result["first_wrong"]["offset"], result["first_wrong"]["mr"]) == (1000, 0)
    assert result["first_wrong"]["found"] != result["first_wrong"]["expected"]


def test_an_untouched_byte_is_wrong_only_where_a_message_has_arrived() -> None:
    item = workload(messages=[4096], mr_bytes=8192)
    untouched = Content(item, 1, 8192).of(0).translate(COMPLEMENT)
    assert compared(item, untouched, completed=0)["wrong_bytes"] == 0
    assert compared(item, untouched, completed=0)["checked_bytes"] == 0
    assert compared(item, untouched, completed=1)["wrong_bytes"] == 4096


def test_memory_that_is_also_a_source_is_compared_where_messages_arrived() -> None:
    item = workload(more_opcodes=["READ"], mr_bytes=8192)
    memory = Content(item, 1, 8192).of(0)
    assert compared(item, memory, completed=1)["checked_bytes"] == 4096
