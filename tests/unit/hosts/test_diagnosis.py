"""From what both ends of a dead data path see to the layer that is broken, and the command that mends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collie.detect.measurement import GeneratorHealth, HostMeasurement, Measurement
from collie.hosts.data_path import failure_of
from collie.hosts.diagnosis import Layer, PathFailure, ProofStage, diagnose, unequal_mtu
from collie.hosts.drop_rules import DropRule
from collie.hosts.host_info import Gid, PortInfo
from collie.hosts.wire import Link, Neighbour, PathEnd, Ping
from collie.inventory.hosts import Host

UP = frozenset({"BROADCAST", "MULTICAST", "UP", "LOWER_UP"})
REACHED, LOST = Ping(passed=True), Ping(passed=False)


PORT = PortInfo(1, "ACTIVE", 4096, "100 Gb/sec", "eth1", (), "Ethernet")


def end(name: str, number: int) -> PathEnd:
    address, mac = f"192.0.2.{number}", f"52:54:00:00:00:0{number}"
    gids = (Gid(0, f"fe80::{number}", "RoCE v2", "eth1"), Gid(1, address, "RoCE v2", "eth1"))
    return PathEnd(
        Host(name, f"mgmt-{name}", address, "rxe0"),
        replace(PORT, gids=gids),
        gids[1],
        "eth1",
        Link(UP, 4200, mac),
        Neighbour("REACHABLE", f"52:54:00:00:00:0{3 - number}"),
        routed=True,
        ping=REACHED,
        full_ping=REACHED,
        arrived=3,
        hung_queues=0,
        rules=(),
        driver="rxe",
    )


A, B = end("a", 1), end("b", 2)
WRONG = replace(A.host, gid_index=0)
TIMED_OUT = PathFailure(ProofStage.SET_UP, "modify_qp RTR: Connection timed out")
FULL = PathFailure(ProofStage.FULL, "transport retry counter exceeded")
NOTHING = PathFailure(ProofStage.TRICKLE, "nothing was received")
UNRESOLVED = replace(A, neighbour=Neighbour("FAILED"), ping=LOST, full_ping=None)
DROPS_ARP = DropRule("ARP", "a filter drops ARP", "undo ARP")
DROPS_ROCE = DropRule("UDP 4791", "a filter drops UDP 4791", "undo UDP")
LOSES = DropRule("everything", "netem loses packets", "undo loss")
MAY_DROP = DropRule("UDP 4791", "a policy may drop UDP 4791", "open UDP", surely=False)
LOSES_SOME = DropRule("everything", "netem loses 0.1% of all packets", "undo loss", surely=False)
REFUSED = PathFailure(ProofStage.SET_UP, "host b: agent step reg_mr: Cannot allocate memory", "b")
NIC_A, NIC_B = replace(A, driver="mlx5_core"), replace(B, driver="mlx5_core")
IB_A, IB_B = (replace(nic, port=replace(PORT, link_layer="InfiniBand"), gid=None) for nic in (NIC_A, NIC_B))
SMALL_PINGS = Ping(passed=False, limit=1500)


@pytest.mark.parametrize(
    ("sender", "receiver", "failure", "layer", "host", "command"),
    [
        (A, replace(B, link=Link(frozenset(), 4200, None)), TIMED_OUT, Layer.LINK, "b", "ip link set eth1 up"),
        (A, replace(B, link=Link(frozenset({"UP"}), 4200, None)), NOTHING, Layer.LINK, "b", "ethtool eth1"),
        (replace(A, port=replace(PORT, state="DOWN")), B, NOTHING, Layer.LINK, "a", "ip link set eth1 up"),
        (A, replace(B, rules=(LOSES,)), NOTHING, Layer.LINK, "b", "undo loss"),
        (replace(A, hung_queues=2), replace(B, arrived=0), NOTHING, Layer.LINK, "a", "ip link set eth1 down"),
        (UNRESOLVED, replace(B, arrived=0), TIMED_OUT, Layer.LINK, "a", "ip link set eth1 down"),
        (
            replace(A, host=WRONG, gid=Gid(0, "fe80::1", "RoCE v2")),
            B,
            TIMED_OUT,
            Layer.GID,
            "a",
            "gid_index: 1",
        ),
        (replace(A, host=replace(A.host, gid_index=7), gid=None), B, TIMED_OUT, Layer.GID, "a", "gid_index: 1"),
        (A, replace(B, gid=None), TIMED_OUT, Layer.GID, "b", "ip address add 192.0.2.2/24 dev eth1"),
        (A, replace(B, gid=Gid(1, "192.0.2.2", "IB/RoCE v1")), NOTHING, Layer.GID, "b", "b: gid_index: 1"),
        (A, replace(B, link=Link(UP | {"NOARP"}, 4200, None)), NOTHING, Layer.ADDRESS, "b", "ip link set eth1 arp on"),
        (UNRESOLVED, replace(B, rules=(DROPS_ARP,)), TIMED_OUT, Layer.ADDRESS, "b", "undo ARP"),
        (UNRESOLVED, B, TIMED_OUT, Layer.ADDRESS, "a", "ip neigh replace 192.0.2.2 lladdr 52:54:00:00:00:02 dev eth1"),
        (
            replace(A, neighbour=Neighbour("PERMANENT", "02:00:00:00:00:09"), ping=LOST),
            B,
            NOTHING,
            Layer.ADDRESS,
            "a",
            "ip neigh replace 192.0.2.2 lladdr 52:54:00:00:00:02 dev eth1",
        ),
        (replace(A, routed=False), B, TIMED_OUT, Layer.ROUTE, "a", "ip route add 192.0.2.2/32 dev eth1"),
        (A, replace(B, rules=(DROPS_ROCE,)), NOTHING, Layer.FIREWALL, "b", "undo UDP"),
        (A, B, NOTHING, Layer.FIREWALL, "b", "iptables -I INPUT -p udp --dport 4791 -j ACCEPT"),
        (replace(A, full_ping=Ping(passed=False, limit=1500)), B, NOTHING, Layer.MTU, "a", "ip link set eth1 mtu 1500"),
        (replace(A, full_ping=None), B, FULL, Layer.MTU, "a", "ip link set eth1 mtu 1500"),
        (A, replace(B, full_ping=LOST), FULL, Layer.MTU, "b", "ip link set eth1 mtu 1500"),
        (A, B, FULL, Layer.UNKNOWN, "b", "rdma statistic show link rxe0/1"),
        (A, B, TIMED_OUT, Layer.QUEUE_PAIR, "a", "rdma link show rxe0/1"),
        (
            A,
            B,
            PathFailure(ProofStage.DATAGRAM, "nothing was received"),
            Layer.DATAGRAM,
            "b",
            "rdma statistic show link rxe0/1",
        ),
        (PathEnd(A.host), B, NOTHING, Layer.UNKNOWN, "a", "apt-get install iproute2 iputils-ping"),
    ],
)
def test_the_lowest_broken_layer_is_named_with_its_command(
    sender: PathEnd, receiver: PathEnd, failure: PathFailure, layer: Layer, host: str, command: str
) -> None:
    found = diagnose(sender, receiver, failure)
    assert (found.layer, found.host) == (layer, host)
    assert command in found.command


def test_what_blocks_the_way_back_is_found_too() -> None:
    """RC needs both: its acknowledgements are packets of the receiver."""
    found = diagnose(replace(A, rules=(DROPS_ROCE,)), B, NOTHING)
    assert (found.host, found.command) == ("a", "undo UDP")


def test_unreadable_rules_are_reported_as_unread() -> None:
    assert "could not be read" in diagnose(A, replace(B, rules=None), NOTHING).detail
    assert "could not be read" not in diagnose(A, B, NOTHING).detail


def test_the_end_with_the_smaller_mtu_is_named_with_the_mtu_of_the_other() -> None:
    small = replace(B, port=replace(PORT, active_mtu=1024), link=Link(UP, 1500, None))
    for sender, receiver in ((A, small), (small, A)):
        found = unequal_mtu(sender, receiver)
        assert found is not None
        assert (found.layer, found.host, found.command) == (Layer.MTU, "b", "ip link set eth1 mtu 4200")
    assert unequal_mtu(A, B) is None


@pytest.mark.parametrize("rule", [DROPS_ROCE, MAY_DROP, LOSES, LOSES_SOME])
def test_the_kernel_of_a_host_is_not_blamed_for_what_a_nic_loses(rule: DropRule) -> None:
    found = diagnose(NIC_A, replace(NIC_B, rules=(rule,)), NOTHING)
    assert (found.layer, found.host) == (Layer.FABRIC, "b")
    assert "VLAN, PFC, or an ACL of the switch" in found.detail
    assert "ip -d link show eth1" in found.command
    assert "iptables" not in str(found)


def test_a_device_of_which_no_driver_is_known_is_taken_for_a_nic() -> None:
    """A command that opens a firewall in vain costs more than one that looks."""
    found = diagnose(replace(A, driver=None), replace(B, driver=None, rules=(DROPS_ROCE,)), NOTHING)
    assert found.layer is Layer.FABRIC


@pytest.mark.parametrize("rule", [DROPS_ARP, LOSES])
def test_a_nic_asks_for_addresses_by_way_of_the_kernel(rule: DropRule) -> None:
    asking = replace(UNRESOLVED, driver="mlx5_core")
    found = diagnose(asking, replace(NIC_B, rules=(rule,)), TIMED_OUT)
    assert (found.layer, found.host, found.command) == (Layer.ADDRESS, "b", rule.undo)


def test_a_switch_that_takes_small_frames_is_named_before_a_policy() -> None:
    found = diagnose(replace(A, full_ping=SMALL_PINGS), replace(B, rules=(MAY_DROP,)), NOTHING)
    assert (found.layer, found.host) == (Layer.MTU, "a")


def test_a_policy_is_a_guess_that_comes_before_no_knowledge_at_all() -> None:
    found = diagnose(A, replace(B, rules=(MAY_DROP,)), NOTHING)
    assert (found.layer, found.host, found.command) == (Layer.FIREWALL, "b", "open UDP")
    assert "may drop" in found.detail


@pytest.mark.parametrize("rules", [(MAY_DROP,), (DROPS_ROCE,), (LOSES,)])
@pytest.mark.parametrize("stage", [ProofStage.SET_UP, ProofStage.TRICKLE, ProofStage.FULL, ProofStage.DATAGRAM])
def test_a_host_that_gives_a_reason_is_believed(rules: tuple[DropRule, ...], stage: ProofStage) -> None:
    seen = replace(A, full_ping=SMALL_PINGS, ping=LOST, routed=False), replace(B, rules=rules)
    found = diagnose(*seen, replace(REFUSED, stage=stage))
    assert (found.layer, found.host, found.detail) == (Layer.QUEUE_PAIR, "b", REFUSED.detail)


def test_a_host_without_tools_is_named_with_the_reason() -> None:
    assert diagnose(PathEnd(A.host), PathEnd(B.host), REFUSED).detail == REFUSED.detail


def test_a_wrong_gid_explains_what_a_host_refuses() -> None:
    refused = PathFailure(ProofStage.SET_UP, "modify_qp RTR EINVAL", "a")
    found = diagnose(replace(A, host=WRONG, gid=Gid(0, "fe80::1", "RoCE v2")), B, refused)
    assert (found.layer, found.host) == (Layer.GID, "a")


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"rules": (DROPS_ROCE,)},
        {"full_ping": Ping(passed=False, limit=2044)},
        {"ping": None, "full_ping": None, "link": None},
        {"routed": False, "ping": LOST, "neighbour": Neighbour("FAILED")},
    ],
    ids=["pings-pass", "firewall", "ipoib-mtu", "no-tools", "ipoib-route"],
)
def test_of_infiniband_ip_is_no_evidence(changed: dict[str, Any]) -> None:
    found = diagnose(replace(IB_A, **changed), replace(IB_B, **changed), NOTHING)
    assert (found.layer, found.host) == (Layer.FABRIC, "b")
    assert "partition keys" in found.detail
    assert "ibstat rxe0 1" in found.command
    large = diagnose(replace(IB_A, **changed), replace(IB_B, **changed), FULL)
    assert (large.layer, large.command) == (Layer.UNKNOWN, "rdma statistic show link rxe0/1")


def test_of_infiniband_the_state_of_the_port_is_evidence() -> None:
    down = replace(IB_B, port=replace(PORT, link_layer="InfiniBand", state="INIT"))
    assert diagnose(IB_A, down, NOTHING).layer is Layer.LINK


def test_a_discipline_that_loses_a_little_is_a_hint_and_no_cause() -> None:
    found = diagnose(replace(A, rules=(LOSES_SOME,)), B, NOTHING)
    assert (found.layer, found.host) == (Layer.FIREWALL, "b")
    assert "on a, netem loses 0.1% of all packets" in found.detail


@pytest.mark.parametrize(
    ("errors", "refused_by"),
    [
        ({}, None),
        ({"transport retry counter exceeded": 1}, None),
        ({"transport retry counter exceeded": 1, "remote access error": 1}, "a"),
        ({"RNR retry exceeded": 2}, "a"),
    ],
)
def test_a_work_request_that_the_peer_has_answered_was_not_lost(errors: dict[str, int], refused_by: str | None) -> None:
    silent = (HostMeasurement("a", 0.0, 0.0), HostMeasurement("b", 0.0, 0.0))
    failed = failure_of(
        ProofStage.TRICKLE, Measurement(silent, 0.1, health=GeneratorHealth(completion_errors=errors)), "a"
    )
    assert failed is not None
    assert failed.refused_by == refused_by
