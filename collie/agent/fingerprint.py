"""Settings that decide a host's performance, from NIC, link and PCIe to flow and congestion control.

An unreadable setting is null. Only the PCIe capability, ACS and DCQCN from debugfs need root. Nothing is changed.
"""

from __future__ import annotations

import glob
import os
import platform
import re
from typing import Any, Callable, Dict, List, Optional

from . import dcb, ethtool, pci
from .verbs import version

Fields = Dict[str, Any]

GENERATIONS = {"2.5": 1, "5": 2, "5.0": 2, "8": 3, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
KERNEL_OPTIONS = re.compile(
    r"^(iommu|intel_iommu|amd_iommu|arm-smmu|pci|pcie_aspm|hugepages|hugepagesz|default_hugepagesz|isolcpus|nohz_full|"
    r"mitigations|processor\.max_cstate|intel_idle\.max_cstate|idle|numa_balancing|transparent_hugepage|nosmt)\b"
)
PCI_ADDRESS = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
RDMA_CORE = re.compile(r"libibverbs\.so\.\d+\.\d+\.(\d+(?:\.\d+)?)$")
MODULES = {"rxe": "rdma_rxe"}


class Tree:
    """Files of a host below a root directory. Tests use another root."""

    def __init__(self, root: str = "/") -> None:
        self._root = root

    def path(self, path: str) -> str:
        """Return the path of a file below the root."""
        return os.path.join(self._root, path.lstrip("/"))

    def text(self, path: str) -> Optional[str]:
        """Return a small file without its newline, or None."""
        data = self.data(path)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def number(self, path: str) -> Optional[int]:
        """Return a small file as a number, or None."""
        try:
            return int(self.text(path) or "")
        except ValueError:
            return None

    def data(self, path: str) -> Optional[bytes]:
        """Return the bytes of a file, or None."""
        try:
            with open(self.path(path), "rb") as file:
                return file.read()
        except OSError:
            return None

    def names(self, path: str) -> List[str]:
        """Return the sorted entries of a directory."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def target(self, path: str) -> Optional[str]:
        """Return the last component of a link's target, or None."""
        try:
            return os.path.basename(os.readlink(self.path(path)))
        except OSError:
            return None

    def values(self, pattern: str) -> List[str]:
        """Return the sorted, distinct contents of the files that match a pattern."""
        root = self.path("").rstrip("/")
        found = {self.text(path[len(root) :]) for path in glob.glob(self.path(pattern))}
        return sorted(value for value in found if value is not None)


def take(device: str, port: int, driver: Optional[str], netdev: Optional[str], tree: Optional[Tree] = None) -> Fields:
    """Return the fingerprint of a host and of a device's port, by category and field."""
    tree = tree or Tree()
    base = f"/sys/class/infiniband/{device}"
    parts: Dict[str, Callable[[], Fields]] = {
        "nic": lambda: _nic(tree, base, driver),
        "link": lambda: _link(tree, f"{base}/ports/{port}", netdev),
        "pcie": lambda: _pcie(tree, f"{base}/device"),
        "iommu": lambda: {"mode": _iommu(tree, f"{base}/device")},
        "numa": lambda: _numa(tree, f"{base}/device"),
        "memory": lambda: _memory(tree),
        "cpu": lambda: _cpu(tree),
        "software": lambda: _software(tree),
        "platform": lambda: {
            "product": tree.text("/sys/class/dmi/id/product_name"),
            "bios": tree.text("/sys/class/dmi/id/bios_version"),
        },
        "flow_control": lambda: dcb.settings(netdev) if netdev else dcb.parse(None),
        "congestion_control": lambda: _congestion_control(tree, base, port, netdev),
    }
    return {name: read() for name, read in parts.items()}


def _nic(tree: Tree, base: str, driver: Optional[str]) -> Fields:
    ids = [tree.text(f"{base}/device/{name}") for name in ("vendor", "device", "subsystem_vendor", "subsystem_device")]
    module = tree.target(f"{base}/device/driver/module") or MODULES.get(driver or "", driver)
    return {
        "model": " ".join(part for part in ids if part) or None,
        "type": tree.text(f"{base}/hca_type"),
        "firmware": tree.text(f"{base}/fw_ver") or None,
        "psid": tree.text(f"{base}/board_id") or None,
        "driver": driver,
        "driver_version": tree.text(f"/sys/module/{module}/version") or tree.text(f"/sys/module/{module}/srcversion"),
    }


def _link(tree: Tree, port: str, netdev: Optional[str]) -> Fields:
    net = f"/sys/class/net/{netdev}"
    speed = tree.number(f"{net}/speed") if netdev else None
    return {
        "layer": tree.text(f"{port}/link_layer"),
        "rate": tree.text(f"{port}/rate"),
        "netdev": netdev,
        "netdev_driver": ethtool.driver(netdev) if netdev else None,
        "netdev_mtu": tree.number(f"{net}/mtu") if netdev else None,
        "netdev_speed_mbps": speed if speed is not None and speed >= 0 else None,
        "features": ethtool.features(netdev) if netdev else None,
        "global_pause": ethtool.pause(netdev) if netdev else None,
    }


def _pcie(tree: Tree, device: str) -> Fields:
    address = tree.target(device)
    is_pci = address is not None and PCI_ADDRESS.match(address) is not None
    own = tree.data(f"{device}/config") if is_pci else None
    bridges = _bridges(tree, device) if is_pci else []
    configs = [config for path in bridges if (config := tree.data(path)) is not None]
    return {
        "address": address if is_pci else None,
        "generation": _generation(tree.text(f"{device}/current_link_speed")),
        "width": tree.number(f"{device}/current_link_width"),
        "max_generation": _generation(tree.text(f"{device}/max_link_speed")),
        "max_width": tree.number(f"{device}/max_link_width"),
        **pci.settings(own or b""),
        "acs": pci.access_control(configs) if configs and len(configs) == len(bridges) else None,
    }


def _bridges(tree: Tree, device: str) -> List[str]:
    """Return the configuration spaces above a device, root first."""
    root = os.path.realpath(tree.path("/"))
    path = os.path.realpath(tree.path(device))
    steps = [] if path == root else os.path.relpath(path, root).split(os.sep)
    above = [index for index, step in enumerate(steps[:-1]) if PCI_ADDRESS.match(step)]
    return [os.path.join("/", *steps[: index + 1], "config") for index in above]


def _generation(speed: Optional[str]) -> Optional[int]:
    """Return 4 for ``16.0 GT/s PCIe``."""
    return GENERATIONS.get(speed.split()[0]) if speed else None


def _iommu(tree: Tree, device: str) -> Optional[str]:
    """Return the domain type of a device, ``none`` without an IOMMU, None without a device on a bus."""
    if not tree.names(device):
        return None
    if not tree.names(f"{device}/iommu_group"):
        return "none"
    return tree.text(f"{device}/iommu_group/type")


def _numa(tree: Tree, device: str) -> Fields:
    node = tree.number(f"{device}/numa_node")
    nodes = [name for name in tree.names("/sys/devices/system/node") if re.match(r"node\d+$", name)]
    return {
        "nic_node": node if node is not None and node >= 0 else None,
        "nodes": len(nodes) or None,
        "balancing": tree.number("/proc/sys/kernel/numa_balancing"),
    }


def _memory(tree: Tree) -> Fields:
    total = re.search(r"MemTotal:\s+(\d+) kB", tree.text("/proc/meminfo") or "")
    pages = "/sys/kernel/mm/hugepages"
    counts = {name: tree.number(f"{pages}/{name}/nr_hugepages") for name in tree.names(pages)}
    chosen = re.search(r"\[(\w+)\]", tree.text("/sys/kernel/mm/transparent_hugepage/enabled") or "")
    return {
        "total_bytes": int(total[1]) * 1024 if total else None,
        "huge_pages": [f"{name[len('hugepages-') :]}:{count}" for name, count in counts.items()] or None,
        "transparent_huge_pages": chosen[1] if chosen else None,
    }


def _cpu(tree: Tree) -> Fields:
    info = tree.text("/proc/cpuinfo") or ""
    model = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", info, re.M)
    microcode = re.search(r"^microcode\s*:\s*(\S+)$", info, re.M)
    no_turbo, boost = (
        tree.number("/sys/devices/system/cpu/intel_pstate/no_turbo"),
        tree.number("/sys/devices/system/cpu/cpufreq/boost"),
    )
    return {
        "model": model[1] if model else None,
        "count": len(re.findall(r"^processor\s*:", info, re.M)) or None,
        "microcode": microcode[1] if microcode else None,
        "governor": tree.values("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") or None,
        "frequency_driver": tree.values("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_driver") or None,
        "boost": boost if no_turbo is None else 1 - no_turbo,
        "smt": tree.text("/sys/devices/system/cpu/smt/control"),
        "idle_driver": tree.text("/sys/devices/system/cpu/cpuidle/current_driver"),
    }


def _software(tree: Tree) -> Fields:
    options = (tree.text("/proc/cmdline") or "").split()
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "kernel_options": sorted(word for word in options if KERNEL_OPTIONS.match(word)),
        "rdma_core": rdma_core(tree),
        "pyverbs": version(),
        "python": platform.python_version(),
    }


