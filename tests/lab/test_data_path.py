"""Data paths between Soft-RoCE machines that are broken on purpose: the layer is named, and its command mends it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from collie.content.catalogs import load_catalog
from collie.errors import TestbedError
from collie.hosts.check import check_hosts
from collie.hosts.findings import CheckState, Finding
from collie.hosts.testbed import HostsTestbed
from collie.hosts.timing import HostTiming
from collie.inventory.hosts import Pair
from collie.ports import Measured, Remote, RunResult, SetupFailed
from collie.readings.policy import WindowPolicy
from collie.ssh.remote import SshRemote
from collie.testing.remote_suite import SOON
from collie.workloads.workload import Connection, Workload

pytestmark = pytest.mark.lab

DROP = "tc qdisc add dev eth1 clsact && tc filter add dev eth1 ingress protocol {} flower {} action drop"
EIGHT_SECONDS = WindowPolicy(window_seconds=8.0, patience_seconds=0.0, averaging_seconds=0.0)
UNDROP = "tc qdisc del dev eth1 clsact"


def run(remote: Remote, command: str) -> None:
    done = remote.run(["sh", "-c", command], SOON)
    assert done.status == 0, f"{command}: {done.stdout}{done.stderr}"


@contextmanager
def broken(remote: Remote, do: str, undo: str) -> Iterator[None]:
    run(remote, do)
    try:
        yield
    finally:
        remote.run(["sh", "-c", undo], SOON)


def paths(pair: Pair) -> list[Finding]:
    found = check_hosts(pair.hosts, SshRemote, catalog_for=load_catalog, pairs=[pair])
    return [finding for finding in found if " -> " in finding.item]


def test_a_lab_in_order_passes_both_ways(pair: Pair) -> None:
    found = paths(pair)
    a, b = pair.a.name, pair.b.name
    assert [finding.item for finding in found] == [f"data path {a} -> {b}", f"data path {b} -> {a}"]
    assert {finding.state for finding in found} == {CheckState.OK}
    assert all("path MTU 4096" in finding.detail for finding in found)


@pytest.mark.parametrize(
    ("do", "undo", "layer", "state"),
    [
        ("ip link set eth1 mtu 1500", "ip link set eth1 mtu 4200", "MTU: ", CheckState.ADVICE),
        (DROP.format("ip", "ip_proto udp dst_port 4791"), UNDROP, "UDP 4791: ", CheckState.MISSING),
        ("ip link set eth1 arp off", "ip link set eth1 arp on", "address resolution: ", CheckState.MISSING),
        (
            DROP.format("arp", "") + "; ip neigh flush dev eth1",
            UNDROP,
            "address resolution: ",
            CheckState.MISSING,
        ),
        ("ip link set eth1 down", "ip link set eth1 up", "link: ", CheckState.MISSING),
        ("tc qdisc replace dev eth1 root netem loss 100%", "tc qdisc del dev eth1 root", "link: ", CheckState.MISSING),
    ],
    ids=["mtu", "firewall", "arp-off", "arp-filtered", "link-down", "loss"],
)
def test_the_broken_layer_is_named_and_its_command_mends_it(
    pair: Pair, remotes: tuple[Remote, Remote], do: str, undo: str, layer: str, state: CheckState
) -> None:
    own, other = remotes[1], remotes[0]
    other.run(["ip", "neigh", "flush", "dev", "eth1"], SOON)
    with broken(own, do, undo):
        found = paths(pair)
        print(*found, sep="\n")
        assert {(finding.host, finding.state) for finding in found} == {(pair.b.name, state)}
        assert all(layer in finding.detail for finding in found)
        (command,) = {finding.command for finding in found}
        run(own, command)
        mended = paths(pair)
        assert {finding.state for finding in mended} == {CheckState.OK}, mended


def test_a_wrong_gid_index_is_named_with_the_right_one(pair: Pair) -> None:
    wrong = Pair(replace(pair.a, gid_index=0), pair.b)
    found = paths(wrong)
    print(*found, sep="\n")
    assert {(finding.host, finding.state) for finding in found} == {(pair.a.name, CheckState.MISSING)}
    assert all("GID: " in finding.detail for finding in found)
    (command,) = {finding.command for finding in found}
    index = int(command.removeprefix(f"in the hosts file, {pair.a.name}: gid_index: "))
    right = Pair(replace(pair.a, gid_index=index), pair.b)
    assert {finding.state for finding in paths(right)} == {CheckState.OK}


@pytest.fixture
def testbed(pair: Pair) -> Iterator[HostsTestbed]:
    testbed = HostsTestbed(pair, SshRemote, load_catalog, policy=EIGHT_SECONDS)
    yield testbed
    testbed.close()


def ready(remote: Remote) -> int:
    """Count the queue pairs of runs that can carry traffic."""
    listed = json.loads(remote.run(["rdma", "-j", "resource", "show", "qp"], SOON).stdout or "[]")
    return sum((pair["type"], pair["state"]) == ("RC", "RTS") for pair in listed)


def while_running(testbed: HostsTestbed, remote: Remote, workload: Workload, do: Callable[[], None]) -> RunResult:
    """Measure, and do something when the queue pairs of the run carry traffic."""
    results: list[RunResult | TestbedError] = []

    def measure() -> None:
        try:
            results.append(testbed.measure(workload, 1))
        except TestbedError as error:
            results.append(error)

    _ = testbed.info
    measuring = threading.Thread(target=measure)
    measuring.start()
    deadline = time.monotonic() + 60
    while ready(remote) < workload.qps:
        assert time.monotonic() < deadline, "no run began"
    do()
    measuring.join(180)
    (result,) = results
    if isinstance(result, TestbedError):
        raise result
    return result


@pytest.mark.acceptance
def test_a_cut_during_a_run_is_named_and_no_finding_and_the_next_run_is_measured(
    testbed: HostsTestbed, remotes: tuple[Remote, Remote], pair: Pair
) -> None:
    light = Workload(messages=(4096,), send_wq_depth=1)
    cut = "setsid -f sh -c 'tc qdisc replace dev eth1 root netem loss 100%; sleep 35; tc qdisc del dev eth1 root'"
    died = while_running(testbed, remotes[1], light, lambda: run(remotes[1], f"{cut} >/dev/null 2>&1 </dev/null"))
    print(died)
    assert isinstance(died, SetupFailed)
    assert died.of_outage
    assert f"data path {pair.a.name} -> {pair.b.name}: link: on {pair.b.name}, queueing discipline netem" in died.detail
    assert "It was back after" in died.detail
    assert isinstance(testbed.measure(Workload(), 2), Measured)


@pytest.mark.acceptance
def test_queue_pairs_whose_packets_are_stuck_are_gone_at_the_goodbye(
    pair: Pair, remotes: tuple[Remote, Remote]
) -> None:
    """As where a transmit queue hangs: a queue pair, and its process, live as long as packets of it wait."""
    testbed = HostsTestbed(pair, SshRemote, load_catalog, policy=EIGHT_SECONDS, timing=HostTiming(recovery_seconds=2.0))
    workload = Workload(
        connection=Connection.RDMA_CM, qps=16, messages=(64,), mr_bytes=4096, send_wq_depth=1, timeout=17
    )
    plug = "tc qdisc replace dev eth1 root plug limit 100000000 && tc qdisc change dev eth1 root plug "
    unplug = "tc qdisc del dev eth1 root"
    with broken(remotes[0], f"modprobe sch_plug && {plug} release_indefinite", unplug):
        hang = "tc qdisc change dev eth1 root plug block"
        with suppress(TestbedError):
            print(while_running(testbed, remotes[0], workload, lambda: run(remotes[0], hang)))
        stuck = remotes[0].run(["rdma", "resource", "show", "qp"], SOON).stdout
        print(stuck)
        assert "comm python" in stuck, "nothing is stuck, so nothing is tested"
    assert set(testbed.close().values()) == {0}
    left = [remote.run(["rdma", "resource", "show", "qp"], SOON).stdout for remote in remotes]
    assert not any("comm python" in text for text in left), left
