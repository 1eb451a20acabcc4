"""What each end of a data path observes below RDMA, through a shell on its host.

A missing, forbidden or late tool leaves its part unknown (None). Nothing is changed, and only a few pings are sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from collie.counters.catalog import SOFTWARE_DRIVERS
from collie.errors import TestbedError
from collie.hosts.drop_rules import DropRule, filters, iptables_rules, losses, nft_rules
from collie.hosts.facts import Gid, PortFacts, matching_gid
from collie.hosts.run import in_parallel
from collie.hosts.session import HostSession
from collie.inventory.hosts import Host
from collie.plain import typed
from collie.untrusted import read_json, whole_number

COMMAND_SECONDS = 10.0
_PINGS = ("-n", "-q", "-c", "3", "-i", "0.2", "-W", "1")
ROCE_ABOVE_PING_BYTES = 32
"""A RoCE packet has BTH 12, RETH 16 and ICRC 4 where a ping has payload. Both have 8 in front."""
_NAME = re.compile(r"[A-Za-z0-9_.:@-]{1,32}")
"""Names allowed in commands that users are asked to run."""


@dataclass(frozen=True, slots=True)
class Link:
    """A network device. Its flags are those of `ip link`."""

    flags: frozenset[str]
    mtu: int | None
    mac: str | None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The ARP or ND entry of the peer.

    Attributes:
        state: such as `REACHABLE`, `FAILED`. `NONE` without an entry.
    """

    state: str
    mac: str | None = None


@dataclass(frozen=True, slots=True)
class Ping:
    """Result of pings.

    Attributes:
        limit: MTU in bytes that was reported to be too small. None without such a report.
    """

    passed: bool
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class PathEnd:
    """One end of a data path. None is unknown.

    Attributes:
        gid: GID of a run. None where there is none.
        netdev: network device of that GID, or of the port.
        neighbour: ARP or ND entry of the peer.
        routed: the kernel has a route to the peer through the network device.
        ping, full_ping: to the peer. A full ping has the size of the largest RoCE packet, unfragmented.
        arrived: packets received by the network device during the peer's pings.
        hung_queues: how often the kernel found a transmit queue hung.
        rules: rules that drop our packets. None without a tool.
    """

    host: Host
    port: PortFacts | None = None
    gid: Gid | None = None
    netdev: str | None = None
    link: Link | None = None
    neighbour: Neighbour | None = None
    routed: bool | None = None
    ping: Ping | None = None
    full_ping: Ping | None = None
    arrived: int | None = None
    hung_queues: int | None = None
    rules: tuple[DropRule, ...] | None = None
    driver: str | None = None

    @property
    def is_software(self) -> bool:
        """Whether RDMA packets pass the host's kernel with its queueing disciplines, filters and firewall."""
        return self.driver in SOFTWARE_DRIVERS

    @property
    def is_infiniband(self) -> bool:
        """Whether RDMA packets do not use IP, so that IPoIB shows nothing about them."""
        return self.port is not None and self.port.link_layer == "InfiniBand"

    @property
    def matching(self) -> Gid | None:
        """The GID that holds the data address."""
        return matching_gid(self.port, self.host.data_address) if self.port else None


