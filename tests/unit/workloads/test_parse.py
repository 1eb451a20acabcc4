"""Workloads read from plain values."""

from __future__ import annotations

import pytest
from hypothesis import given

from collie.workloads.parse import parse_workload
from collie.workloads.workload import (
    Opcode,
    Workload,
    render,
)
from tests.support.strategies import workloads


@given(workloads())
def test_parsing_what_was_rendered_gives_the_same_workload(workload: Workload) -> None:
    assert parse_workload(render(workload)) == (workload, [])


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
        ({"offered_bps": "50GB"}, "is no rate"),
        ({"offered_bps": "0.5bit"}, "1 bit/s is the least"),
        ({"offered_bps": float("inf")}, "is out of range"),
        ({"offered_bps": -1}, "is negative"),
    ],
)
def test_a_wrong_field_says_what_would_be_right(raw: dict[str, object], message: str) -> None:
    workload, complaints = parse_workload(raw)
    assert workload is None
    assert len(complaints) == 1
    assert message in complaints[0][1]


@pytest.mark.parametrize(
    ("raw", "bits"), [("50Gbit", 50_000_000_000), ("2.5 Gbit/s", 2_500_000_000), (1e9, 1_000_000_000), (0, 0)]
)
def test_an_offered_load_is_a_rate(raw: object, bits: int) -> None:
    workload, complaints = parse_workload({"offered_bps": raw})
    assert not complaints
    assert workload is not None
    assert workload.offered_bps == bits


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
