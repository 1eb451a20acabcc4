"""The facts that an agent reports of its host, as typed values, and their consequences. Pure."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypedDict

from collie.counters.catalog import SOFTWARE_DRIVERS
from collie.detect.bounds import Bound, packets_per_byte
from collie.errors import TestbedError
from collie.inventory.hosts import UNSPECIFIED, Host, HostSpecification
from collie.plain import typed
from collie.workloads.workload import Workload

_VOLATILE = frozenset({"id", "ok", "clock", "pid", "memory_available_bytes", "protocol"})

WIRE_OVERHEAD_BYTES = 82
"""Around a RoCE v2 payload: preamble and gap 20, Ethernet 14 + 4, IPv4 20, UDP 8, BTH 12, ICRC 4."""


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's GID table.

    Attributes:
        netdev: network device with the address, for a VLAN its own.
    """

    index: int
    address: str | None
    type: str | None
    netdev: str | None = None


@dataclass(frozen=True, slots=True)
class PortFacts:
    """One port of an RDMA device. None is unknown.

    Attributes:
        state: `ACTIVE` when it carries traffic.
        active_mtu: path MTU in bytes.
        rate_bps: signalling rate, meaningless for a software device.
        netdev: its network device.
        link_layer: `Ethernet` or `InfiniBand`.
    """

    number: int
    state: str | None
    active_mtu: int | None
    rate_bps: float | None
    netdev: str | None
    gids: tuple[Gid, ...]
    link_layer: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One RDMA device. None is unknown.

    Attributes:
        limits: the known ones, by their names in `ibv_query_device`.
    """

    name: str
    driver: str | None
    numa_node: int | None
    open_error: str | None
    ports: tuple[PortFacts, ...]
    limits: Mapping[str, int]

    def port(self, number: int) -> PortFacts | None:
        """Return a port by its number."""
        return next((port for port in self.ports if port.number == number), None)


@dataclass(frozen=True, slots=True)
class DataPathFacts:
    """One way for a host to drive traffic, `native` or `pyverbs`.

    Attributes:
        detail: its origin, or why it is unusable.
    """

    name: str
    usable: bool
    detail: str


@dataclass(frozen=True)
class HostFacts:
    """One host.

    Attributes:
        data_paths: best first.
        memory_available_bytes: at the agent's start.
        rdma_cm_error: why RDMA-CM is unusable. None where it works or is unknown.
        usable_cpus: CPUs that the agent may use.
        numa_cpus: how many of them each NUMA node has. Empty when unknown.
        description: the agent's answer without values that change from start to start.
    """

    kernel: str
    python: str
    data_paths: tuple[DataPathFacts, ...]
    numa_nodes: tuple[int, ...]
    memory_available_bytes: int | None
    devices: tuple[DeviceFacts, ...]
    description: Mapping[str, Any]
    rdma_cm_error: str | None = None
    usable_cpus: int = 1
    numa_cpus: Mapping[int, int] = field(default_factory=dict)

    def data_path(self, wanted: str | None) -> DataPathFacts | None:
        """Return the wanted data path, or the best. None where it is unusable."""
        return next((path for path in self.data_paths if path.usable and wanted in (None, path.name)), None)

    def device(self, name: str) -> DeviceFacts | None:
        """Return a device by its name."""
        return next((device for device in self.devices if device.name == name), None)

    def active_mtu(self, port: RdmaPort) -> int | None:
        """Return a port's largest path MTU. None when unknown."""
        device = self.device(port.device)
        facts = device.port(port.port) if device else None
        return facts.active_mtu if facts else None


