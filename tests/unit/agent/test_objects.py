"""What a device cannot do is refused before it is tried, in the device's own words."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from collie.agent import objects
from collie.agent.faults import AgentFault
from collie.agent.workload import IGNORED, Workload, parse_workload
from collie.workloads.workload import FIELD_NAMES

ENUMS = SimpleNamespace(IBV_ATOMIC_NONE=0, IBV_DEVICE_XRC=1 << 20)
ATTRIBUTES: dict[str, int] = {
    "max_qp_wr": 1024,
    "max_sge": 32,
    "max_cqe": 32767,
    "max_srq_wr": 512,
    "max_srq_sge": 27,
    "max_qp": 100,
    "max_mr": 200,
    "max_qp_init_rd_atom": 128,
    "max_qp_rd_atom": 16,
    "atomic_caps": 1,
    "device_cap_flags": 0,
}


def check(monkeypatch: pytest.MonkeyPatch, driver: str, attributes: dict[str, int], **fields: Any) -> AgentFault | None:
    monkeypatch.setattr(objects, "driver_of", lambda device: driver)
    limits = objects.Limits(SimpleNamespace(e=ENUMS), "dev0", SimpleNamespace(**{**ATTRIBUTES, **attributes}))  # type: ignore[arg-type]
    try:
        limits.check(parse_workload({"qp_type": "RC", "opcode": "SEND", "messages": [64], **fields}))
    except AgentFault as fault:
        return fault
    return None


@pytest.mark.parametrize(
    ("driver", "attributes", "fields", "says"),
    [
        ("rxe", {}, {"qp_type": "XRC"}, "device dev0 reports no XRC"),
        ("mlx5_core", {"device_cap_flags": 1 << 20}, {"qp_type": "XRC"}, "dev0 offers XRC, which this agent does not"),
        ("rxe", {}, {"qp_type": "DC"}, "driver rxe of device dev0 has no DC transport"),
        ("mlx5_core", {}, {"qp_type": "DC"}, "dev0 offers DC, which this agent does not drive yet"),
        ("mlx5_core", {}, {"qp_type": "SRD"}, "driver mlx5_core of device dev0 has no SRD transport"),
        ("efa", {}, {"qp_type": "SRD"}, "dev0 offers SRD, which this agent does not drive yet"),
        ("efa", {"atomic_caps": 0}, {"opcode": "FETCH_ADD"}, "dev0 reports no atomics"),
        ("efa", {"atomic_caps": 0}, {"more_opcodes": ["CMP_SWP"]}, "dev0 reports no atomics"),
        ("rxe", {}, {"max_dest_rd_atomic": 17}, "max_dest_rd_atomic 17 is above the device's 16"),
    ],
)
def test_what_the_device_lacks_is_unsupported(
    monkeypatch: pytest.MonkeyPatch, driver: str, attributes: dict[str, int], fields: dict[str, Any], says: str
) -> None:
    fault = check(monkeypatch, driver, attributes, **fields)
    assert fault is not None
    assert fault.kind == "unsupported"
    assert says in fault.message


def test_what_the_device_has_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(monkeypatch, "rxe", {}, opcode="FETCH_ADD", max_rd_atomic=128, max_dest_rd_atomic=16) is None


def test_objects_of_all_flows_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "driver_of", lambda device: "rxe")
    limits = objects.Limits(SimpleNamespace(e=ENUMS), "dev0", SimpleNamespace(**ATTRIBUTES))  # type: ignore[arg-type]
    limits.check_totals(100, 200)
    with pytest.raises(AgentFault, match="queue pairs 101 is above the device's 100"):
        limits.check_totals(101, 1)
    with pytest.raises(AgentFault, match="memory regions 201"):
        limits.check_totals(1, 201)


def test_an_agent_knows_every_field_that_a_controller_sends() -> None:
    by_flows = {"requesters", "responders", "rails", "remote"}
    assert set(FIELD_NAMES) - by_flows == {field.name for field in fields(Workload)} | set(IGNORED)


@pytest.mark.parametrize(
    ("qp_type", "opcode", "reliable", "echoed"),
    [
        ("RC", "SEND", True, False),
        ("UC", "SEND", False, True),
        ("UC", "WRITE_WITH_IMM", False, True),
        ("UC", "WRITE", False, False),
        ("UD", "SEND", False, True),
    ],
)
def test_echoes_time_what_no_acknowledgement_proves(qp_type: str, opcode: str, reliable: bool, echoed: bool) -> None:
    workload = parse_workload({"qp_type": qp_type, "opcode": opcode, "messages": [64], "offered_bps": 10**9})
    assert (workload.reliable, workload.echoable) == (reliable, echoed)
