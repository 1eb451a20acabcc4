"""perftest commands for a workload."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from collie.content.anomalies import load_references
from collie.perftest.command import command_of
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Connection, Direction, Memory, Opcode, QpType, Workload

REFERENCES = load_references("nsdi22")

PLAIN = Workload()


def test_every_flow_is_a_pair_of_processes() -> None:
    def ends(**fields: Any) -> list[tuple[str, str]]:
        pairs = command_of(PLAIN.with_(**fields)).pairs
        assert all(pair.client.server == pair.server.role and not pair.server.server for pair in pairs)
        return [(pair.client.role, pair.server.role) for pair in pairs]

    assert ends() == [("a", "b")]
    assert ends(direction=Direction.BIDIRECTIONAL) == [("a", "b"), ("b", "a")]
    assert ends(loopback=True) == [("a", "b"), ("b", "b")]
    assert ends(requesters=3) == [("a", "b"), ("c", "b"), ("d", "b")]
    assert ends(loopback=True, remote=False) == [("a", "a")]


def test_each_end_has_its_own_memory() -> None:
    [pair] = command_of(PLAIN.with_(peer_memory=Memory.GPU, peer_numa_node=1)).pairs
    assert "--use_cuda=0" in pair.server.argv
    assert "--use_cuda=0" not in pair.client.argv
    assert (pair.server.numa_node, pair.client.numa_node) == (1, 0)


def test_what_the_hosts_need_is_said() -> None:
    datagrams = Workload(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(1024,), wqe_batch=8, numa_node=1)
    assert len(command_of(datagrams).requires) == 2
    assert command_of(PLAIN).requires == ()


@pytest.mark.parametrize(
    ("fields", "lacks"),
    [
        ({"messages": (64, 1024)}, {"messages"}),
        ({"messages": (64, 64)}, set()),
        ({"sge_count": 2}, {"sge_count"}),
        ({"sge_count": 2, "opcode": Opcode.FETCH_ADD}, set()),
        ({"more_opcodes": (Opcode.SEND,)}, {"more_opcodes"}),
        ({"opcode": Opcode.SEND_WITH_IMM}, {"opcode"}),
        ({"opcode": Opcode.SEND, "recv_wq_depth": 63}, {"recv_wq_depth"}),
        ({"opcode": Opcode.SEND, "srq": True, "qps": 256}, {"srq"}),
        ({"fence": True}, set()),
        ({"fence": True, "opcode": Opcode.READ}, {"fence"}),
        ({"qps": 20000}, {"qps"}),
        ({"send_wq_depth": 16384}, {"send_wq_depth"}),
        ({"wqe_batch": 8, "signal_every": 2}, {"signal_every"}),
        ({"signal_every": 8}, set()),
        ({"sq_sig_all": True}, set()),
        ({"rnr_retry": 1, "opcode": Opcode.SEND}, set()),  # incidental, until a condition names it
        ({"connection": Connection.RDMA_CM, "huge_pages": True, "timeout": 1, "traffic_class": 8}, set()),
    ],
)
def test_what_perftest_lacks(fields: dict[str, Any], lacks: set[str]) -> None:
    expression = command_of(PLAIN.with_(**fields))
    assert {lack.field for lack in expression.lacks} == lacks
    assert all(lack.reason for lack in expression.lacks)


def test_a_condition_makes_a_difference_matter_or_not() -> None:
    storm = PLAIN.with_(opcode=Opcode.SEND, rnr_retry=1, messages=(64, 1024))
    named = Mfs((Condition("rnr_retry", Op.AT_MOST, 1),))
    assert {lack.field for lack in command_of(storm, named).lacks} == {"rnr_retry"}
    unnamed = Mfs((Condition("max_message_bytes", Op.AT_MOST, 1024),))
    expression = command_of(storm, unnamed)
    assert expression.is_faithful
    assert {"messages", "rnr_retry"} <= {difference.field for difference in expression.differs}
    assert command_of(storm, Mfs(())).lacks == command_of(storm).lacks


def test_the_written_line_is_the_one_to_expect() -> None:
    reference = next(reference for reference in REFERENCES if reference.id == "nsdi22-08")
    [pair] = command_of(reference.trigger, reference.conditions).pairs
    assert shlex.join(pair.client.argv) == ("ib_write_bw -c RC -q 480 -s 512 -m 1024 -t 16 -l 1 -Q 1 --mr_per_qp")


def test_no_program_offers_a_flow_less_evenly() -> None:
    expression = command_of(Workload(qps=8, offered_bps=10**10))
    reasons = {difference.field: difference.reason for difference in expression.lacks}
    assert "--rate_limit" in reasons["offered_bps"]
