"""Settings that decide a host's performance, from NIC, link and PCIe to flow and congestion control.

An unreadable setting is null. Only the PCIe capability, ACS and DCQCN from debugfs need root.
"""

from __future__ import annotations

import glob
import os
import platform
import re
from typing import Any, Dict, List, Optional, Tuple

from . import dcb, ethtool, pci
from .kernel_files import below, entries, link_target, read_bytes, read_int, read_text
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


def take(device: str, port: int, driver: Optional[str], netdev: Optional[str], root: str = "/") -> Dict[str, Fields]:
    """Return the fingerprint of a host and a port, by category and field."""
    base = f"/sys/class/infiniband/{device}"
    return {
        "nic": _nic(root, base, driver),
        "link": _link(root, f"{base}/ports/{port}", netdev),
        "pcie": _pcie(root, f"{base}/device"),
        "iommu": {"mode": _iommu(root, f"{base}/device")},
        "numa": _numa(root, f"{base}/device"),
        "memory": _memory(root),
        "cpu": _cpu(root),
        "software": _software(root),
        "platform": {
            "product": read_text(root, "/sys/class/dmi/id/product_name"),
            "bios": read_text(root, "/sys/class/dmi/id/bios_version"),
        },
        "flow_control": dcb.parse(dcb.ask(netdev) if netdev else None),
        "congestion_control": _congestion_control(root, base, port, netdev),
    }


def _nic(root: str, base: str, driver: Optional[str]) -> Fields:
    ids = [
        read_text(root, f"{base}/device/{name}")
        for name in ("vendor", "device", "subsystem_vendor", "subsystem_device")
    ]
    module = link_target(root, f"{base}/device/driver/module") or MODULES.get(driver or "", driver)
    return {
        "model": " ".join(part for part in ids if part) or None,
        "type": read_text(root, f"{base}/hca_type"),
        "firmware": read_text(root, f"{base}/fw_ver") or None,
        "psid": read_text(root, f"{base}/board_id") or None,
        "driver": driver,
        "driver_version": read_text(root, f"/sys/module/{module}/version")
        or read_text(root, f"/sys/module/{module}/srcversion"),
    }


def _link(root: str, port: str, netdev: Optional[str]) -> Fields:
    net = f"/sys/class/net/{netdev}"
    speed = read_int(root, f"{net}/speed") if netdev else None
    return {
        "layer": read_text(root, f"{port}/link_layer"),
        "rate": read_text(root, f"{port}/rate"),
        "netdev": netdev,
        "netdev_driver": ethtool.driver(netdev) if netdev else None,
        "netdev_mtu": read_int(root, f"{net}/mtu") if netdev else None,
        "netdev_speed_mbps": speed if speed is not None and speed >= 0 else None,
        "features": ethtool.features(netdev) if netdev else None,
        "global_pause": ethtool.pause(netdev) if netdev else None,
    }


def _pcie(root: str, device: str) -> Fields:
    address = link_target(root, device)
    is_pci = address is not None and PCI_ADDRESS.match(address) is not None
    own = read_bytes(root, f"{device}/config") if is_pci else None
    bridges = _bridges(root, device) if is_pci else []
    configs = [config for path in bridges if (config := read_bytes(root, path)) is not None]
    return {
        "address": address if is_pci else None,
        "generation": _generation(read_text(root, f"{device}/current_link_speed")),
        "width": read_int(root, f"{device}/current_link_width"),
        "max_generation": _generation(read_text(root, f"{device}/max_link_speed")),
        "max_width": read_int(root, f"{device}/max_link_width"),
        **pci.settings(own or b""),
        "acs": pci.access_control(configs) if configs and len(configs) == len(bridges) else None,
    }


def _bridges(root: str, device: str) -> List[str]:
    """Return the configuration spaces of the bridges above a device, root first."""
    root = os.path.realpath(root)
    path = os.path.realpath(below(root, device))
    steps = [] if path == root else os.path.relpath(path, root).split(os.sep)
    above = [index for index, step in enumerate(steps[:-1]) if PCI_ADDRESS.match(step)]
    return [os.path.join("/", *steps[: index + 1], "config") for index in above]


def _generation(speed: Optional[str]) -> Optional[int]:
    """Return the PCIe generation of a speed: 4 for ``16.0 GT/s PCIe``."""
    return GENERATIONS.get(speed.split()[0]) if speed else None


def _iommu(root: str, device: str) -> Optional[str]:
    """Return the type of the IOMMU domain: ``none`` without an IOMMU, None for a device that is on no bus."""
    if not entries(root, device):
        return None
    if not entries(root, f"{device}/iommu_group"):
        return "none"
    return read_text(root, f"{device}/iommu_group/type")


