"""Phases on real verbs: each counts what it sent, whatever set-up and history it has."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from benchmarks.agent_driver import RemoteAgent
from collie import ports
from collie.content.catalogs import load_catalog
from collie.content.spaces import load_space
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Pair
from collie.ports import Measured, Remote
from collie.ssh.remote import SshRemote
from collie.testing.testbed_suite import TestbedSuite
from collie.workloads.setup import SetUp
from collie.workloads.workload import Connection, Direction, Opcode, QpType, Workload
from tests.lab.conftest import SHORT
from tests.support.phases import Outcome, PhaseSequence, sequence

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SPACE = load_space("soft-roce")
QUEUES: dict[str, Any] = {"send_wq_depth": 16, "recv_wq_depth": 64, "timeout": 18, "rnr_retry": 7}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("data_path", ["native", "pyverbs"])
def test_each_phase_of_a_random_sequence_is_exact(agents: list[RemoteAgent], data_path: str, seed: int) -> None:
    """A sequence may end early in a storm of retries, which the device causes. What it showed until then is exact."""
    made_for, phases = sequence(SPACE, Random(seed), 8)
    outcome = Outcome()
    processes = 1 if made_for.srq else min(2, made_for.qps)
    PhaseSequence(agents, outcome, 0.3).run(f"seed {seed}", made_for, phases, data_path, processes)
    assert outcome.wrong == []
    assert outcome.stragglers == 0
    assert sum(outcome.phases.values()) > 0 or outcome.refused


class TestSetUpOnHosts(TestbedSuite):
    """Real hosts keep every promise of a testbed."""

    __test__ = True
    phases = (
        Workload(direction=Direction.BIDIRECTIONAL, qps=2, **QUEUES),
        Workload(opcode=Opcode.READ, **QUEUES),
        Workload(opcode=Opcode.SEND, messages=(64, 1024), wqe_batch=4, **QUEUES),
        Workload(opcode=Opcode.SEND, qps=2, messages=(4096,), **QUEUES),
    )
    workloads = (Workload(**QUEUES),)
    load = Workload(messages=(64,), offered_bps=50_000, **QUEUES)  # 100 messages/s, a fifth of what the machines can do

    @pytest.fixture
    def testbed(self, pair: Pair) -> Iterator[ports.Testbed]:
        testbed = HostsTestbed(pair, SshRemote, load_catalog, policy=SHORT)
        yield testbed
        assert set(testbed.close().values()) == {0}


@pytest.mark.parametrize(
    "made_for",
    [
        Workload(connection=Connection.RDMA_CM, opcode=Opcode.SEND, qps=4, **QUEUES),
        Workload(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(1024,), qps=4, mr_bytes=4096, **QUEUES),
        Workload(qp_type=QpType.UC, opcode=Opcode.SEND, qps=4, **QUEUES),
        Workload(opcode=Opcode.SEND, qps=4, sq_psn=0xFFFFF0, **QUEUES),
    ],
    ids=["RDMA-CM", "UD", "UC", "PSN that wraps"],
)
def test_receives_of_another_shape_are_posted_after_a_reset(
    pair: Pair, remotes: tuple[Remote, Remote], made_for: Workload
) -> None:
    testbed = HostsTestbed(pair, SshRemote, load_catalog, policy=SHORT, verify=True)
    try:
        on = SetUp(made_for)
        for run, messages in enumerate(((1024,), (256, 64), (256,), (1000,)), start=1):
            workload = made_for.with_(messages=messages, qps=1 + run % 3)
            result = testbed.measure(workload, run, None, on)
            assert isinstance(result, Measured)
            assert result.stands, result.measurement
            assert result.measurement.wrong_bytes == 0
            assert (result.measurement.host("b").delivered_bps or 0) > 0
            assert result.measurement.health.completion_errors == {}
            on = on.after(workload)
    finally:
        assert set(testbed.close().values()) == {0}