def rdma_core(tree: Tree) -> Optional[str]:
    """Return the version of rdma-core, from the file name of the loaded or installed libibverbs."""
    loaded = re.search(r"\S*libibverbs\.so\S*", tree.text("/proc/self/maps") or "")
    installed = [
        path
        for folder in ("/usr/lib", "/usr/lib64", "/usr/lib/*", "/usr/local/lib")
        for path in glob.glob(tree.path(f"{folder}/libibverbs.so.1"))
    ]
    for path in [*([tree.path(loaded[0])] if loaded else []), *installed]:
        found = RDMA_CORE.search(os.path.realpath(path))
        if found:
            return found[1]
    return None


def _congestion_control(tree: Tree, base: str, port: int, netdev: Optional[str]) -> Fields:
    """Return the DCQCN of mlx5, from the vendor driver's sysfs or from debugfs (root only)."""
    address = tree.target(f"{base}/device")
    folders = {
        "sysfs": [f"/sys/class/net/{netdev}/ecn/{side}" for side in ("roce_np", "roce_rp")] if netdev else [],
        "debugfs": [f"/sys/kernel/debug/mlx5/{address}/cc_params"] if address else [],
    }
    result: Fields = {"traffic_class": tree.text(f"{base}/tc/{port}/traffic_class"), "source": None}
    for source, paths in folders.items():
        found = {name: value for path in paths for name, value in _parameters(tree, path)}
        if found:
            return {**result, "source": source, **found}
    return result


def _parameters(tree: Tree, folder: str) -> List[Any]:
    """Return name and value of every file in a folder, two levels deep."""
    found: List[Any] = []
    prefix = os.path.basename(folder)
    for name in tree.names(folder):
        inner = tree.names(f"{folder}/{name}")
        files = [f"{name}/{entry}" for entry in inner] if inner else [name]
        found += [(f"{prefix}/{file}".replace("/", "_"), tree.text(f"{folder}/{file}")) for file in files]
    return found
