"""Facts of a host: kernel, data paths, RDMA devices, ports, GIDs."""

from __future__ import annotations

import os
import platform
import socket
import time
from typing import Any, Dict, List, Optional

from . import PROTOCOL, ethtool, memory
from .faults import AgentFault
from .kernel_files import entries, link_target, read_int, read_text
from .verbs import Verbs
from .workload import MTU_CODES

INFINIBAND = "/sys/class/infiniband"
NET = "/sys/class/net"
ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"

LIMITS = (
    *("max_qp", "max_qp_wr", "max_sge", "max_cq", "max_cqe", "max_mr", "max_mr_size", "max_srq", "max_srq_wr"),
    *("max_srq_sge", "max_qp_rd_atom", "max_qp_init_rd_atom", "max_ah"),
)


def gid(device: str, port: int, index: int, root: str = INFINIBAND) -> str:
    """Return a GID. An empty entry raises the fault ``setup``."""
    value = read_text(root, device, "ports", str(port), "gids", str(index))
    if value is None or value == ZERO_GID:
        raise AgentFault("setup", "gid", f"{device} port {port} has no GID at index {index}")
    return value


def gid_netdev(device: str, port: int, index: int) -> Optional[str]:
    """Return the network device of a GID, None on InfiniBand."""
    return read_text(INFINIBAND, device, "ports", str(port), "gid_attrs", "ndevs", str(index))


def _gid_address(value: str) -> Optional[str]:
    packed = bytes.fromhex(value.replace(":", ""))
    if packed[:12] == b"\0" * 10 + b"\xff\xff":
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def _gids(port_path: str) -> List[Dict[str, Any]]:
    table = []
    # Read by index, because rdma_rxe of Linux 6.1 lists no entries. Stop after 16 empty ones: there may be thousands.
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
                    "address": _gid_address(value),
                    "type": read_text(port_path, "gid_attrs", "types", str(index)),
                    "netdev": read_text(port_path, "gid_attrs", "ndevs", str(index)),
                }
            )
        index += 1
    return table


def physical_netdev(name: str, root: str = NET) -> str:
    """Return the network device with the pause counters: the one below a VLAN, else the device itself."""
    while True:
        below = _below(name, root)
        if len(below) != 1:  # a port, or a bond of several
            return name
        name = below[0]


def ports_of(name: str, root: str = NET) -> List[str]:
    """Return a network device, the device below a VLAN, or all ports of a bond."""
    device = physical_netdev(name, root)
    return [physical_netdev(port, root) for port in _below(device, root)] or [device]


def _below(name: str, root: str) -> List[str]:
    return [entry[len("lower_") :] for entry in entries(root, name) if entry.startswith("lower_")]


def _state(port_path: str, name: str) -> Optional[str]:
    """Return the word of a state: ``ACTIVE`` for ``4: ACTIVE``."""
    text = read_text(port_path, name)
    return text.split(":", 1)[-1].strip() if text else None


def port_facts(port_path: str) -> Dict[str, Any]:
    """Return the facts of a port except its MTUs."""
    gids = _gids(port_path)
    netdev = next((entry["netdev"] for entry in gids if entry["netdev"]), None)
    return {
        "port": int(os.path.basename(port_path)),
        "state": _state(port_path, "state"),
        "physical_state": _state(port_path, "phys_state"),
        "link_layer": read_text(port_path, "link_layer"),
        "rate": read_text(port_path, "rate"),
        "lid": read_text(port_path, "lid"),
        "active_mtu": None,
        "max_mtu": None,
        "netdev": netdev,
        "netdev_mtu": read_int(NET, netdev, "mtu") if netdev else None,
        "netdev_speed_mbps": read_int(NET, netdev, "speed") if netdev else None,
        "netdev_driver": ethtool.driver(netdev) if netdev else None,
        "gids": gids,
    }


_SOFTWARE = ("rxe", "siw")


def driver_of(name: str, root: str = INFINIBAND) -> Optional[str]:
    """Return the kernel driver of an RDMA device."""
    driver = link_target(root, name, "device", "driver")
    if driver is not None:
        return driver
    # Software devices have no parent device.
    description = (read_text(root, name, "node_desc") or "").lower()
    return next((software for software in _SOFTWARE if name.startswith(software) or software in description), None)


def is_software(name: str) -> bool:
    """Whether an RDMA device runs on the host's CPU."""
    return driver_of(name) in _SOFTWARE


def device_facts(name: str, root: str = INFINIBAND) -> Dict[str, Any]:
    """Return the facts of an RDMA device except its limits."""
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
        "pci_address": link_target(path, "device"),
        "pci_speed": read_text(path, "device", "current_link_speed"),
        "pci_width": read_text(path, "device", "current_link_width"),
        "pci_max_speed": read_text(path, "device", "max_link_speed"),
        "pci_max_width": read_text(path, "device", "max_link_width"),
        "numa_node": numa_node if numa_node is not None and numa_node >= 0 else None,
        "ports": [port_facts(os.path.join(path, "ports", number)) for number in entries(path, "ports")],
        "limits": None,
        "open_error": None,
    }


def _add_limits(v: Verbs, device: Dict[str, Any]) -> None:
    try:
        context = v.Context(name=device["name"])
        attributes = context.query_device()
        mtus = {code: mtu for mtu, code in MTU_CODES.items()}
        device["limits"] = {name: getattr(attributes, name) for name in LIMITS}
        for port in device["ports"]:
            found = context.query_port(port["port"])
            port["active_mtu"] = mtus.get(found.active_mtu)
            port["max_mtu"] = mtus.get(found.max_mtu)
        context.close()
    except v.PyverbsError as error:
        device["open_error"] = str(error)


def gather(v: Optional[Verbs]) -> Dict[str, Any]:
    """Return the facts that ``hello`` reports. It opens every device, so it runs in an engine."""
    devices = [device_facts(name) for name in entries(INFINIBAND)]
    if v is not None:
        for device in devices:
            _add_limits(v, device)
    usable_cpus, nodes = os.sched_getaffinity(0), memory.numa_nodes()
    return {
        "protocol": PROTOCOL,
        "hostname": socket.gethostname(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "usable_cpus": len(usable_cpus),
        "numa_cpus": {node: len(memory.cpus_of(node) & usable_cpus) for node in nodes},
        "memory_bytes": memory.meminfo("MemTotal"),
        "memory_available_bytes": memory.meminfo("MemAvailable"),
        "numa_nodes": nodes,
        "devices": devices,
        "clock": time.monotonic(),
    }
