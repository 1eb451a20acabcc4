"""Combinations that no device can run."""

from __future__ import annotations

from typing import Any

import pytest

from collie.content.spaces import load_space
from collie.workloads.constraint import VERBS, HostLimits, within
from collie.workloads.workload import (
    Connection,
    Opcode,
    QpType,
    Workload,
)

NSDI22 = load_space("nsdi22")


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


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"wqe_batch": 14}, None),  # 0.9 s
        ({"wqe_batch": 16}, "1.05 s"),
        ({"wqe_batch": 4, "signal_every": 4}, "1.05 s"),
        ({"wqe_batch": 128, "offered_bps": 0}, None),  # full send queues have no rounds
        ({"wqe_batch": 1, "messages": (64, 64, 1 << 20), "mr_bytes": 1 << 20}, "1.05 s"),  # the largest of three
        ({"wqe_batch": 2, "messages": (1 << 20, 64, 1 << 20), "mr_bytes": 1 << 20}, "2.1 s"),  # the last and the first
    ],
)
def test_a_load_has_to_come_often_enough_to_be_measured(changes: dict[str, Any], seconds: str | None) -> None:
    workload = Workload(**{"offered_bps": 8_000_000, **changes})
    found = [text for rule in within(HostLimits(round_seconds=1.0)) if (text := rule.check(workload))]
    assert bool(found) is bool(seconds)
    if seconds:
        assert f"messages come every {seconds}; at most 1 s" in found[0]


def test_a_receive_for_some_of_the_messages_is_reason_enough_for_a_shared_queue() -> None:
    assert not any(rule.check(Workload(srq=True, more_opcodes=(Opcode.SEND,))) for rule in VERBS)
    assert any(rule.check(Workload(srq=True)) for rule in VERBS)
