"""Requests that the agent accepts or refuses."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from collie.agent.faults import AgentFault
from collie.agent.lines import LONGEST_LINE_BYTES, Lines
from collie.agent.requests import parse_flows, parse_request
from collie.agent.workload import parse_workload

WORKLOAD = {"qp_type": "RC", "opcode": "WRITE", "messages": [64], "qps": 2}
FLOWS = [{"flow": "a-b", "role": "requester"}]


def test_flows_have_keys_and_numbers_of_queue_pairs() -> None:
    ends = parse_flows("prepare", [*FLOWS, {"flow": "b-b", "role": "responder", "qps": 7}], {"qps": 2})
    assert {key: end["qps"] for key, end in ends.items()} == {"a-b/requester": 2, "b-b/responder": 7}
    assert ends["b-b/responder"]["workload"] == {"qps": 2}


def test_a_flow_may_have_a_workload_of_its_own() -> None:
    victim = {**WORKLOAD, "opcode": "READ", "qps": 3}
    ends = parse_flows("prepare", [*FLOWS, {"flow": "v", "role": "requester", "workload": victim}], WORKLOAD)
    assert (ends["v/requester"]["qps"], ends["v/requester"]["workload"]) == (3, victim)


@pytest.mark.parametrize(
    "flows",
    [
        [],
        FLOWS * 2,
        [{"flow": "a/b", "role": "requester"}],
        [{"flow": "a", "role": "sender"}],
        [{"flow": "a"}],
        ["a"],
        [{**FLOWS[0], "apart": 1}],
    ],
)
def test_impossible_flows_are_refused(flows: list[Any]) -> None:
    with pytest.raises(AgentFault):
        parse_flows("prepare", flows, {})


@pytest.mark.parametrize(
    "fields",
    [
        {"do": "hello", "protocol": 3, "lease_seconds": 1e999},
        {"do": "hello", "protocol": 3, "lease_seconds": 10**400},
        {"do": "hello", "protocol": 3, "lease_seconds": 1e9},
        {"do": "start", "period_seconds": 1e-300},
        {"do": "stop", "drain_seconds": 1e9},
        {"do": "resources", "device": "../../../etc"},
        {"do": "fingerprint", "device": "a/b"},
        {"do": "sampling", "on": True, "device": "rxe0", "netdev": "x" * 65},
        {"do": "fingerprint", "device": "rxe0", "port": -1},
        {"do": "fingerprint", "device": "rxe0", "port": 1 << 70},
    ],
)
def test_a_request_out_of_all_bounds_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(AgentFault) as caught:
        parse_request(json.dumps({"id": 1, **fields}).encode())
    assert caught.value.kind == "bad_request"


def test_a_turn_that_would_fill_the_memory_is_refused_before_it_is_built() -> None:
    opcodes, sizes = ["SEND", "WRITE"] * 49_999, [8] * 99_991
    with pytest.raises(AgentFault, match="more than 4096 requests"):
        parse_workload({"qp_type": "RC", "opcode": "SEND", "more_opcodes": opcodes, "messages": sizes})


def test_more_flows_than_an_agent_has_room_for_are_refused_before_they_are_read() -> None:
    with pytest.raises(AgentFault, match="1 to 16 ends"):
        parse_flows("prepare", [None] * 17, {})
    with pytest.raises(AgentFault, match="qps of a flow must be 1 to"):
        parse_flows("prepare", [{"flow": "a-b", "role": "requester", "qps": 1 << 40}], {})


def test_a_line_without_an_end_closes_the_conversation() -> None:
    read, write = os.pipe()
    lines = Lines(read, os.open(os.devnull, os.O_WRONLY))
    chunk = b"x" * 65536
    for _ in range(LONGEST_LINE_BYTES // len(chunk) + 1):
        os.write(write, chunk)
        assert lines.receive() == []
    assert lines.closed


@pytest.mark.parametrize("value", [0, -1, "4", True, 1e999, 1e6])
def test_a_deadline_is_a_positive_number(value: Any) -> None:
    with pytest.raises(AgentFault, match="deadline_seconds"):
        parse_request(json.dumps({"id": 1, "do": "ping", "deadline_seconds": value}).encode())
