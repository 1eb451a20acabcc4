"""Machines with two RoCE devices: each measures as a host of its own does, both across its ports, and as rails."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collie.content.catalogs import load_catalog
from collie.content.inventory import load_inventory
from collie.hosts.check import check_hosts
from collie.hosts.findings import CheckState
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Inventory, Pair
from collie.lab import lab
from collie.ports import Measured
from collie.readings.policy import WindowPolicy
from collie.ssh.remote import SshRemote
from collie.testing.remote_suite import SOON
from collie.workloads.workload import Direction, Opcode, QpType, Workload
from tests.lab.conftest import SHORT

pytestmark = pytest.mark.lab

FIRST, SECOND, OTHER, FOURTH = "lab-a/rxe0", "lab-a/rxe1", "lab-b/rxe0", "lab-b/rxe1"
MODEST = Workload(qps=2, messages=(16384,), send_wq_depth=4, timeout=17)
"""0.5 s: one busy CPU answers later than the default of 67 ms, and everything is sent again
(docs/explanation/emulated-machines.md). A packet that is lost at the end of a burst, as on a machine that has just
booted, costs as much: less than the window."""


@pytest.fixture(scope="module")
def inventory(lab_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inventory]:
    """The hosts file of a lab with two devices in each machine: one that the environment names, or one of our own."""
    if named := os.environ.get("COLLIE_LAB_OF_TWO_PORTS"):
        yield load_inventory(Path(named) / "hosts.yaml")
        return
    state_dir = tmp_path_factory.mktemp("ports")
    try:
        up = lab.up(devices={"lab-a": 2, "lab-b": 2}, release=os.environ.get("COLLIE_LAB_RELEASE"), state_dir=state_dir)
        assert up.inventory is not None
        yield load_inventory(up.inventory)
    finally:
        lab.down(state_dir)


@pytest.fixture(scope="module")
def across(inventory: Inventory) -> Iterator[HostsTestbed]:
    testbed = opened(inventory, FIRST, SECOND)
    yield testbed
    testbed.close()


def opened(inventory: Inventory, a: str, b: str, *others: str) -> HostsTestbed:
    pair = Pair(inventory.host(a), inventory.host(b), tuple(map(inventory.host, others)))
    return HostsTestbed(pair, SshRemote, load_catalog, policy=SHORT)


def queue_pairs(inventory: Inventory) -> list[str]:
    """Names of the devices of the first machine that a process has queue pairs on."""
    remote = SshRemote(inventory.host(FIRST))
    displayed = json.loads(remote.run(["rdma", "-j", "resource", "show", "qp"], SOON).stdout or "[]")
    remote.close()
    return sorted({pair["ifname"] for pair in displayed if pair.get("pid")})


def test_the_inventory_names_each_device_and_check_finds_them_in_place(inventory: Inventory) -> None:
    assert [host.name for host in inventory.hosts] == [FIRST, SECOND, OTHER, FOURTH]
    found = check_hosts(inventory.hosts, SshRemote, pairs=inventory.pairs)
    unwell = [one for one in found if one.state is not CheckState.OK and one.item not in {"clock", "alike"}]
    assert unwell == []
    assert [one.host for one in found if one.item == "other ports"] == [FIRST, SECOND, OTHER, FOURTH]


@pytest.mark.parametrize(
    "workload",
    [
        MODEST,
        MODEST.with_(opcode=Opcode.READ),
        MODEST.with_(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(2048,)),
        MODEST.with_(direction=Direction.BIDIRECTIONAL),
    ],
    ids=lambda w: f"{w.qp_type}-{w.opcode}-{w.direction}",
)
def test_traffic_across_ports_arrives_by_the_other_device(
    inventory: Inventory, across: HostsTestbed, workload: Workload, capsys: pytest.CaptureFixture[str]
) -> None:
    result = across.measure(workload, 1)
    assert isinstance(result, Measured), result
    measured = result.measurement
    assert measured.problems == ()
    assert measured.health.completion_errors == {}
    assert any("loopback across ports of lab-a" in note for note in measured.notes)
    a, b = measured.hosts
    sink, source = (a, b) if workload.opcode is Opcode.READ else (b, a)
    assert (sink.delivered_bps or 0) > 0
    # Each device counts its own packets: payload has left by the one and come in by the other.
    assert (source.counters["sent_pkts"] or 0) > 0.5 * (sink.delivered_pps or 0)
    assert (sink.counters["rcvd_pkts"] or 0) > 0.5 * (sink.delivered_pps or 0)
    assert queue_pairs(inventory) == []
    with capsys.disabled():
        print(
            f"\n{workload.qp_type} {workload.opcode} {workload.direction}: {(sink.delivered_bps or 0) / 1e6:.0f} Mbit/s"
        )
        print(f"  driven {measured.health.driven} {measured.health.reason}; notes {measured.notes}")


@pytest.mark.parametrize("device", [FIRST, SECOND])
def test_each_device_measures_with_another_host(inventory: Inventory, device: str) -> None:
    testbed = opened(inventory, device, OTHER)
    try:
        result = testbed.measure(MODEST.with_(direction=Direction.BIDIRECTIONAL), 1)
        assert isinstance(result, Measured), result
        assert result.measurement.problems == ()
        assert all((host.delivered_bps or 0) > 0 for host in result.measurement.hosts)
        assert not any("across ports" in note for note in result.measurement.notes)
    finally:
        left = testbed.close()
    assert left == {device: 0, OTHER: 0}


@pytest.mark.parametrize("workload", [MODEST, MODEST.with_(opcode=Opcode.READ)], ids=lambda w: str(w.opcode))
def test_rails_of_two_machines_run_side_by_side(inventory: Inventory, workload: Workload) -> None:
    rails = inventory.pairs[0]
    assert [host.name for host in rails.hosts] == [FIRST, OTHER, SECOND, FOURTH]
    testbed = HostsTestbed(rails, SshRemote, load_catalog, policy=SHORT)
    try:
        together = testbed.measure(workload.with_(rails=2), 1)
    finally:
        left = testbed.close()
    assert isinstance(together, Measured), together
    measured = together.measurement
    assert measured.problems == ()
    sinks = "ac" if workload.opcode is Opcode.READ else "bd"
    assert all((measured.host(role).delivered_bps or 0) > 0 for role in sinks)
    assert not any("across ports" in note for note in measured.notes)
    assert left == {FIRST: 0, OTHER: 0, SECOND: 0, FOURTH: 0}


def test_both_devices_of_a_machine_send_to_a_third_party(inventory: Inventory) -> None:
    testbed = opened(inventory, FIRST, OTHER, SECOND)
    try:
        result = testbed.measure(MODEST.with_(requesters=2), 1)
    finally:
        left = testbed.close()
    assert isinstance(result, Measured), result
    assert (result.measurement.host("b").delivered_bps or 0) > 0
    assert all((result.measurement.host(role).counters["sent_pkts"] or 0) > 0 for role in "ac")
    assert left == {FIRST: 0, OTHER: 0, SECOND: 0}


def test_traffic_of_the_other_device_is_not_found_on_an_idle_port(inventory: Inventory) -> None:
    long = WindowPolicy(window_seconds=8.0, patience_seconds=0.0, averaging_seconds=0.0)
    busy = HostsTestbed(Pair(inventory.host(SECOND), inventory.host(OTHER)), SshRemote, load_catalog, policy=long)
    idle = opened(inventory, FIRST, OTHER)
    results = []
    run = threading.Thread(target=lambda: results.append(busy.measure(MODEST.with_(remote=False, loopback=True), 1)))
    try:
        assert busy.info.kind == idle.info.kind
        run.start()
        while queue_pairs(inventory) != ["rxe1"]:
            assert run.is_alive(), "the other device carries no traffic"
        assert idle.foreign_uses() == ()
        assert run.is_alive()
    finally:
        run.join()
        busy.close()
        idle.close()
    assert isinstance(results[0], Measured)


def test_a_pair_across_ports_is_idle_between_runs_and_leaves_nothing(inventory: Inventory) -> None:
    testbed = opened(inventory, FIRST, SECOND)
    try:
        assert isinstance(testbed.measure(MODEST, 1), Measured)
        assert [use for use in testbed.foreign_uses() if use.forbids] == []
        assert testbed.info.description["loopback_across_ports"] == {"lab-a": [FIRST, SECOND]}
    finally:
        left = testbed.close()
    assert left == {FIRST: 0, SECOND: 0}
    assert queue_pairs(inventory) == []
