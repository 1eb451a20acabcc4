"""Observes both ends of a data path below RDMA, by shell commands on each host. The commands change nothing.

If a tool is missing, forbidden or late, the values that it reports are unknown (None).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from collie.counters.catalog import SOFTWARE_DRIVERS
from collie.errors import TestbedError
from collie.hosts.drop_rules import DropRule, filters, iptables_rules, losses, nft_rules
from collie.hosts.endpoint import in_parallel
from collie.hosts.host_info import Gid, PortInfo, matching_gid
from collie.hosts.session import HostSession
from collie.inventory.hosts import Host
from collie.plain import typed
from collie.untrusted import read_json, whole_number

_COMMAND_SECONDS = 10.0
_PINGS = ("-n", "-q", "-c", "3", "-i", "0.2", "-W", "1")
_ROCE_ABOVE_PING_BYTES = 32
"""Bytes of BTH (12), RETH (16) and ICRC (4). In a ping of the same size, payload takes their place."""
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.:@-]{1,32}")
"""Names of network devices allowed in repair commands."""


@dataclass(frozen=True, slots=True)
class Link:
    """A network device. Its flags are those of `ip link`."""

    flags: frozenset[str]
    mtu: int | None
    mac: str | None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The ARP or ND entry of the peer. The state is `NONE` without an entry."""

    state: str
    mac: str | None = None


@dataclass(frozen=True, slots=True)
class Ping:
    """Result of pings. `limit` is the MTU that `ping` reports when a packet is too large."""

    passed: bool
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class PathEnd:
    """One end of a data path. None means unknown.

    Attributes:
        netdev: network device of the GID, or of the port.
        routed: the kernel has a route to the peer through the network device.
        full_ping: pings as large as the largest RoCE packet, unfragmented.
        arrived: packets received during the peer's pings.
        hung_queues: transmit queues that the kernel found hung.
    """

    host: Host
    port: PortInfo | None = None
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
    def name(self) -> str:
        """The host's name."""
        return self.host.name

    @property
    def address(self) -> str:
        """The data address without a network device."""
        return self.host.data_address.partition("%")[0]

    @property
    def active_mtu(self) -> int | None:
        """Path MTU of the port."""
        return self.port.active_mtu if self.port else None

    @property
    def is_silent(self) -> bool:
        """Whether nothing arrived while the peer sent pings or ARP requests."""
        return self.arrived == 0

    @property
    def is_software(self) -> bool:
        """Whether RDMA packets pass the kernel with its filters and firewall."""
        return self.driver in SOFTWARE_DRIVERS

    @property
    def is_infiniband(self) -> bool:
        """Whether RDMA packets bypass IP, so that pings prove nothing."""
        return self.port is not None and self.port.link_layer == "InfiniBand"

    @property
    def matching(self) -> Gid | None:
        """The GID that holds the data address."""
        return matching_gid(self.port, self.host.data_address) if self.port else None


