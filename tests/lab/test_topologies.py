"""Every topology on four machines: what was sent arrives and is counted, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agent_driver import RemoteAgent, begin, read_inventory
from collie.content.catalogs import load_catalog
from collie.content.inventory import load_inventory
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Pair
from collie.lab import lab
from collie.lab.lab import LabReviver
from collie.lab.machine import find
from collie.lab.spec import StateDir
from collie.ports import HostLost, Measured
from collie.readings.policy import WindowPolicy
from collie.ssh.remote import SshRemote
from collie.workloads.plan import flows, hosts, sinks
from collie.workloads.workload import Direction, Opcode, Workload
from tests.lab.conftest import SHORT, RunningLab

pytestmark = pytest.mark.lab

BOTH_WAYS = Direction.BIDIRECTIONAL
TOPOLOGIES = {
    "one way": Workload(),
    "both ways": Workload(direction=BOTH_WAYS),
    "loopback": Workload(remote=False, loopback=True),
    "loopback and remote": Workload(loopback=True),
    "three to one": Workload(requesters=3),
    "one to three": Workload(responders=3),
    "two rails": Workload(rails=2),
    "two rails, both ways, loopback": Workload(rails=2, direction=BOTH_WAYS, loopback=True),
    "two to one, both ways, loopback": Workload(requesters=2, direction=BOTH_WAYS, loopback=True),
}
READ_BY = {"one way", "three to one", "one to three", "two rails"}
"""Where requesters receive, and no host is both."""
SETTLED_SECONDS = 1.0
"""After all posting has stopped, until every host has sent a sample of how it ended."""


@pytest.fixture(scope="module")
def four(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state directory of a lab of four machines: a running one that the environment names, or one of our own.

    Our own is a second lab beside the first, and its end is checked where it comes: nothing is left but the first.
    """
    if named := os.environ.get("COLLIE_LAB_OF_FOUR"):
        yield Path(named)
        return
    first: RunningLab = request.getfixturevalue("running_lab")
    state_dir = tmp_path_factory.mktemp("four")
    try:
        up = lab.up(machines=4, release=os.environ.get("COLLIE_LAB_RELEASE"), state_dir=state_dir)
        yield state_dir
    finally:
        stopped = lab.down(state_dir)
    names = tuple(one.name for one in up.machines)
    assert stopped == names
    state = StateDir(state_dir)
    assert find([state.label(name) for name in names]) == {}
    assert lab.status(state_dir).machines == ()
    assert {path.name for path in state_dir.iterdir()} == {"id_ed25519", "id_ed25519.pub", "lock", *names}
    assert lab.down(state_dir) == ()
    assert lab.status(first.state_dir).answering, "the other lab lost a machine"


@pytest.fixture(scope="module")
def group(four: Path) -> Pair:
    (found,) = load_inventory(four / "hosts.yaml").pairs
    return found


@pytest.fixture(scope="module")
def testbed(four: Path, group: Pair) -> Iterator[HostsTestbed]:
    made = HostsTestbed(group, SshRemote, load_catalog, policy=SHORT, reviver=LabReviver(four))
    yield made
    made.close()


@pytest.fixture(scope="module")
def agents(four: Path) -> Iterator[list[RemoteAgent]]:
    made = [RemoteAgent(host) for host in read_inventory(four / "hosts.yaml")]
    yield made
    for agent in made:
        agent.close()


def queue_pairs(agent: RemoteAgent) -> list[Any]:
    pairs: list[Any] = agent.ask("resources", device="rxe0")["qps"]
    return [pair for pair in pairs if pair["pid"]]


def ends_of(role: str, workload: Workload) -> list[dict[str, str]]:
    ends = [{"flow": flow.name, "role": "requester"} for flow in flows(workload) if flow.requester == role]
    return ends + [{"flow": flow.name, "role": "responder"} for flow in flows(workload) if flow.responder == role]


@pytest.mark.parametrize("workload", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_receivers_count_what_was_sent(agents: list[RemoteAgent], workload: Workload) -> None:
    used = dict(zip(hosts(workload), agents, strict=False))
    sent = {"qp_type": "RC", "opcode": "SEND", "messages": [4096], "qps": 2, "send_wq_depth": 16, "recv_wq_depth": 128}
    # Without end, as hosts start one after the other here and a receiver may be the last; and 4 s, as in a storm of
    # retransmissions rdma_rxe itself delivers a message twice (docs/explanation/emulated-machines.md).
    sent |= {"rnr_retry": 7, "timeout": 20}
    for agent in used.values():
        agent.samples.clear()
    try:
        begin(list(used.values()), sent, [ends_of(role, workload) for role in used])
        time.sleep(1.0)
        for agent in used.values():
            assert agent.ask("stop", drain_seconds=20, deadline_seconds=30)["drained"]
        time.sleep(SETTLED_SECONDS)
        totals = {key: value for agent in used.values() for key, value in agent.samples[-1]["flows"].items()}
    finally:
        left = [agent.ask("destroy")["qps_left"] for agent in used.values()]
    for flow in flows(workload):
        posted = totals[f"{flow.name}/requester"]["posted_messages"]
        assert posted > 0
        assert totals[f"{flow.name}/responder"]["delivered_messages"] == posted
        assert totals[f"{flow.name}/responder"]["delivered_bytes"] == 4096 * posted
    assert set(left) == {0}
    assert [queue_pairs(agent) for agent in agents] == [[]] * len(agents)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_receiver_is_measured(testbed: HostsTestbed, agents: list[RemoteAgent], name: str) -> None:
    opcode = Opcode.READ if name in READ_BY else Opcode.WRITE
    workload = TOPOLOGIES[name].with_(opcode=opcode, qps=2, messages=(16384,), send_wq_depth=16, timeout=20)
    result = testbed.measure(workload, 1)
    assert isinstance(result, Measured), result
    assert result.measurement.problems == ()
    assert [host.host for host in result.measurement.hosts] == list(hosts(workload))
    receiving = [host.host for host in result.measurement.hosts if host.delivered_bps]
    assert set(receiving) == set(sinks(workload))
    assert [queue_pairs(agent) for agent in agents] == [[]] * len(agents)


@pytest.mark.acceptance
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_machine_that_is_gone_is_noticed_and_brought_back(
    four: Path, group: Pair, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = WindowPolicy(window_seconds=60.0)
    testbed = HostsTestbed(group, SshRemote, load_catalog, policy=slow, reviver=LabReviver(four))
    _ = testbed.info
    (pid,) = (one.pid for one in lab.status(four).machines if one.name == "lab-c")
    assert pid is not None
    killer = threading.Timer(4.0, os.kill, (pid, number))
    killer.start()
    try:
        result = testbed.measure(Workload(requesters=2), 1)
    finally:
        killer.cancel()
        testbed.close()
    assert isinstance(result, HostLost), result
    assert result.host == "lab-c"
    with capsys.disabled():
        print(f"\n{number.name} 4 s after the run began: {result.detail}; back after {result.elapsed_seconds:.0f} s")
    again = HostsTestbed(group, SshRemote, load_catalog, policy=SHORT)
    assert isinstance(again.measure(Workload(requesters=2), 2), Measured)
    again.close()