def parse_facts(raw: Mapping[str, Any]) -> HostFacts:
    """Read the answer to `hello`.

    Raises:
        ValueError: it breaks the protocol.
    """
    answer: _Hello = typed(_Hello, raw)
    paths = tuple(DataPathFacts(name, path["usable"], path["detail"]) for name, path in answer["data_paths"].items())
    return HostFacts(
        kernel=answer["kernel"],
        python=answer["python"],
        data_paths=paths,
        numa_nodes=tuple(answer["numa_nodes"]),
        memory_available_bytes=answer.get("memory_available_bytes"),
        devices=tuple(_device(device) for device in answer["devices"]),
        description={key: value for key, value in raw.items() if key not in _VOLATILE},
        rdma_cm_error=answer.get("rdma_cm_error"),
        usable_cpus=answer.get("usable_cpus", 1),
        numa_cpus={int(node): cpus for node, cpus in answer.get("numa_cpus", {}).items()},
    )


class _DataPath(TypedDict):
    usable: bool
    detail: str


class _GidRequired(TypedDict):
    index: int
    address: str | None
    type: str | None


class _Gid(_GidRequired, total=False):
    netdev: str | None


class _PortRequired(TypedDict):
    port: int
    state: str | None
    rate: str | None
    active_mtu: int | None
    netdev: str | None
    gids: Sequence[_Gid]


class _Port(_PortRequired, total=False):
    link_layer: str | None


class _DeviceRequired(TypedDict):
    name: str
    driver: str | None
    numa_node: int | None
    open_error: str | None
    ports: Sequence[_Port]


class _Device(_DeviceRequired, total=False):
    limits: Mapping[str, int | None] | None


class _HelloRequired(TypedDict):
    kernel: str
    python: str
    data_paths: Mapping[str, _DataPath]
    numa_nodes: Sequence[int]
    devices: Sequence[_Device]


class _Hello(_HelloRequired, total=False):
    memory_available_bytes: int | None
    rdma_cm_error: str | None
    usable_cpus: int
    numa_cpus: Mapping[str, int]


def _device(answer: _Device) -> DeviceFacts:
    ports = tuple(_port(port) for port in answer["ports"])
    limits = {name: value for name, value in (answer.get("limits") or {}).items() if value is not None}
    return DeviceFacts(answer["name"], answer["driver"], answer["numa_node"], answer["open_error"], ports, limits)


def _port(answer: _Port) -> PortFacts:
    gids = tuple(Gid(gid["index"], gid["address"], gid["type"], gid.get("netdev")) for gid in answer["gids"])
    rate = re.match(r"(\d{1,6}(?:\.\d{1,6})?) Gb/sec", answer["rate"] or "")
    rate_bps = float(rate[1]) * 1e9 if rate else None
    return PortFacts(
        answer["port"],
        answer["state"],
        answer["active_mtu"],
        rate_bps,
        answer["netdev"],
        gids,
        answer.get("link_layer"),
    )


ROCE_TYPES = ("RoCE v2", "IB/RoCE v1")
"""By their names in sysfs, best first: version 1 is not routed and has no DSCP or ECN."""


def matching_gid(port: PortFacts, data_address: str) -> Gid | None:
    """Return the GID that holds an address: of RoCE v2, otherwise of v1.

    A VLAN shares the link-local address of its port. Such an address names the network device: `fe80::1%eth1.100`.
    """
    wanted, netdev = _address(data_address)
    for type_ in ROCE_TYPES:
        for gid in port.gids:
            if gid.type != type_ or not gid.address or (netdev and gid.netdev != netdev):
                continue
            with suppress(ValueError):  # hosts may report invalid addresses
                if _address(gid.address)[0] == wanted:
                    return gid
    return None


def _address(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, str | None]:
    plain, _, netdev = text.partition("%")
    address = ipaddress.ip_address(plain)
    return getattr(address, "ipv4_mapped", None) or address, netdev or None


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """The port of an inventory entry, for requests to the agent.

    Attributes:
        explanation: choice of the GID index, for the log.
        numa_nodes: nodes of the host, the NIC's first. Empty when that is unknown.
        link_layer: `Ethernet` or `InfiniBand`. None when unknown.
    """

    device: str
    driver: str
    port: int
    netdev: str | None
    gid_index: int
    rate_bps: float | None
    explanation: str
    numa_nodes: tuple[int, ...]
    link_layer: str | None = None
    specification: HostSpecification = UNSPECIFIED