def _numa(root: str, device: str) -> Fields:
    node = read_int(root, f"{device}/numa_node")
    nodes = [name for name in entries(root, "/sys/devices/system/node") if re.match(r"node\d+$", name)]
    return {
        "nic_node": node if node is not None and node >= 0 else None,
        "nodes": len(nodes) or None,
        "balancing": read_int(root, "/proc/sys/kernel/numa_balancing"),
    }


def _memory(root: str) -> Fields:
    total = re.search(r"MemTotal:\s+(\d+) kB", read_text(root, "/proc/meminfo") or "")
    pages = "/sys/kernel/mm/hugepages"
    counts = {name: read_int(root, f"{pages}/{name}/nr_hugepages") for name in entries(root, pages)}
    chosen = re.search(r"\[(\w+)\]", read_text(root, "/sys/kernel/mm/transparent_hugepage/enabled") or "")
    return {
        "total_bytes": int(total[1]) * 1024 if total else None,
        "huge_pages": [f"{name[len('hugepages-') :]}:{count}" for name, count in counts.items()] or None,
        "transparent_huge_pages": chosen[1] if chosen else None,
    }


def _cpu(root: str) -> Fields:
    info = read_text(root, "/proc/cpuinfo") or ""
    model = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", info, re.M)
    microcode = re.search(r"^microcode\s*:\s*(\S+)$", info, re.M)
    no_turbo = read_int(root, "/sys/devices/system/cpu/intel_pstate/no_turbo")
    return {
        "model": model[1] if model else None,
        "count": len(re.findall(r"^processor\s*:", info, re.M)) or None,
        "microcode": microcode[1] if microcode else None,
        "governor": _values(root, "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") or None,
        "frequency_driver": _values(root, "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_driver") or None,
        "boost": read_int(root, "/sys/devices/system/cpu/cpufreq/boost") if no_turbo is None else 1 - no_turbo,
        "smt": read_text(root, "/sys/devices/system/cpu/smt/control"),
        "idle_driver": read_text(root, "/sys/devices/system/cpu/cpuidle/current_driver"),
    }


def _values(root: str, pattern: str) -> List[str]:
    found = {read_text(path) for path in glob.glob(below(root, pattern))}
    return sorted(value for value in found if value is not None)


def _software(root: str) -> Fields:
    options = (read_text(root, "/proc/cmdline") or "").split()
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "kernel_options": sorted(word for word in options if KERNEL_OPTIONS.match(word)),
        "rdma_core": rdma_core(root),
        "pyverbs": version(),
        "python": platform.python_version(),
    }


def rdma_core(root: str) -> Optional[str]:
    """Return the version in the file name of the loaded or installed libibverbs."""
    loaded = re.search(r"\S*libibverbs\.so\S*", read_text(root, "/proc/self/maps") or "")
    paths = [below(root, loaded[0])] if loaded else []
    for folder in ("/usr/lib", "/usr/lib64", "/usr/lib/*", "/usr/local/lib"):
        paths += glob.glob(below(root, f"{folder}/libibverbs.so.1"))
    found = (RDMA_CORE.search(os.path.realpath(path)) for path in paths)
    return next((match[1] for match in found if match), None)


def _congestion_control(root: str, base: str, port: int, netdev: Optional[str]) -> Fields:
    """Return the DCQCN settings of mlx5, from the vendor driver's sysfs or from debugfs."""
    address = link_target(root, f"{base}/device")
    folders = {
        "sysfs": [f"/sys/class/net/{netdev}/ecn/{side}" for side in ("roce_np", "roce_rp")] if netdev else [],
        "debugfs": [f"/sys/kernel/debug/mlx5/{address}/cc_params"] if address else [],
    }
    result: Fields = {"traffic_class": read_text(root, f"{base}/tc/{port}/traffic_class"), "source": None}
    for source, paths in folders.items():
        found = dict(pair for path in paths for pair in _parameters(root, path))
        if found:
            return {**result, "source": source, **found}
    return result


def _parameters(root: str, folder: str) -> List[Tuple[str, Optional[str]]]:
    """Return name and value of every file, two levels deep."""
    found: List[Tuple[str, Optional[str]]] = []
    prefix = os.path.basename(folder)
    for name in entries(root, folder):
        inner = entries(root, f"{folder}/{name}")
        files = [f"{name}/{entry}" for entry in inner] if inner else [name]
        found += [(f"{prefix}/{file}".replace("/", "_"), read_text(root, f"{folder}/{file}")) for file in files]
    return found
