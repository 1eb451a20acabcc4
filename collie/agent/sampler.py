"""Reads every counter of one device: hardware counters, port counters, its network device, the driver's statistics.

A source that is not there gives an empty object, a counter that cannot be read gives null: never 0.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional

from . import ethtool
from .netlink import RdmaNetlink

INFINIBAND = "/sys/class/infiniband"
NET = "/sys/class/net"

# A setting of the driver's cache that lies among the counters.
NOT_COUNTERS = frozenset({"lifespan"})

Values = Dict[str, Optional[int]]


class SysfsCounters:
    """The numeric files of one directory, kept open: reading at offset 0 has the kernel evaluate them anew."""

    def __init__(self, directory: str) -> None:
        self._files: Dict[str, int] = {}
        try:
            entries = sorted(os.listdir(directory))
        except OSError:
            entries = []
        for name in entries:
            path = os.path.join(directory, name)
            if name not in NOT_COUNTERS and os.path.isfile(path):
                try:
                    self._files[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except OSError:
                    continue

    def __bool__(self) -> bool:
        return bool(self._files)

    def read(self) -> Values:
        """Return every counter; null where the driver refuses or says something that is no number."""
        return {name: self._value(fd) for name, fd in self._files.items()}

    @staticmethod
    def _value(fd: int) -> Optional[int]:
        try:
            return int(os.pread(fd, 64, 0))
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Close the files."""
        for fd in self._files.values():
            os.close(fd)
        self._files = {}


class NetlinkCounters:
    """Hardware counters of a port by one question to the kernel instead of a file each."""

    def __init__(self, device: str, port: int) -> None:
        """Find the device.

        Raises:
            OSError: no RDMA netlink, no such device, or no counters.
        """
        self._netlink = RdmaNetlink()
        index = self._netlink.device_index(device)
        if index is None:
            raise OSError(f"no device {device}")
        self._index, self._port = index, port
        if not self.read():
            raise OSError(f"{device} has no counters")

    def read(self) -> Values:
        """Return every counter."""
        try:
            return dict(self._netlink.counters(self._index, self._port))
        except OSError:
            return {}

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()


class EthtoolCounters:
    """The driver's own statistics of a network device."""

    def __init__(self, netdev: str) -> None:
        self._netdev = netdev
        self._names = ethtool.names(netdev)

    def __bool__(self) -> bool:
        return bool(self._names)

    def read(self) -> Values:
        """Return every counter; names are asked for again when the driver's set has changed."""
        values = ethtool.statistics(self._netdev, self._names)
        if values is None:
            self._names = ethtool.names(self._netdev)
            values = ethtool.statistics(self._netdev, self._names)
        return dict(values or {})


class CounterReader:
    """All counter sources of one port, under the names of the protocol."""

    def __init__(self, device: str, port: int, netdev: Optional[str]) -> None:
        base = os.path.join(INFINIBAND, device, "ports", str(port))
        self.sources: Dict[str, Optional[str]] = {}
        self._reads: Dict[str, Callable[[], Values]] = {}
        self._closers: List[Callable[[], None]] = []
        self._hardware(device, port, base)
        self._add_sysfs("counters", os.path.join(base, "counters"))
        self._add_sysfs("netdev", os.path.join(NET, netdev, "statistics") if netdev else "")
        statistics = EthtoolCounters(netdev) if netdev else None
        self.sources["ethtool"] = "ioctl" if statistics else None
        if statistics:
            self._reads["ethtool"] = statistics.read

    def _hardware(self, device: str, port: int, base: str) -> None:
        try:
            counters = NetlinkCounters(device, port)
        except OSError:
            self._add_sysfs("hw_counters", os.path.join(base, "hw_counters"))
            return
        self.sources["hw_counters"] = "netlink"
        self._reads["hw_counters"] = counters.read
        self._closers.append(counters.close)

    def _add_sysfs(self, name: str, directory: str) -> None:
        files = SysfsCounters(directory)
        self.sources[name] = "sysfs" if files else None
        if files:
            self._reads[name] = files.read
            self._closers.append(files.close)

    def read(self) -> Dict[str, Values]:
        """Return every source's counters."""
        return {name: self._reads[name]() if name in self._reads else {} for name in self.sources}

    def close(self) -> None:
        """Close every file and socket."""
        for close in self._closers:
            close()


def received_packets(counters: Dict[str, Values]) -> Optional[int]:
    """Return how many RDMA packets the device has received, by the first counter that says so."""
    for source, name in (("hw_counters", "rcvd_pkts"), ("counters", "port_rcv_packets")):
        value = counters.get(source, {}).get(name)
        if value is not None:
            return value
    return None


def host_cpu(path: str = "/proc/stat") -> Dict[str, Any]:
    """Return the seconds that all CPUs together spent, by kind, since boot."""
    try:
        with open(path, encoding="ascii") as file:
            ticks = [int(value) for value in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return {}
    user, nice, system, idle, iowait, irq, softirq, steal = ticks
    hertz = os.sysconf("SC_CLK_TCK")
    seconds = {"user": user + nice, "system": system, "softirq": irq + softirq, "idle": idle + iowait, "steal": steal}
    return {name: round(value / hertz, 3) for name, value in seconds.items()}