@dataclass
class _EndProbe:
    """Observation of one end."""

    session: HostSession
    port: PortFacts | None
    gid: Gid | None
    netdev: str | None
    peer: str
    driver: str | None = None

    @classmethod
    def of(cls, session: HostSession, peer: Host) -> _EndProbe:
        host, port, driver = session.host, None, None
        with suppress(TestbedError):
            device = session.refreshed_facts().device(host.device)
            port, driver = (device.port(host.ib_port), device.driver) if device else (None, None)
        gid = None
        if port is not None and host.gid_index is not None:
            gid = next((each for each in port.gids if each.index == host.gid_index), None)
        elif port is not None:
            gid = matching_gid(port, host.data_address)
        found = (gid and gid.netdev) or (port and port.netdev)
        netdev = found if found and _NAME.fullmatch(found) else None
        return cls(session, port, gid, netdev, peer.data_address.partition("%")[0], driver)

    def run(self, *argv: str) -> tuple[int, str] | None:
        """Return status and output of a command. None where it did not run."""
        with suppress(TestbedError):
            # Users' PATH often lacks the directories of these tools.
            script = 'PATH="$PATH:/usr/sbin:/sbin"; export PATH; LC_ALL=C exec "$@" 2>&1'
            done = self.session.run(["sh", "-c", script, "sh", *argv], COMMAND_SECONDS)
            if done.status not in (126, 127):
                return done.status, done.stdout
        return None

    def text(self, *argv: str) -> str | None:
        """Return the output of a command that succeeded."""
        done = self.run(*argv)
        return done[1] if done is not None and done[0] == 0 else None

    def rows(self, *argv: str) -> list[Mapping[str, Any]] | None:
        """Return the objects in a command's JSON list."""
        output = self.text(*argv)
        with suppress(ValueError):
            return None if output is None else list(typed(Sequence[Mapping[str, Any]], read_json(output or "[]")))
        return None

    def link(self) -> Link | None:
        rows = self.rows("ip", "-j", "link", "show", "dev", self.netdev) if self.netdev else None
        if not rows:
            return None
        mtu, mac = rows[0].get("mtu"), rows[0].get("address")
        flags = frozenset(flag for flag in rows[0].get("flags", ()) if isinstance(flag, str))
        return Link(flags, mtu if type(mtu) is int else None, mac if isinstance(mac, str) and _is_mac(mac) else None)

    def neighbour(self) -> Neighbour | None:
        rows = self.rows("ip", "-j", "neigh", "show", "to", self.peer, "dev", self.netdev) if self.netdev else None
        if rows is None:
            return None
        if not rows:
            return Neighbour("NONE")
        states, mac = rows[0].get("state"), rows[0].get("lladdr")
        state = next((each for each in states or () if isinstance(each, str)), "NONE")
        return Neighbour(state, mac if isinstance(mac, str) and _is_mac(mac) else None)

    def routed(self) -> bool | None:
        found = self.run("ip", "route", "get", self.peer, "oif", self.netdev) if self.netdev else None
        return None if found is None else found[0] == 0

    def ping(self, *more: str) -> Ping | None:
        done = self.run("ping", *_PINGS, *more, "-I", self.netdev, self.peer) if self.netdev else None
        if done is None or done[0] not in (0, 1):
            return None
        limit = re.search(r"mtu ?= ?(\d{2,6})", done[1])
        return Ping(done[0] == 0, int(limit[1]) if limit else None)

    def received_packets(self) -> int | None:
        output = self.text("cat", f"/sys/class/net/{self.netdev}/statistics/rx_packets") if self.netdev else None
        return whole_number(output.strip()) if output else None

    def hung_queues(self) -> int | None:
        output = self.text("sh", "-c", 'cat "/sys/class/net/$1/queues/"tx-*/tx_timeout', "sh", self.netdev or "")
        counts = [whole_number(word) for word in (output or "").split()]
        return sum(count or 0 for count in counts) if counts else None

    def rules(self) -> tuple[DropRule, ...] | None:
        netdev = self.netdev
        if netdev is None:
            return None
        found: list[Iterator[DropRule]] = []
        if (rows := self.rows("tc", "-j", "qdisc", "show", "dev", netdev)) is not None:
            found.append(losses(netdev, rows))
        for way in ("ingress", "egress"):
            if (rows := self.rows("tc", "-j", "filter", "show", "dev", netdev, way)) is not None:
                found.append(filters(netdev, way, rows))
        if (text := self.text("nft", "-a", "list", "ruleset")) is not None:
            found.append(nft_rules(netdev, text))
        if (text := self.text("iptables", "-S")) is not None:
            found.append(iptables_rules(netdev, text))
        return tuple(rule for rules in found for rule in rules) if found else None


def observe_ends(sender: HostSession, receiver: HostSession, executor: Executor) -> tuple[PathEnd, PathEnd]:
    """Return both ends' observations. Pings run one after the other, the rest in parallel."""
    sessions = {"sender": sender, "receiver": receiver}
    peers = {"sender": receiver.host, "receiver": sender.host}
    probes = in_parallel(executor, {end: partial(_EndProbe.of, sessions[end], peers[end]) for end in sessions})
    a, b = probes["sender"], probes["receiver"]
    pings = {"sender": _pinged(a, b), "receiver": _pinged(b, a)}
    arrived = {"sender": pings["receiver"][2], "receiver": pings["sender"][2]}
    ends = in_parallel(executor, {end: partial(_end, probes[end], pings[end][:2], arrived[end]) for end in sessions})
    return ends["sender"], ends["receiver"]


def _pinged(one: _EndProbe, other: _EndProbe) -> tuple[Ping | None, Ping | None, int | None]:
    """Return the results of small and of full pings, and the packets that arrived at the other end."""
    before = other.received_packets()
    small = one.ping()
    after = other.received_packets()
    mtu = one.port.active_mtu if one.port else None
    size = str((mtu or 1024) + ROCE_ABOVE_PING_BYTES)
    full = one.ping("-M", "do", "-s", size) if small is not None and small.passed else None
    return small, full, None if before is None or after is None else after - before


def _end(one: _EndProbe, pings: tuple[Ping | None, Ping | None], arrived: int | None) -> PathEnd:
    return PathEnd(
        one.session.host,
        one.port,
        one.gid,
        one.netdev,
        one.link(),
        one.neighbour(),
        one.routed(),
        *pings,
        arrived=arrived,
        hung_queues=one.hung_queues(),
        rules=one.rules(),
        driver=one.driver,
    )


def _is_mac(text: str) -> bool:
    return re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5,19}", text) is not None
