"""The testbed of real hosts, with hosts that only pretend."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collie import ports
from collie.campaign.safety import Guard
from collie.counters.catalog import Catalog
from collie.detect.bounds import UNBOUNDED
from collie.detect.measurement import Measurement
from collie.errors import TestbedError
from collie.hosts.session import Archive
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Pair
from collie.inventory.safety import SafetyLimits
from collie.ports import Measured
from collie.search.objective import rank
from collie.testing.fake_agent import fake_agent_program
from collie.testing.testbed_suite import TestbedSuite
from collie.workloads.workload import Direction, Opcode, Workload
from tests.integration.hosts_rig import ARCHIVE, CATALOG, GROUP, ONE_HOST, PAIR, QUICK, Rig, local, received


class TestHostsTestbed(TestbedSuite):
    __test__ = True
    unsupported = Workload(numa_node=1)

    @pytest.fixture
    def testbed(self, rig: Rig) -> ports.Testbed:
        return rig.testbed

    @pytest.fixture
    def storm(self, rig: Rig) -> Workload:
        rig.behave("right", counters={"hw_counters": {"rcvd_pkts": 1000, "tx_pause": 900_000}})
        return Workload()


class TestGroupOfHosts(TestbedSuite):
    """Three and more hosts, and one alone."""

    __test__ = True
    workloads = (
        Workload(requesters=3),
        Workload(responders=3, opcode=Opcode.READ),
        Workload(responders=2, direction=Direction.BIDIRECTIONAL, loopback=True, opcode=Opcode.SEND),
        Workload(remote=False, loopback=True),
        Workload(),
    )
    unsupported = Workload(requesters=4)

    @pytest.fixture
    def testbed(self, group: Rig) -> ports.Testbed:
        return group.testbed


class TestTwoDevicesOfOneHost(TestbedSuite):
    """Loopback across ports is promised what every pair is."""

    __test__ = True
    workloads = (*TestbedSuite.workloads, Workload(direction=Direction.BIDIRECTIONAL, loopback=True))
    unsupported = Workload(numa_node=1)

    @pytest.fixture
    def testbed(self, one_host: Rig) -> ports.Testbed:
        return one_host.testbed

    @pytest.fixture
    def storm(self, one_host: Rig) -> Workload:
        one_host.behave("server", devices=["rxe0", "rxe1"], counters={"hw_counters": {"tx_pause": 900_000}})
        return Workload()


def test_devices_of_one_host_are_endpoints_and_their_traffic_is_on_record_as_loopback(one_host: Rig) -> None:
    info = one_host.testbed.info
    assert info.name == "server/rxe0,server/rxe1"
    assert list(info.description["hosts"]) == ["server/rxe0", "server/rxe1"]
    assert info.description["loopback_across_ports"] == {"server": ["server/rxe0", "server/rxe1"]}
    assert [taken.fields["link.path"] for taken in info.fingerprints.values()] == ["loopback across ports"] * 2
    result = one_host.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert received(result) == {"a": None, "b": pytest.approx(8e9, rel=0.05)}
    assert "a-b is loopback across ports of server" in result.measurement.notes
    alone = one_host.testbed.measure(Workload(remote=False, loopback=True), 2)
    assert isinstance(alone, Measured)
    assert not any("across ports" in note for note in alone.measurement.notes)
    assert one_host.testbed.close() == {"server/rxe0": 0, "server/rxe1": 0}


def test_traffic_between_hosts_is_no_loopback(rig: Rig) -> None:
    assert "loopback_across_ports" not in rig.testbed.info.description
    assert "link.path" not in rig.testbed.info.fingerprints["left"].fields
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert not any("across ports" in note for note in result.measurement.notes)


def test_of_a_group_only_devices_of_one_host_are_loopback(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    mixed = Pair(ONE_HOST.a, PAIR.b, (ONE_HOST.b,))
    testbed = HostsTestbed(mixed, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    Rig(tmp_path, testbed).behave("server", devices=["rxe0", "rxe1"])
    paths = {name: taken.fields.get("link.path") for name, taken in testbed.info.fingerprints.items()}
    result = testbed.measure(Workload(responders=2), 1)
    testbed.close()
    assert paths == {**dict.fromkeys(("server/rxe0", "server/rxe1"), "loopback across ports"), "right": None}
    assert isinstance(result, Measured)
    assert "a-c is loopback across ports of server" in result.measurement.notes


def test_each_device_of_a_host_is_looked_at_for_others_and_named(one_host: Rig) -> None:
    one_host.behave("server", devices=["rxe0", "rxe1"], qps=[STRANGER])
    assert [(use.host, use.device) for use in one_host.testbed.foreign_uses() if use.forbids] == [
        ("server/rxe0", "rxe0"),
        ("server/rxe1", "rxe1"),
    ]


def test_a_receiver_gets_the_sum_of_its_senders_and_a_sender_serves_each_receiver(group: Rig) -> None:
    into_one, from_one = (group.testbed.measure(w, 1) for w in (Workload(requesters=3), Workload(responders=3)))
    assert isinstance(into_one, Measured)
    assert isinstance(from_one, Measured)
    assert received(into_one) == {"a": None, "b": pytest.approx(24e9, rel=0.05), "c": None, "d": None}
    assert received(from_one) == {"a": None, **dict.fromkeys("bcd", pytest.approx(8e9, rel=0.05))}


@pytest.mark.parametrize(("workload", "busiest"), [(Workload(requesters=3), "b"), (Workload(responders=3), "a")])
def test_a_cap_holds_for_the_host_that_shares_a_flow_with_each_of_the_others(
    workload: Workload, busiest: str, group: Rig
) -> None:
    result = group.testbed.measure(workload, 1, Guard(SafetyLimits(rate_bps=20e9)).watch())
    assert isinstance(result, Measured)
    assert f"host {busiest} moves 24" in str(result.measurement.stopped)


def test_a_host_without_a_part_is_left_in_peace(group: Rig) -> None:
    result = group.testbed.measure(Workload(remote=False, loopback=True), 1)
    assert isinstance(result, Measured)
    assert received(result) == {"a": pytest.approx(8e9, rel=0.05)}
    assert [group.asked(host.name) for host in GROUP.hosts[1:]] == [[], [], []]


def test_the_catalog_is_chosen_by_the_driver_and_the_hosts_are_described(rig: Rig) -> None:
    info = rig.testbed.info
    assert (info.kind, info.name, info.catalog) == ("hosts", "left,right", CATALOG)
    assert info.description["hosts"]["left"]["kernel"] == "6.1.0"
    assert "pid" not in info.description["hosts"]["left"]
    assert rig.testbed.specification(Workload()) == UNBOUNDED


def test_hosts_with_different_drivers_are_no_pair(tmp_path: Path) -> None:
    program = fake_agent_program().replace(b'"driver": "rxe"', b'"driver": Path.cwd().name')
    testbed = HostsTestbed(PAIR, local(tmp_path), lambda driver: CATALOG, archive=Archive.of(program))
    with pytest.raises(TestbedError, match="different drivers: left, right"):
        _ = testbed.info
    testbed.close()


def test_a_driver_without_a_catalog_is_sampled_under_its_own_names(tmp_path: Path) -> None:
    for host in (PAIR.a, PAIR.b):
        (tmp_path / host.name).mkdir()
        advances = {"hw_counters": {"strange": 500, "rcvd_pkts": 1000}, "ethtool": {f"only_{host.name}": 1}}
        (tmp_path / host.name / "behaviour.json").write_text(json.dumps({"counters": advances}))
    testbed = HostsTestbed(PAIR, local(tmp_path), lambda driver: None, policy=QUICK, archive=ARCHIVE)
    catalog = testbed.info.catalog
    assert catalog.driver == "rxe"
    assert {counter.name for counter in catalog.counters} == {"strange", "rcvd_pkts", "only_left", "only_right"}
    results = [testbed.measure(Workload(), run) for run in (1, 2)]
    measured = [result.measurement for result in results if isinstance(result, Measured)]
    assert [run.host("b").counters["strange"] for run in measured] == [pytest.approx(500, rel=0.3)] * 2
    assert all(run.host("b").counters["only_left"] is None for run in measured)
    assert all(run.problems == () for run in measured)
    ranked = {objective.counter: objective.rises for objective in rank(catalog, [*measured, faster(measured[0])])}
    assert ranked["strange"] is True
    testbed.close()


def faster(measurement: Measurement) -> Measurement:
    hosts = [replace(host, counters={n: r and 3 * r for n, r in host.counters.items()}) for host in measurement.hosts]
    return replace(measurement, hosts=tuple(hosts))


def test_seldom_refreshed_counters_make_the_window_longer(tmp_path: Path) -> None:
    slow = replace(CATALOG.counters[0], refresh_seconds=0.05)
    catalog = Catalog("rxe", (slow,))
    testbed = HostsTestbed(PAIR, local(tmp_path), lambda driver: catalog, policy=QUICK, archive=ARCHIVE)
    result = testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert result.measurement.window_seconds == pytest.approx(0.2, abs=0.03)
    assert result.measurement.host("b").counters["rcvd_pkts"] == pytest.approx(1000, rel=0.3)
    testbed.close()


STRANGER = {"qpn": 17, "type": "RC", "state": "RTS", "pid": 4711, "comm": "ib_write_bw"}


def test_traffic_of_others_and_their_processes_are_seen(rig: Rig) -> None:
    rig.behave("right", idle_counters={"hw_counters": {"rcvd_pkts": 9500}}, qps=[STRANGER, {**STRANGER, "qpn": 18}])
    traffic, owner = rig.testbed.foreign_uses()
    assert (traffic.host, traffic.device, traffic.forbids) == ("right", "rxe0", True)
    assert re.fullmatch(r"rcvd_pkts advances by 9,[45]\d\d packets/s without our traffic", traffic.detail)
    assert (owner.host, owner.forbids) == ("right", True)
    assert owner.detail == "ib_write_bw (pid 4711) has 2 queue pairs ready to carry traffic"


@pytest.mark.parametrize(
    ("pair", "forbids"),
    [
        ({**STRANGER, "type": "GSI", "pid": None, "comm": "ib_core"}, None),
        ({**STRANGER, "state": "INIT"}, None),
        ({**STRANGER, "pid": None, "comm": "nvme_rdma"}, False),
        ({**STRANGER, "pid": None, "comm": None}, True),
    ],
)
def test_only_queue_pairs_of_processes_forbid_to_begin(rig: Rig, pair: dict[str, Any], forbids: bool | None) -> None:
    rig.behave("left", qps=[pair], idle_counters={"hw_counters": {"rcvd_pkts": 20}})
    assert [use.forbids for use in rig.testbed.foreign_uses()] == ([] if forbids is None else [forbids])


def test_a_kernel_that_lists_no_queue_pairs_is_worth_a_warning(rig: Rig) -> None:
    rig.behave("left", qps=None)
    [use] = rig.testbed.foreign_uses()
    assert not use.forbids
    assert "does not list queue pairs" in use.detail


def test_a_run_after_an_idle_window_is_as_any_other(rig: Rig) -> None:
    rig.testbed.foreign_uses()
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert result.measurement.stable


def test_hosts_have_fingerprints_host_a_first(rig: Rig) -> None:
    rig.behave("right", fingerprint={"nic.firmware": "2.0"})
    found = rig.testbed.info.fingerprints
    assert list(found) == ["left", "right"]
    assert [found[name].fields["nic.firmware"] for name in found] == ["1.0", "2.0"]
