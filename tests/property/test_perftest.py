"""perftest command lines round: what perftest can say of a workload, it says, and nothing else gets lost unnamed."""

from __future__ import annotations

import shlex
from random import Random

from hypothesis import given, strategies as st

from collie.content.spaces import load_space
from collie.perftest.command import PerftestCommand, PerftestPair, command_of
from collie.perftest.options import FIXED, PAGE_BYTES, PROGRAMS
from collie.perftest.parse import workload_of
from collie.workloads.constraint import VERBS
from collie.workloads.space import Space
from collie.workloads.workload import OPCODES_BY_QP_TYPE, Connection, Direction, Memory, QpType, Workload

SPACES = [load_space(name) for name in ("nsdi22", "soft-roce")]


@st.composite
def expressible(draw: st.DrawFn) -> Workload:
    """Workloads that perftest can say, every field in perftest's own form where there are several."""
    qp_type = draw(st.sampled_from(QpType))
    opcode = draw(st.sampled_from([each for each in PROGRAMS if each in OPCODES_BY_QP_TYPE[qp_type]]))
    mtu = draw(st.sampled_from([256, 512, 1024, 2048, 4096]))
    size = 8 if opcode.is_atomic else draw(st.integers(1, mtu if qp_type is QpType.UD else 1 << 24))
    depth = draw(st.integers(1, 15000))
    batch = draw(st.integers(1, min(depth, 256)))
    qps = draw(st.integers(1, 16384))
    receives = 2 * draw(st.integers((batch + 1) // 2, 8192)) if opcode.consumes_receive else 1
    always_shared = qp_type in (QpType.XRC, QpType.DC)
    can_share = opcode.consumes_receive and opcode.value == "SEND" and qps <= receives
    shares = opcode.consumes_receive and (always_shared or (can_share and draw(st.booleans())))
    reads = draw(st.integers(1, 255)) if opcode.fetches else 1
    several = qp_type is not QpType.SRD and batch == 1
    connection = draw(st.sampled_from(Connection)) if qp_type is QpType.RC else Connection.OUT_OF_BAND
    direction, loopback = draw(st.sampled_from([(each, far) for each in Direction for far in (False, True)]))
    return Workload(
        direction=direction,
        loopback=loopback,
        requesters=draw(st.integers(1, 7)),
        numa_node=draw(st.integers(0, 1)),
        peer_numa_node=draw(st.integers(0, 1)),
        memory=draw(st.sampled_from(Memory)),
        peer_memory=draw(st.sampled_from(Memory)),
        huge_pages=draw(st.booleans()),
        mr_bytes=-(-max(size, PAGE_BYTES) // PAGE_BYTES) * PAGE_BYTES,
        qp_type=qp_type,
        opcode=opcode,
        qps=qps,
        mtu=mtu,
        wqe_batch=batch,
        signal_every=draw(st.integers(1, min(depth, 1024))) if several else 1,
        send_wq_depth=depth,
        recv_wq_depth=receives,
        messages=(size,),
        max_inline_data=0 if opcode.fetches else draw(st.integers(0, 912)),
        max_rd_atomic=reads,
        max_dest_rd_atomic=reads,
        timeout=draw(st.integers(0, 31)),
        connection=connection,
        retry_cnt=draw(st.integers(0, 7)) if connection is Connection.RDMA_CM else 7,
        sq_sig_all=batch > 1 and (qp_type is QpType.SRD or draw(st.booleans())),
        srq=shares,
        traffic_class=draw(st.integers(0, 255)),
    ).with_(**FIXED)


@given(expressible())
def test_what_perftest_can_say_comes_back(workload: Workload) -> None:
    assert all(constraint.check(workload) is None for constraint in VERBS)
    expression = command_of(workload)
    assert expression.lacks == expression.differs == ()
    assert expression.runs == workload
    pasted = workload_of(
        *(shlex.join((*c.argv, "-D", "5", *(["b"] if c.server else []))) for c in _ends(expression.pairs[0]))
    )
    between = workload.with_(direction="unidirectional", loopback=False, requesters=1, numa_node=0, peer_numa_node=0)
    assert pasted == between


def _ends(pair: PerftestPair) -> tuple[PerftestCommand, PerftestCommand]:
    return pair.server, pair.client


@given(st.sampled_from(SPACES), st.integers(0, 1 << 32))
def test_whatever_perftest_runs_otherwise_is_named(space: Space, seed: int) -> None:
    workload = space.sample(Random(seed))
    expression = command_of(workload)
    named = {difference.field: difference.runs for difference in expression.lacks + expression.differs}
    said = workload.with_(**named)
    again = command_of(said)
    assert again.is_faithful
    assert again.differs == ()
    assert again.pairs == command_of(expression.runs).pairs
