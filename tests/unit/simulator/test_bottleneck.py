"""What limits a run, in words."""

from __future__ import annotations

from collie.content.subsystems import load_subsystem
from collie.simulator.bottleneck import bottleneck
from collie.simulator.model import evaluate
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.workload import Opcode, QpType, Workload

F = load_subsystem("F", SubsystemFile).hardware
SMALL = Workload(qps=1, messages=(64,))


def test_queue_pairs_that_fetch_slowly_are_told_from_a_short_window() -> None:
    slow = F.with_part("pcie", read_latency_seconds=20e-6, read_tags=1 << 20)
    assert bottleneck(evaluate(slow, SMALL)) == "WQE fetches"
    assert bottleneck(evaluate(F, SMALL.with_(send_wq_depth=1))) == "window"


def test_datagrams_that_come_before_their_receive_name_it() -> None:
    witness = SMALL.with_(
        qp_type=QpType.UD, opcode=Opcode.SEND, qps=16, mtu=1024, wqe_batch=4, send_wq_depth=1024, recv_wq_depth=1024
    )
    drops = F.with_part("datagram_receives", fetch_seconds=100e-6)
    assert bottleneck(evaluate(drops, witness)) == "receives that come too late of host b"


def test_a_flow_that_gets_all_that_it_is_offered_is_limited_by_its_offer() -> None:
    assert bottleneck(evaluate(F, Workload(qps=8, offered_bps=10**9))) == "offered load"
