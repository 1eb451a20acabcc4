"""Facts of a host: kernel, data paths, RDMA devices, ports, GIDs. All but limits come from sysfs."""

from __future__ import annotations

import os
import platform
import socket
import time
from typing import Any, Dict, List, Optional

from . import PROTOCOL, ethtool, memory
from .faults import AgentFault
from .verbs import Verbs

INFINIBAND = "/sys/class/infiniband"
NET = "/sys/class/net"
ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}

LIMITS = (
    "max_qp",
    "max_qp_wr",
    "max_sge",
    "max_cq",
    "max_cqe",
    "max_mr",
    "max_mr_size",
    "max_srq",
    "max_srq_wr",
    "max_srq_sge",
    "max_qp_rd_atom",
    "max_qp_init_rd_atom",
    "max_ah",
)


def read_text(*parts: str) -> Optional[str]:
    """Return a sysfs attribute without its newline, or None."""
    try:
        with open(os.path.join(*parts), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def read_int(*parts: str) -> Optional[int]:
    """Return a sysfs attribute as a number, or None."""
    text = read_text(*parts)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def names(*parts: str) -> List[str]:
    """Return the sorted entries of a directory, none if it is missing."""
    try:
        return sorted(os.listdir(os.path.join(*parts)))
    except OSError:
        return []


def gid(device: str, port: int, index: int, root: str = INFINIBAND) -> str:
    """Return a GID by its index.

    Raises:
        AgentFault: ``setup``: the entry is empty or missing.
    """
    value = read_text(root, device, "ports", str(port), "gids", str(index))
    if value is None or value == ZERO_GID:
        raise AgentFault("setup", "gid", f"{device} port {port} has no GID at index {index}")
    return value


def gid_netdev(device: str, port: int, index: int) -> Optional[str]:
    """Return the network device of a GID, None on InfiniBand."""
    return read_text(INFINIBAND, device, "ports", str(port), "gid_attrs", "ndevs", str(index))


def gid_address(value: str) -> Optional[str]:
    """Return the IPv4 or IPv6 address inside a GID."""
    packed = bytes.fromhex(value.replace(":", ""))
    if packed[:12] == b"\0" * 10 + b"\xff\xff":
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def _gids(port_path: str) -> List[Dict[str, Any]]:
    table = []
    # rdma_rxe of Linux 6.1 does not list the directory. Tables can have thousands of empty entries, so stop after 16.
    empty = index = 0
    while empty < 16:
        value = read_text(port_path, "gids", str(index))
        if value is None or value == ZERO_GID:
            empty += 1
        else:
            empty = 0
            table.append(
                {
                    "index": index,
                    "gid": value,
                    "address": gid_address(value),
                    "type": read_text(port_path, "gid_attrs", "types", str(index)),
                    "netdev": read_text(port_path, "gid_attrs", "ndevs", str(index)),
                }
            )
        index += 1
    return table


def physical_netdev(name: str, root: str = NET) -> str:
    """Return the device below a VLAN or similar, which has the port's pause counters."""
    while True:
        below = _below(name, root)
        if len(below) != 1:  # a port, or a bond of several
            return name
        name = below[0]


def ports_of(name: str, root: str = NET) -> List[str]:
    """Return the ports below a network device: itself, the one below a VLAN, or all ports of a bond."""
    device = physical_netdev(name, root)
    return [physical_netdev(port, root) for port in _below(device, root)] or [device]


def _below(name: str, root: str) -> List[str]:
    return [entry[len("lower_") :] for entry in names(root, name) if entry.startswith("lower_")]


def _state(text: Optional[str]) -> Optional[str]:
    """Return ``ACTIVE`` for ``4: ACTIVE``."""
    return text.split(":", 1)[-1].strip() if text else None


def port_facts(port_path: str) -> Dict[str, Any]:
    """Return the facts of one port."""
    gids = _gids(port_path)
    netdev = next((entry["netdev"] for entry in gids if entry["netdev"]), None)
    return {
        "port": int(os.path.basename(port_path)),
        "state": _state(read_text(port_path, "state")),
        "physical_state": _state(read_text(port_path, "phys_state")),
        "link_layer": read_text(port_path, "link_layer"),
        "rate": read_text(port_path, "rate"),
        "lid": read_text(port_path, "lid"),
        "active_mtu": None,
        "max_mtu": None,
        "netdev": netdev,
        "netdev_mtu": read_int("/sys/class/net", netdev, "mtu") if netdev else None,
        "netdev_speed_mbps": read_int("/sys/class/net", netdev, "speed") if netdev else None,
        "netdev_driver": ethtool.driver(netdev) if netdev else None,
        "gids": gids,
    }


_SOFTWARE = ("rxe", "siw")


def driver_of(name: str, root: str = INFINIBAND) -> Optional[str]:
    """Return the kernel driver of an RDMA device, or None."""
    device_path = os.path.join(root, name)
    try:
        return os.path.basename(os.readlink(os.path.join(device_path, "device", "driver")))
    except OSError:
        # Software devices have no parent device.
        return next((driver for driver in _SOFTWARE if name.startswith(driver) or _is(device_path, driver)), None)


def is_software(name: str, root: str = INFINIBAND) -> bool:
    """Whether an RDMA device is software on the host's CPU."""
    return driver_of(name, root) in _SOFTWARE


def _is(device_path: str, driver: str) -> bool:
    description = read_text(device_path, "node_desc") or ""
    return driver in description.lower()


def device_facts(name: str, root: str = INFINIBAND) -> Dict[str, Any]:
    """Return the facts of one RDMA device."""
    path = os.path.join(root, name)
    numa_node = read_int(path, "device", "numa_node")
    return {
        "name": name,
        "driver": driver_of(name, root),
        "firmware": read_text(path, "fw_ver"),
        "board_id": read_text(path, "board_id"),
        "node_guid": read_text(path, "node_guid"),
        "vendor": read_text(path, "device", "vendor"),
        "part": read_text(path, "device", "device"),
        "pci_address": _pci_address(path),
        "pci_speed": read_text(path, "device", "current_link_speed"),
        "pci_width": read_text(path, "device", "current_link_width"),
        "pci_max_speed": read_text(path, "device", "max_link_speed"),
        "pci_max_width": read_text(path, "device", "max_link_width"),
        "numa_node": numa_node if numa_node is not None and numa_node >= 0 else None,
        "ports": [port_facts(os.path.join(path, "ports", number)) for number in names(path, "ports")],
        "limits": None,
        "open_error": None,
    }


def _pci_address(device_path: str) -> Optional[str]:
    try:
        return os.path.basename(os.readlink(os.path.join(device_path, "device")))
    except OSError:
        return None


def _add_limits(v: Verbs, device: Dict[str, Any]) -> None:
    try:
        context = v.Context(name=device["name"])
        attributes = context.query_device()
        device["limits"] = {name: getattr(attributes, name) for name in LIMITS}
        for port in device["ports"]:
            found = context.query_port(port["port"])
            port["active_mtu"] = MTU_BYTES.get(found.active_mtu)
            port["max_mtu"] = MTU_BYTES.get(found.max_mtu)
        context.close()
    except v.PyverbsError as error:
        device["open_error"] = str(error)


def gather(v: Optional[Verbs]) -> Dict[str, Any]:
    """Return the facts of ``hello``. Opens every device, so it runs in an engine process."""
    devices = [device_facts(name) for name in names(INFINIBAND)]
    if v is not None:
        for device in devices:
            _add_limits(v, device)
    return {
        "protocol": PROTOCOL,
        "hostname": socket.gethostname(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)),
        "numa_cpus": {node: len(memory.cpus_of(node) & os.sched_getaffinity(0)) for node in memory.numa_nodes()},
        "memory_bytes": memory.meminfo("MemTotal"),
        "memory_available_bytes": memory.meminfo("MemAvailable"),
        "numa_nodes": memory.numa_nodes(),
        "devices": devices,
        "clock": time.monotonic(),
    }
