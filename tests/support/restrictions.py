"""Restrictions of a space for tests."""

from __future__ import annotations

from typing import Any

from collie.hosts.host_info import DataPathInfo, DeviceInfo, HostInfo, PortInfo, RdmaPort
from collie.inventory.hosts import Host
from collie.workloads.pruning import Restriction


def most(name: str, value: int) -> Restriction:
    return Restriction(name, f"max of {name}", at_most=value)


def host(name: str, *, max_qp: int = 16_000, mtu: int = 4096, nodes: tuple[int, ...] = (), driver: str = "rxe") -> Any:
    ports = (PortInfo(1, "ACTIVE", mtu, None, "eth1", ()),)
    device = DeviceInfo("dev0", driver, None, None, ports, {"max_qp": max_qp, "max_qp_wr": 1024})
    paths = {name: DataPathInfo(True, "", name) for name in ("native", "pyverbs")}
    info = HostInfo("6.1", "3.11", paths, nodes, (device,), 1 << 30)
    port = RdmaPort("dev0", driver, 1, "eth1", 1, None, "", nodes)
    return Host(name, f"mgmt-{name}", "192.0.2.1", "dev0"), info, port
