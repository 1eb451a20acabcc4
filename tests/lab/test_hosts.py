"""Real verbs on two Soft-RoCE machines, and what happens when something on the way dies."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collie.content.catalogs import load_catalog
from collie.errors import HostKeyMismatch, HostUnreachable, TestbedError
from collie.hosts.check import check_hosts
from collie.hosts.findings import CheckState
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Host, Pair
from collie.lab import lab
from collie.lab.machine import label_of
from collie.lab.spec import StateDir
from collie.ports import Measured, Remote, RunResult, SetupFailed, Unsupported
from collie.readings.policy import WindowPolicy
from collie.ssh.remote import SshRemote
from collie.testing.remote_suite import SOON, RemoteSuite
from collie.workloads.workload import Direction, Memory, Opcode, QpType, Workload
from tests.lab.conftest import RunningLab

pytestmark = pytest.mark.lab

GONE_SECONDS = 10.0


@pytest.fixture(scope="module")
def shared_testbed(pair: Pair) -> Iterator[HostsTestbed]:
    testbed = HostsTestbed(pair, SshRemote, load_catalog)
    yield testbed
    testbed.close()


@pytest.fixture
def own_testbed(pair: Pair) -> Iterator[HostsTestbed]:
    """A testbed for what dies during a run, whose window is still open when something is killed."""
    testbed = HostsTestbed(
        pair,
        SshRemote,
        load_catalog,
        policy=WindowPolicy(window_seconds=6.0, patience_seconds=0.0, averaging_seconds=0.0),
    )
    yield testbed
    testbed.close()


def queue_pairs(remote: Remote) -> list[dict[str, Any]]:
    """Queue pairs of agents that a controller shipped; not those of the kernel or of whatever else runs there."""
    displayed = json.loads(remote.run(["rdma", "-j", "resource", "show", "qp"], SOON).stdout or "[]")
    return [pair for pair in displayed if pair.get("pid") and ".cache/collie/" in command_line(remote, pair["pid"])]


def command_line(remote: Remote, pid: int) -> str:
    return remote.run(["ps", "-o", "args=", "-p", str(pid)], SOON).stdout


def processes(remote: Remote, pid: int) -> str:
    return remote.run(["ps", "-o", "pid=,stat=,args=", "-p", str(pid), "--ppid", str(pid)], SOON).stdout.strip()


def assert_nothing_is_left(remotes: tuple[Remote, Remote], pids: tuple[int, int]) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while True:
        left = [(processes(remote, pid), queue_pairs(remote)) for remote, pid in zip(remotes, pids, strict=True)]
        if not any(part for host in left for part in host):
            return
        assert time.monotonic() < deadline, f"still there after {GONE_SECONDS:g} s: {left}"
        time.sleep(0.3)


def agent_pids(testbed: HostsTestbed) -> tuple[int, int]:
    """Pids of the agents; starts those that do not run, as the next run would."""
    _ = testbed.info
    clients = [session.client() for session in testbed._sessions.values()]
    first, second = (client.request("hello", 30, protocol=3)["pid"] for client in clients)
    return first, second


class TestSshRemoteOnALabMachine(RemoteSuite):
    @pytest.fixture
    def remote(self, remotes: tuple[Remote, Remote]) -> Remote:
        return remotes[0]


def test_check_finds_everything_in_place(pair: Pair) -> None:
    found = check_hosts(pair.hosts, SshRemote)
    assert {finding.host for finding in found} == {host.name for host in pair.hosts}
    assert [finding for finding in found if finding.state is not CheckState.OK and finding.item != "clock"] == []


@pytest.mark.parametrize(
    "workload",
    [
        Workload(),
        Workload(opcode=Opcode.READ),
        Workload(qp_type=QpType.UC),
        Workload(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(2048,)),
        Workload(
            opcode=Opcode.SEND,
            qps=8,
            wqe_batch=16,
            send_wq_depth=32,
            sge_count=3,
            messages=(128, 8192, 1024),
            timeout=18,
        ),
        Workload(direction=Direction.BIDIRECTIONAL, messages=(16384,)),
        Workload(loopback=True, messages=(16384,)),
    ],
    ids=lambda w: f"{w.qp_type}-{w.opcode}-{w.qps}-{w.direction}-{'loopback' if w.loopback else ''}",
)
def test_a_workload_is_measured_at_its_receiver(shared_testbed: HostsTestbed, workload: Workload) -> None:
    result = shared_testbed.measure(workload, 1)
    assert isinstance(result, Measured), result
    receiving = [host for host in result.measurement.hosts if host.delivered_bps is not None]
    assert [host.host for host in receiving] == {
        Opcode.READ: ["a"],
    }.get(workload.opcode, ["a", "b"] if workload.directions == 2 else ["b"])
    assert all((host.delivered_bps or 0) > 0 for host in receiving)
    assert result.measurement.problems == ()
    assert result.measurement.health.completion_errors == {}


def test_no_queue_pair_outlives_its_run(shared_testbed: HostsTestbed, remotes: tuple[Remote, Remote]) -> None:
    shared_testbed.measure(Workload(qps=16, messages=(4096,)), 1)
    assert [queue_pairs(remote) for remote in remotes] == [[], []]


def test_what_the_device_cannot_do_is_unsupported(shared_testbed: HostsTestbed) -> None:
    for workload in (Workload(memory=Memory.GPU), Workload(sge_count=64), Workload(max_rd_atomic=200)):
        assert isinstance(shared_testbed.measure(workload, 1), Unsupported)


def test_an_agent_killed_during_a_run_is_replaced(own_testbed: HostsTestbed, remotes: tuple[Remote, Remote]) -> None:
    pids = agent_pids(own_testbed)
    results: list[RunResult] = []
    measuring = threading.Thread(target=lambda: results.append(own_testbed.measure(Workload(), 1)))
    measuring.start()
    time.sleep(1.5)
    assert remotes[1].run(["kill", "-9", str(pids[1])], SOON).status == 0
    measuring.join(60)
    assert isinstance(results[0], Measured | SetupFailed)
    again = agent_pids(own_testbed)
    assert again[0] == pids[0]
    assert again[1] != pids[1]
    assert [queue_pairs(remote) for remote in remotes] == [[], []]


def test_a_connection_lost_during_a_run_is_made_anew(own_testbed: HostsTestbed) -> None:
    first = agent_pids(own_testbed)
    results: list[RunResult] = []
    measuring = threading.Thread(target=lambda: results.append(own_testbed.measure(Workload(), 1)))
    measuring.start()
    time.sleep(1.5)
    remote = own_testbed._sessions["b"]._remote
    assert isinstance(remote, SshRemote)
    assert remote._connection is not None
    remote._connection.result().transport.sock.close()
    measuring.join(60)
    assert isinstance(results[0], Measured)
    assert agent_pids(own_testbed)[1] != first[1]


def test_a_machine_killed_during_a_run_is_named_and_comes_back_as_it_was(
    request: pytest.FixtureRequest, remotes: tuple[Remote, Remote], own_testbed: HostsTestbed
) -> None:
    if "COLLIE_LAB_INVENTORY" in os.environ:
        pytest.skip("kills a machine, so it needs a lab of its own")
    running_lab: RunningLab = request.getfixturevalue("running_lab")
    inventory = running_lab.inventory.read_bytes()
    pids = agent_pids(own_testbed)
    results: list[TestbedError | RunResult] = []

    def measure() -> None:
        try:
            results.append(own_testbed.measure(Workload(), 1))
        except TestbedError as error:
            results.append(error)

    measuring = threading.Thread(target=measure)
    measuring.start()
    time.sleep(1.5)
    name, other = own_testbed._sessions["b"].host.name, own_testbed._sessions["a"].host.name
    before = running_lab.pids
    victim = before[name]
    assert victim is not None
    assert label_of(victim) == StateDir(running_lab.state_dir).label(name)
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    try:
        while queue_pairs(remotes[0]):
            assert time.monotonic() - killed < GONE_SECONDS
        assert processes(remotes[0], pids[0]), "the agent of the living machine goes on for the next run"
        measuring.join(120)
        assert isinstance(results[0], HostUnreachable)
        assert results[0].host == name
        (gone,) = (one for one in lab.status(running_lab.state_dir).machines if not one.alive)
        assert (gone.name, gone.answering) == (name, False)
    finally:
        lab.up(state_dir=running_lab.state_dir)
    assert running_lab.pids[other] == before[other]
    assert running_lab.pids[name] not in (None, victim)
    assert running_lab.inventory.read_bytes() == inventory
    assert isinstance(own_testbed.measure(Workload(), 2), Measured)


CONTROLLER = """
import sys
from collie.content.catalogs import load_catalog
from collie.content.inventory import load_inventory
from collie.hosts.testbed import HostsTestbed
from collie.readings.policy import WindowPolicy
from collie.ssh.remote import SshRemote
from collie.workloads.workload import Workload

