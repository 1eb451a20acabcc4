"""`collie hosts check` and `collie counters watch`, on hosts that only pretend."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.hosts.check import check_hosts
from collie.hosts.findings import CheckState, Finding
from collie.hosts.timing import HostTiming
from collie.hosts.watch import watch
from collie.inventory.hosts import Host
from collie.inventory.safety import REAL_HOSTS, SafetyLimits
from collie.ports import Completed, Remote
from tests.integration.hosts_rig import ARCHIVE, CATALOG, GROUP, ONE_HOST, PAIR, QUICK, Unreachable, local
from tests.support.local_remote import LocalRemote

SHORT = HostTiming(clock_seconds=0.3, idle_seconds=0.3, small_messages=QUICK, full_packets=QUICK, retry=QUICK)


def states(tmp_path: Path, host: Host) -> dict[str, CheckState]:
    return {finding.item: finding.state for finding in check_hosts([host], local(tmp_path), ARCHIVE, timing=SHORT)}


def test_many_hosts_are_looked_at_some_at_a_time() -> None:
    at_once, lock = [0, 0], threading.Lock()

    class Slow(Unreachable):
        def run(self, argv: object, timeout_seconds: float) -> Completed:
            with lock:
                at_once[0] += 1
                at_once[1] = max(at_once)
            time.sleep(0.02)
            with lock:
                at_once[0] -= 1
            return super().run(argv, timeout_seconds)

    hosts = [replace(PAIR.a, name=f"host-{number}") for number in range(20)]
    found = check_hosts(hosts, Slow, ARCHIVE, hosts_at_once=4, timing=HostTiming(start_pauses_seconds=()))
    assert [finding.host for finding in found] == [host.name for host in hosts]
    assert at_once[1] == 4


def test_check_finds_a_good_host_good(tmp_path: Path) -> None:
    found = states(tmp_path, PAIR.a)
    needed = {"ssh", "python", "agent", "data path", "device", "port", "gid", "mtu", "clock"}
    assert needed <= set(found)
    assert {item: found[item] for item in needed} == dict.fromkeys(needed, CheckState.OK)


@pytest.mark.parametrize(
    ("change", "item", "command"),
    [
        ({"device": "rxe7"}, "device", "rdma link add rxe7 type rxe netdev"),
        ({"ib_port": 2}, "port", "rdma link"),
        ({"data_address": "192.0.2.9"}, "gid", "ip address add 192.0.2.9/24 dev eth1"),
        ({"gid_index": 5}, "gid", "gid_index: 3"),
        ({"python": "/bin/false"}, "python", "python3"),
    ],
)
def test_check_says_what_is_missing_and_what_mends_it(
    tmp_path: Path, change: dict[str, Any], item: str, command: str
) -> None:
    found = check_hosts([replace(PAIR.a, **change)], local(tmp_path), ARCHIVE, timing=SHORT)
    missing = [finding for finding in found if finding.state is CheckState.MISSING]
    assert [finding.item for finding in missing] == [item]
    assert command in missing[0].command


@pytest.mark.parametrize(
    ("link_layer", "gid_index", "state", "command"),
    [
        ("Ethernet", 3, CheckState.ADVICE, "ip address add 192.0.2.9/24 dev eth1"),
        ("InfiniBand", 3, CheckState.OK, ""),
        ("InfiniBand", None, CheckState.MISSING, "in the hosts file: gid_index: 3"),
        ("InfiniBand", 7, CheckState.MISSING, "in the hosts file: gid_index: 3"),
    ],
)
def test_check_does_not_ask_for_a_gid_that_a_run_needs_not(
    tmp_path: Path, link_layer: str, gid_index: int | None, state: CheckState, command: str
) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "behaviour.json").write_text(json.dumps({"port": {"link_layer": link_layer}}))
    host = replace(PAIR.a, data_address="192.0.2.9", gid_index=gid_index)
    found = {finding.item: finding for finding in check_hosts([host], local(tmp_path), ARCHIVE, timing=SHORT)}
    assert (found["gid"].state, found["gid"].command) == (state, command)


@pytest.mark.parametrize(
    ("usable", "forced", "state", "command"),
    [
        ([], None, CheckState.MISSING, "apt-get install libibverbs1 python3-pyverbs"),
        (["native"], "pyverbs", CheckState.MISSING, "apt-get install python3-pyverbs"),
        (["pyverbs"], None, CheckState.ADVICE, "apt-get install gcc libc6-dev"),
        (["pyverbs"], "pyverbs", CheckState.ADVICE, "apt-get install gcc libc6-dev"),
        (["native", "pyverbs"], "pyverbs", CheckState.OK, ""),
    ],
)
def test_check_says_which_data_path_a_host_will_use(
    tmp_path: Path, usable: list[str], forced: str | None, state: CheckState, command: str
) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "behaviour.json").write_text(json.dumps({"data_paths": usable}))
    host = replace(PAIR.a, data_path=forced)
    found = {finding.item: finding for finding in check_hosts([host], local(tmp_path), ARCHIVE, timing=SHORT)}
    assert (found["data path"].state, found["data path"].command) == (state, command)


def test_check_of_an_unreachable_host_is_one_finding(tmp_path: Path) -> None:
    found = check_hosts([PAIR.a], Unreachable, ARCHIVE)
    assert [(finding.item, finding.state) for finding in found] == [("ssh", CheckState.MISSING)]
    assert "No route to host" in found[0].detail
    assert found[0].command.startswith("here: ssh -v ")


def paths(tmp_path: Path, limits: SafetyLimits | None = REAL_HOSTS, *, shared_port: bool = False) -> dict[str, Finding]:
    found = check_hosts(
        GROUP.hosts[:3],
        local(tmp_path),
        ARCHIVE,
        catalog_for=lambda _: CATALOG,
        limits=limits,
        shared_port=shared_port,
        timing=SHORT,
    )
    return {finding.item: finding for finding in found if "->" in finding.item or "not tested" in finding.detail}


def test_check_sends_both_ways_along_a_ring(tmp_path: Path) -> None:
    found = paths(tmp_path)
    ring = [("left", "right"), ("right", "third"), ("third", "left")]
    assert set(found) == {f"data path {a} -> {b}" for pair in ring for a, b in (pair, pair[::-1])}
    assert {finding.state for finding in found.values()} == {CheckState.OK}
    asked = (tmp_path / "third" / "asked").read_text().split()
    assert (asked.count("start"), asked.count("verify")) == (12, 4)  # three runs each way, with each of the two others


def test_check_names_the_way_on_which_nothing_arrives(tmp_path: Path) -> None:
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "cut").touch()
    found = paths(tmp_path)
    dead = {item for item, finding in found.items() if finding.state is CheckState.MISSING}
    assert dead == {item for item in found if "third" in item}
    assert len(dead) == 4
    assert all(found[item].detail.startswith("unknown cause: ") for item in dead)
    assert all("modify_qp RTR: timed out" in found[item].detail for item in dead)
    assert {found[item].command for item in dead} == {"apt-get install iproute2 iputils-ping"}


def test_check_repeats_the_reason_of_the_host_that_sets_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "third").mkdir()
    error = {"kind": "setup", "step": "reg_mr", "message": "Cannot allocate memory", "errno_name": "ENOMEM"}
    (tmp_path / "third" / "behaviour.json").write_text(json.dumps({"fail": {"prepare": error}}))
    found = [finding for item, finding in paths(tmp_path).items() if "third" in item]
    assert len(found) == 4
    assert {finding.host for finding in found} == {"third"}
    said = "queue pair: host third: agent step reg_mr: Cannot allocate memory"
    assert {finding.detail for finding in found} == {said}


def test_check_sends_nothing_on_a_port_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "right").mkdir()
    used = {"qps": [{"qpn": 17, "type": "RC", "state": "RTS", "pid": 7, "comm": "other"}]}
    (tmp_path / "right" / "behaviour.json").write_text(json.dumps(used))
    found = paths(tmp_path)
    untested = {item for item, finding in found.items() if finding.state is CheckState.ADVICE}
    assert untested == {item for item in found if "right" in item}
    assert all("other (pid 7)" in found[item].detail for item in untested)
    assert "start" not in (tmp_path / "right" / "asked").read_text().split()
    assert {finding.state for finding in paths(tmp_path, shared_port=True).values()} == {CheckState.OK}


def test_check_stops_beyond_the_safety_limits(tmp_path: Path) -> None:
    found = paths(tmp_path, SafetyLimits(rate_bps=1e6))
    assert {finding.state for finding in found.values()} == {CheckState.OK}
    assert all("stopped early: host" in finding.detail for finding in found.values())


def test_check_without_traffic_says_so(tmp_path: Path) -> None:
    (found,) = paths(tmp_path, None).values()
    assert (found.state, found.detail) == (CheckState.ADVICE, "not tested: --no-traffic")
    assert "prepare" not in (tmp_path / "left" / "asked").read_text().split()


PFC = Catalog(
    "rxe",
    (
        Counter("drops", "ethtool", Unit.PACKETS, CounterKind.DIAGNOSTIC, "buffer", role=Role.DISCARD),
        Counter("tx_prio3_pause", "ethtool", Unit.MICROSECONDS, CounterKind.PAUSE, "buffer", role=Role.TX_PAUSE),
    ),
)


def check_with(tmp_path: Path, counters: dict[str, dict[str, int]], catalog: Catalog | None) -> dict[str, Finding]:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "behaviour.json").write_text(json.dumps({"counters": counters}))
    found = check_hosts([PAIR.a], local(tmp_path), ARCHIVE, catalog_for=lambda driver: catalog, timing=SHORT)
    return {finding.item: finding for finding in found}


def test_check_counts_counters_and_says_that_flow_control_is_off(tmp_path: Path) -> None:
    found = check_with(tmp_path, {"ethtool": {"drops": 1, "new_one": 1}}, PFC)
    assert found["counters"].detail == "1 of 2 of catalog rxe; 1 unknown, such as new_one"
    assert found["flow control"].state is CheckState.ADVICE
    assert "dev eth1" in found["flow control"].command


def test_check_says_nothing_of_flow_control_that_is_on(tmp_path: Path) -> None:
    found = check_with(tmp_path, {"ethtool": {"drops": 1, "tx_prio3_pause": 1}}, PFC)
    assert found["counters"].detail == "2 of 2 of catalog rxe"
    assert "flow control" not in found


def test_check_reports_a_driver_without_a_catalog(tmp_path: Path) -> None:
    found = check_with(tmp_path, {"hw_counters": {"a": 1, "b": 1}}, None)
    assert found["counters"].state is CheckState.ADVICE
    assert "its 2 counters keep the driver's names" in found["counters"].detail


def test_watching_shows_rates_and_what_is_unusual(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "behaviour.json").write_text('{"idle_counters": {"hw_counters": {"rcvd_pkts": 1000}}}')
    readings = watch([PAIR.a], local(tmp_path), lambda driver: CATALOG, 0.1, archive=ARCHIVE)
    first, second = next(readings), next(readings)
    (reading,) = second
    assert first[0].host == reading.host == "left"
    assert list(reading.rates) == ["rcvd_pkts", "send_err", "tx_pause"]
    assert reading.rates["rcvd_pkts"] == pytest.approx(1000, rel=0.3)
    assert reading.rates["send_err"] is None
    assert reading.unusual["rcvd_pkts"] is None  # nobody knows it yet
    readings.close()


ACROSS = dict.fromkeys(("all/accept_local", "all/rp_filter", "all/arp_ignore", "all/arp_announce", "eth1/rp_filter"), 0)
ACROSS |= {"eth1/arp_ignore": 1, "eth1/arp_announce": 2}


@pytest.mark.parametrize(
    ("rules", "state", "command"),
    [
        ({**ACROSS, "eth1/accept_local": 0, "all/accept_local": 1}, CheckState.OK, ""),
        (
            {**ACROSS, "eth1/accept_local": 0, "all/rp_filter": 1, "eth1/arp_announce": 0},
            CheckState.ADVICE,
            (
                "sysctl -w net.ipv4.conf.eth1.accept_local=1 net.ipv4.conf.eth1.rp_filter=2 "
                "net.ipv4.conf.eth1.arp_announce=2"
            ),
        ),
        (ACROSS, None, ""),  # the kernel does not tell
    ],
)
def test_check_says_whether_one_port_of_a_host_reaches_another(
    tmp_path: Path, rules: dict[str, int], state: CheckState | None, command: str
) -> None:
    class WithRules(LocalRemote):
        def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
            if not argv[-1].startswith("/proc/sys/net/ipv4/conf/"):
                return super().run(argv, timeout_seconds)
            asked = [path.removeprefix("/proc/sys/net/ipv4/conf/") for path in argv[1:]]
            known = [f"{rules[path]}\n" for path in asked if path in rules]
            return Completed(0 if len(known) == len(asked) else 1, "".join(known), "")

    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "behaviour.json").write_text('{"devices": ["rxe0", "rxe1"]}')
    hosts = ONE_HOST.hosts

    def connect(host: Host) -> Remote:
        return WithRules(host.name, tmp_path / host.machine)

    found = [
        one for one in check_hosts(hosts, connect, ARCHIVE, pairs=[ONE_HOST], timing=SHORT) if one.item == "other ports"
    ]
    assert [(one.host, one.state, one.command) for one in found] == (
        [] if state is None else [(host.name, state, command) for host in hosts]
    )


def test_check_advises_when_the_hosts_of_a_pair_are_not_alike(tmp_path: Path) -> None:
    def alike() -> Finding:
        return check_hosts([PAIR.a, PAIR.b], local(tmp_path), ARCHIVE, pairs=[PAIR], timing=SHORT)[-1]

    assert (alike().host, alike().item, alike().state) == ("left,right", "alike", CheckState.OK)
    (tmp_path / "right" / "behaviour.json").write_text('{"fingerprint": {"nic.firmware": "2.0"}}')
    assert alike().state is CheckState.ADVICE
    assert "nic.firmware: 1.0 and 2.0" in alike().detail
