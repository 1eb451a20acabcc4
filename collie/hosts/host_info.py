"""The agent's description of its host. Port, NUMA node and line rate are computed from it, without I/O."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from collie.counters.catalog import SOFTWARE_DRIVERS
from collie.detect.bounds import Bound
from collie.errors import TestbedError
from collie.inventory.hosts import UNSPECIFIED, Host, HostSpecification
from collie.plain import Codec, Shape
from collie.workloads.plan import packets_per_byte
from collie.workloads.workload import Workload

_VOLATILE = frozenset({"id", "ok", "clock", "pid", "memory_available_bytes", "protocol"})

WIRE_OVERHEAD_BYTES = 82
"""Bytes around a RoCE v2 payload: preamble and gap 20, Ethernet 14 + 4, IPv4 20, UDP 8, BTH 12, ICRC 4."""


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's GID table. `netdev` of a VLAN's GID is the VLAN's device."""

    index: int
    address: str | None
    type: str | None
    netdev: str | None = None


@dataclass(frozen=True, slots=True)
class PortInfo:
    """One port of an RDMA device. `rate` is sysfs' text. None means unknown."""

    number: int
    state: str | None
    active_mtu: int | None
    rate: str | None
    netdev: str | None
    gids: tuple[Gid, ...]
    link_layer: str | None = None

    @property
    def rate_bps(self) -> float | None:
        """Signalling rate in bits/s. Drivers of software devices report an invented rate."""
        found = re.match(r"(\d{1,6}(?:\.\d{1,6})?) Gb/sec", self.rate or "")
        return float(found[1]) * 1e9 if found else None


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One RDMA device. None means unknown. `limits` are the fields of `ibv_device_attr` by name."""

    name: str
    driver: str | None
    numa_node: int | None
    open_error: str | None
    ports: tuple[PortInfo, ...]
    limits: Mapping[str, int | None] | None = None

    def port(self, number: int) -> PortInfo | None:
        """Return a port by its number."""
        return next((port for port in self.ports if port.number == number), None)


@dataclass(frozen=True, slots=True)
class DataPathInfo:
    """One data path, `native` or `pyverbs`. `detail` is its origin, or why it is not usable."""

    usable: bool
    detail: str
    name: str = ""


@dataclass(frozen=True)
class HostInfo:
    """One host.

    Attributes:
        data_paths: by name, best first.
        numa_cpus: usable CPUs by NUMA node. Empty when unknown.
        description: the agent's answer to `hello`, without values that differ at each start.
    """

    kernel: str
    python: str
    data_paths: Mapping[str, DataPathInfo]
    numa_nodes: tuple[int, ...]
    devices: tuple[DeviceInfo, ...]
    memory_available_bytes: int | None = None
    rdma_cm_error: str | None = None
    usable_cpus: int = 1
    numa_cpus: Mapping[int, int] = field(default_factory=dict)
    description: Mapping[str, Any] = field(default_factory=dict)

    def data_path(self, wanted: str | None) -> DataPathInfo | None:
        """Return the data path named `wanted`, or the best one for None. Return None if it is not usable."""
        return next((path for path in self.data_paths.values() if path.usable and wanted in (None, path.name)), None)

    def device(self, name: str) -> DeviceInfo | None:
        """Return a device by its name."""
        return next((device for device in self.devices if device.name == name), None)

    def port(self, device: str, number: int) -> PortInfo | None:
        """Return a port by its device and number."""
        found = self.device(device)
        return found.port(number) if found else None


_CODEC = Codec(
    {
        PortInfo: Shape(keys={"number": "port"}, is_open=True),
        **{kind: Shape(is_open=True) for kind in (HostInfo, DataPathInfo, DeviceInfo, Gid)},
    }
)


def parse_host_info(raw: Mapping[str, Any]) -> HostInfo:
    """Read the answer to `hello`. Raises `ValueError` if it breaks the protocol."""
    info: HostInfo = _CODEC.read(HostInfo, raw)
    return replace(
        info,
        data_paths={name: replace(path, name=name) for name, path in info.data_paths.items()},
        numa_cpus={int(node): cpus for node, cpus in info.numa_cpus.items()},  # keys of JSON are strings
        description={key: value for key, value in raw.items() if key not in _VOLATILE},
    )


ROCE_TYPES = ("RoCE v2", "IB/RoCE v1")
"""Types of GIDs as sysfs names them, best first. RoCE v1 is not routed and has no DSCP or ECN."""


def matching_gid(port: PortInfo, data_address: str) -> Gid | None:
    """Return the RoCE v2 GID of an address, else the v1 GID.

    VLANs can share a link-local address, so an address can name its network device: `fe80::1%eth1.100`.
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
    """The RDMA port of a host in the inventory.

    Attributes:
        explanation: why this GID index was chosen, for the log.
        numa_nodes: nodes of the host, the NIC's first. Empty if the NIC's node is unknown.
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


def rdma_port(host: Host, info: HostInfo) -> RdmaPort:
    """Find the RDMA port of a host in the inventory.

    Raises:
        TestbedError: no data path is usable, the device, port or GID is missing, or the port is not ACTIVE.
    """
    remedy = f"; `collie hosts check` shows everything that is missing on {host.name}"
    if info.data_path(host.data_path) is None:
        which = f"data path {host.data_path} of the hosts file" if host.data_path else "either data path"
        reasons = "; ".join(f"{path.name}: {path.detail}" for path in info.data_paths.values() if not path.usable)
        raise TestbedError(
            f"host {host.name} cannot use {which} ({reasons}); native needs `apt-get install libibverbs1`, "
            f"pyverbs needs `apt-get install python3-pyverbs`{remedy}"
        )
    device = info.device(host.device)
    if device is None:
        there = ", ".join(known.name for known in info.devices) or "none"
        raise TestbedError(f"host {host.name} has no RDMA device {host.device}; there is: {there}{remedy}")
    port = device.port(host.ib_port)
    if port is None:
        raise TestbedError(f"host {host.name}: {host.device} has no port {host.ib_port}{remedy}")
    if port.state != "ACTIVE":
        raise TestbedError(f"host {host.name}: {host.device} port {port.number} is {port.state}, not ACTIVE{remedy}")
    index, explanation = _gid_index(host, port, remedy)
    own = device.numa_node
    nodes = () if own is None else (own, *(node for node in info.numa_nodes if node != own))
    where = device.name, device.driver or "unknown", port.number, port.netdev
    return RdmaPort(*where, index, port.rate_bps, explanation, nodes, port.link_layer, host.specification)


def _gid_index(host: Host, port: PortInfo, remedy: str) -> tuple[int, str]:
    place = f"host {host.name}: {host.device} port {port.number}"
    if host.gid_index is not None:
        if host.gid_index not in {gid.index for gid in port.gids}:
            raise TestbedError(f"{place} has no GID at index {host.gid_index}{remedy}")
        return host.gid_index, f"{place}: GID index {host.gid_index}, as the hosts file says"
    gid = matching_gid(port, host.data_address)
    if gid is None:
        known = ", ".join(f"{gid.index}: {gid.address} ({gid.type})" for gid in port.gids) or "none"
        raise TestbedError(f"{place} has no RoCE v2 GID for data_address {host.data_address}; it has {known}{remedy}")
    explanation = f"{place}: GID index {gid.index}, the {gid.type} GID of data_address {host.data_address}"
    if gid.type != ROCE_TYPES[0]:
        explanation += f"; the port has no {ROCE_TYPES[0]} one"
    return gid.index, explanation


def numa_node(port: RdmaPort, distance: int) -> int | None:
    """Return the NUMA node at a `distance` from the NIC. None, only for distance 0, lets the kernel choose.

    Raises:
        ValueError: the host has no such node.
    """
    if distance < len(port.numa_nodes):
        return port.numa_nodes[distance]
    if distance == 0:
        return None
    raise ValueError(f"NUMA distance {distance}, but {len(port.numa_nodes) or 'an unknown number of'} nodes")


def line_rate(ports: tuple[RdmaPort, ...], workload: Workload) -> Bound:
    """Return the payload rate that the slowest port allows. The hosts file can lower a port's own rate.

    The rate of a software device is ignored. Only the hosts file has a bound of packets/s.
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