long = WindowPolicy(window_seconds=120.0)
testbed = HostsTestbed(load_inventory(sys.argv[1]).pairs[0], SshRemote, load_catalog, policy=long)
testbed.info
print(*(session.request("hello", 30, protocol=3)["pid"] for session in testbed._sessions.values()), flush=True)
testbed.measure(Workload(qps=4), 1)
"""


def test_a_killed_controller_leaves_no_agent_and_no_queue_pair(
    lab_inventory: Path, remotes: tuple[Remote, Remote]
) -> None:
    argv = [sys.executable, "-c", CONTROLLER, str(lab_inventory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as controller:
        try:
            assert controller.stdout is not None
            first, second = (int(word) for word in controller.stdout.readline().split())
            deadline = time.monotonic() + 30
            while not all(queue_pairs(remote) for remote in remotes):
                assert time.monotonic() < deadline, "no run began"
                time.sleep(0.1)
        finally:
            controller.kill()
    assert_nothing_is_left(remotes, (first, second))


def test_a_host_without_pyverbs_measures_and_says_what_cannot_be_forced(
    pair: Pair, remotes: tuple[Remote, Remote]
) -> None:
    # -S leaves out the distribution's packages, as an interpreter built from source would.
    remotes[0].run(
        ["sh", "-c", "printf '#!/bin/sh\\nexec /usr/bin/python3 -S \"$@\"\\n' >bare-python; chmod 755 bare-python"],
        SOON,
    )
    path = remotes[0].run(["realpath", "bare-python"], SOON).stdout.strip()
    bare = dataclasses.replace(pair.a, python=path)
    testbed = HostsTestbed(Pair(bare, pair.b), SshRemote, load_catalog)
    result = testbed.measure(Workload(), 1)
    testbed.close()
    assert isinstance(result, Measured)
    assert result.measurement.health.data_path == "native"
    forced = dataclasses.replace(bare, data_path="pyverbs")
    testbed = HostsTestbed(Pair(forced, pair.b), SshRemote, load_catalog)
    with pytest.raises(TestbedError, match=rf"host {bare.name} .*pyverbs.*apt-get install python3-pyverbs"):
        testbed.measure(Workload(), 1)
    testbed.close()
    missing = [finding for finding in check_hosts([forced], SshRemote) if finding.state is CheckState.MISSING]
    assert [finding.item for finding in missing] == ["data path"]


def test_a_wrong_host_key_is_refused(pair: Pair) -> None:
    swapped = dataclasses.replace(pair.a, host_key=pair.b.host_key)
    testbed = HostsTestbed(Pair(swapped, pair.b), SshRemote, load_catalog)
    with pytest.raises(HostKeyMismatch, match=f"host {swapped.name}"):
        testbed.measure(Workload(), 1)
    testbed.close()


def test_an_unreachable_host_is_named(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    gone: Host = dataclasses.replace(pair.b, port=port)
    testbed = HostsTestbed(Pair(pair.a, gone), SshRemote, load_catalog)
    started = time.monotonic()
    with pytest.raises(HostUnreachable, match=f"host {gone.name}"):
        testbed.measure(Workload(), 1)
    assert time.monotonic() - started < 60
    testbed.close()