def rdma_port(host: Host, facts: HostFacts) -> RdmaPort:
    """Find the port of an inventory entry.

    Raises:
        TestbedError: data path, device, port or GID is missing. Names the remedy.
    """
    mend = f"; `collie hosts check` shows everything that is missing on {host.name}"
    if facts.data_path(host.data_path) is None:
        which = f"data path {host.data_path} of the hosts file" if host.data_path else "either data path"
        reasons = "; ".join(f"{path.name}: {path.detail}" for path in facts.data_paths if not path.usable)
        raise TestbedError(
            f"host {host.name} cannot use {which} ({reasons}); `apt-get install libibverbs1` is what native needs, "
            f"`apt-get install python3-pyverbs` what pyverbs needs{mend}"
        )
    device = facts.device(host.device)
    if device is None:
        there = ", ".join(known.name for known in facts.devices) or "none"
        raise TestbedError(f"host {host.name} has no RDMA device {host.device}; there is: {there}{mend}")
    port = device.port(host.ib_port)
    if port is None:
        raise TestbedError(f"host {host.name}: {host.device} has no port {host.ib_port}{mend}")
    if port.state != "ACTIVE":
        raise TestbedError(f"host {host.name}: {host.device} port {port.number} is {port.state}, not ACTIVE{mend}")
    index, explanation = _gid_index(host, port, mend)
    own = device.numa_node
    nodes = () if own is None else (own, *(node for node in facts.numa_nodes if node != own))
    driver = device.driver or "unknown"
    where = device.name, driver, port.number, port.netdev
    return RdmaPort(*where, index, port.rate_bps, explanation, nodes, port.link_layer, host.specification)


def _gid_index(host: Host, port: PortFacts, mend: str) -> tuple[int, str]:
    place = f"host {host.name}: {host.device} port {port.number}"
    if host.gid_index is not None:
        if host.gid_index not in {gid.index for gid in port.gids}:
            raise TestbedError(f"{place} has no GID at index {host.gid_index}{mend}")
        return host.gid_index, f"{place}: GID index {host.gid_index}, as the hosts file says"
    gid = matching_gid(port, host.data_address)
    if gid is None:
        known = ", ".join(f"{gid.index}: {gid.address} ({gid.type})" for gid in port.gids) or "none"
        raise TestbedError(f"{place} has no RoCE v2 GID for data_address {host.data_address}; it has {known}{mend}")
    explanation = f"{place}: GID index {gid.index}, the {gid.type} GID of data_address {host.data_address}"
    if gid.type != ROCE_TYPES[0]:
        explanation += f"; the port has no {ROCE_TYPES[0]} one"
    return gid.index, explanation


def numa_node(port: RdmaPort, distance: int) -> int | None:
    """Return the node at a distance from the NIC, 0 for its own node. None leaves the choice to the kernel.

    Raises:
        ValueError: the host has no node so far away.
    """
    if distance < len(port.numa_nodes):
        return port.numa_nodes[distance]
    if distance == 0:
        return None
    raise ValueError(f"NUMA distance {distance}, but {len(port.numa_nodes) or 'an unknown number of'} nodes")


def line_rate(ports: tuple[RdmaPort, ...], workload: Workload) -> Bound:
    """Return the workload's bound on the slowest port, by driver and hosts file, whichever is less.

    A software device's rate means nothing, so only the hosts file bounds it. Packets/s are bounded by the hosts file
    alone.
    """
    per_byte = packets_per_byte(workload)
    bps = pps = math.inf
    for port in ports:
        wire = port.specification.line_rate_bps or math.inf
        if port.driver not in SOFTWARE_DRIVERS and port.rate_bps is not None:
            wire = min(wire, port.rate_bps)
        bps = min(bps, wire / (1 + WIRE_OVERHEAD_BYTES * per_byte), port.specification.pcie_bps or math.inf)
        pps = min(pps, port.specification.packets_per_second or math.inf)
    return Bound(min(bps, pps / per_byte * 8), pps, "specification")