class _EndProbe:
    def __init__(self, session: HostSession, peer: Host) -> None:
        self._session = session
        self._peer = peer.data_address.partition("%")[0]
        host, port, driver, gid = session.host, None, None, None
        with suppress(TestbedError):
            if device := session.refreshed_info().device(host.device):
                port, driver = device.port(host.ib_port), device.driver
        if port is not None and host.gid_index is not None:
            gid = next((each for each in port.gids if each.index == host.gid_index), None)
        elif port is not None:
            gid = matching_gid(port, host.data_address)
        found = (gid and gid.netdev) or (port and port.netdev)
        self._netdev = found if found and _SAFE_NAME.fullmatch(found) else None
        self.end = PathEnd(host, port, gid, self._netdev, driver=driver)

    def observe(self, ping: Ping | None, full_ping: Ping | None, arrived: int | None) -> PathEnd:
        return replace(
            self.end,
            link=self._link(),
            neighbour=self._neighbour(),
            routed=self._routed(),
            ping=ping,
            full_ping=full_ping,
            arrived=arrived,
            hung_queues=self._hung_queues(),
            rules=self._rules(),
        )

    def ping(self, *more: str) -> Ping | None:
        status, output = self._run("ping", *_PINGS, *more, "-I", self._netdev, self._peer)
        if status not in (0, 1):
            return None
        limit = re.search(r"mtu ?= ?(\d{2,6})", output)
        return Ping(status == 0, int(limit[1]) if limit else None)

    def received_packets(self) -> int | None:
        output = self._text("cat", self._netdev and f"/sys/class/net/{self._netdev}/statistics/rx_packets")
        return whole_number(output.strip()) if output else None

    def _run(self, *argv: str | None) -> tuple[int | None, str]:
        """Return status and output of a command. The status is None where it did not run."""
        known = [word for word in argv if word is not None]
        if len(known) == len(argv):
            with suppress(TestbedError):
                # Users' PATH often lacks the directories of these tools.
                script = 'PATH="$PATH:/usr/sbin:/sbin"; export PATH; LC_ALL=C exec "$@" 2>&1'
                ended = self._session.run(["sh", "-c", script, "sh", *known], _COMMAND_SECONDS)
                if ended.status not in (126, 127):
                    return ended.status, ended.stdout
        return None, ""

    def _text(self, *argv: str | None) -> str | None:
        status, output = self._run(*argv)
        return output if status == 0 else None

    def _rows(self, *argv: str | None) -> list[Mapping[str, Any]] | None:
        output = self._text(*argv)
        with suppress(ValueError):
            return None if output is None else list(typed(Sequence[Mapping[str, Any]], read_json(output or "[]")))
        return None

    def _link(self) -> Link | None:
        rows = self._rows("ip", "-j", "link", "show", "dev", self._netdev)
        if not rows:
            return None
        mtu = rows[0].get("mtu")
        flags = frozenset(flag for flag in rows[0].get("flags", ()) if isinstance(flag, str))
        return Link(flags, mtu if type(mtu) is int else None, _mac(rows[0].get("address")))

    def _neighbour(self) -> Neighbour | None:
        rows = self._rows("ip", "-j", "neigh", "show", "to", self._peer, "dev", self._netdev)
        if rows is None:
            return None
        if not rows:
            return Neighbour("NONE")
        state = next((each for each in rows[0].get("state") or () if isinstance(each, str)), "NONE")
        return Neighbour(state, _mac(rows[0].get("lladdr")))

    def _routed(self) -> bool | None:
        status, _ = self._run("ip", "route", "get", self._peer, "oif", self._netdev)
        return None if status is None else status == 0

    def _hung_queues(self) -> int | None:
        output = self._text("sh", "-c", 'cat "/sys/class/net/$1/queues/"tx-*/tx_timeout', "sh", self._netdev)
        counts = [whole_number(word) for word in (output or "").split()]
        return sum(count or 0 for count in counts) if counts else None

    def _rules(self) -> tuple[DropRule, ...] | None:
        netdev = self._netdev
        if netdev is None:
            return None
        found: list[Iterator[DropRule]] = []
        if (rows := self._rows("tc", "-j", "qdisc", "show", "dev", netdev)) is not None:
            found.append(losses(netdev, rows))
        for direction in ("ingress", "egress"):
            if (rows := self._rows("tc", "-j", "filter", "show", "dev", netdev, direction)) is not None:
                found.append(filters(netdev, direction, rows))
        if (text := self._text("nft", "-a", "list", "ruleset")) is not None:
            found.append(nft_rules(netdev, text))
        if (text := self._text("iptables", "-S")) is not None:
            found.append(iptables_rules(netdev, text))
        return tuple(chain.from_iterable(found)) if found else None


def observe_ends(sender: HostSession, receiver: HostSession, executor: Executor) -> tuple[PathEnd, PathEnd]:
    """Return the observations of both ends. Pings run one after the other, the rest in parallel."""
    probes = {"a": partial(_EndProbe, sender, receiver.host), "b": partial(_EndProbe, receiver, sender.host)}
    a, b = in_parallel(executor, probes).values()
    ping_a, full_ping_a, arrived_at_b = _pinged(a, b)
    ping_b, full_ping_b, arrived_at_a = _pinged(b, a)
    steps = {
        "a": partial(a.observe, ping_a, full_ping_a, arrived_at_a),
        "b": partial(b.observe, ping_b, full_ping_b, arrived_at_b),
    }
    seen_a, seen_b = in_parallel(executor, steps).values()
    return seen_a, seen_b


def _pinged(one: _EndProbe, other: _EndProbe) -> tuple[Ping | None, Ping | None, int | None]:
    """Return the results of small and full pings, and the packets that arrived at the other end."""
    before = other.received_packets()
    small = one.ping()
    after = other.received_packets()
    size = str((one.end.active_mtu or 1024) + _ROCE_ABOVE_PING_BYTES)
    full = one.ping("-M", "do", "-s", size) if small is not None and small.passed else None
    return small, full, None if before is None or after is None else after - before


def _mac(found: object) -> str | None:
    if isinstance(found, str) and re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5,19}", found):
        return found
    return None
