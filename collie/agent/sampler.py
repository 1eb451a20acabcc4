"""Reads every counter of one device.

A missing source becomes an empty object. An unreadable counter becomes null, never 0. Only ``devlink`` needs root.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Callable, Dict, Optional, Union

from . import ethtool
from .devlink import ReporterCounters, devlink_handle
from .facts import INFINIBAND, NET, ports_of
from .kernel_files import entries
from .netlink import RdmaNetlink

# A setting of the driver's cache, which sysfs lists among the counters.
NOT_COUNTERS = frozenset({"lifespan"})
# Reading this counter makes mlx5 fetch all counters and cache them for 10 ms. Any other counter is fetched alone.
REFRESHES_ALL = "rx_write_requests"
VNIC_REPORTER = "vnic"

Values = Dict[str, Optional[int]]


class SysfsCounters:
    """Numeric files of a directory, kept open."""

    def __init__(self, directory: str) -> None:
        self._files: Dict[str, int] = {}
        for name in sorted(entries(directory), key=lambda name: name != REFRESHES_ALL):
            path = os.path.join(directory, name)
            if name not in NOT_COUNTERS and os.path.isfile(path):
                try:
                    self._files[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except OSError:
                    continue

    def __bool__(self) -> bool:
        return bool(self._files)

    def read(self) -> Values:
        """Return every counter, None if its file holds no number."""
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
    """Hardware counters of a port in one netlink request."""

    def __init__(self, device: str, port: int) -> None:
        """Find the device. Raises OSError without RDMA netlink, device or counters."""
        self._netlink = RdmaNetlink()
        index = self._netlink.device_index(device)
        if index is None:
            raise OSError(f"no device {device}")
        self._index, self._port = index, port
        if not self.read():
            raise OSError(f"{device} has no counters")

    def read(self) -> Values:
        """Return every counter. Raises OSError EMSGSIZE if the counters exceed one message."""
        try:
            return dict(self._netlink.counters(self._index, self._port))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                raise
            return {}

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()


class HardwareCounters:
    """Hardware counters of a port, by RDMA netlink or else from sysfs."""

    def __init__(
        self,
        device: str,
        port: int,
        directory: str,
        by_netlink: Callable[[str, int], NetlinkCounters] = NetlinkCounters,
    ) -> None:
        self._directory = directory
        self._reader: Union[NetlinkCounters, SysfsCounters]
        try:
            self._reader = by_netlink(device, port)
            self.way: Optional[str] = "netlink"
        except OSError:
            self._reader = SysfsCounters(directory)
            self.way = "sysfs" if self._reader else None

    def read(self) -> Values:
        """Return every counter."""
        try:
            return self._reader.read()
        except OSError:  # root has enabled more counters than one message holds
            self._reader.close()
            self._reader = SysfsCounters(self._directory)
            return self._reader.read()

    def close(self) -> None:
        """Close files or socket."""
        self._reader.close()


class EthtoolCounters:
    """Driver statistics of a network device, summed over the ports of a bond."""

    def __init__(self, netdev: str, root: str = NET) -> None:
        self._ports = ports_of(netdev, root)

    def __bool__(self) -> bool:
        return any(ethtool.names(port) for port in self._ports)

    def read(self) -> Values:
        """Return every counter, or none if a port does not answer, because a sum over fewer ports would be smaller.

        The names are read each time, because mlx5 renames counters when the PFC priority changes.
        """
        sums: Dict[str, Optional[int]] = {}
        for port in self._ports:
            found = ethtool.statistics(port, ethtool.names(port))
            if not found:
                return {}
            sums.update({name: (sums.get(name) or 0) + value for name, value in found.items()})
        return sums

    def close(self) -> None:
        """Do nothing: no descriptor stays open."""


Source = Union[HardwareCounters, SysfsCounters, EthtoolCounters, ReporterCounters]


class CounterReader:
    """All counter sources of a port."""

    def __init__(self, device: str, port: int, netdev: Optional[str]) -> None:
        base = os.path.join(INFINIBAND, device, "ports", str(port))
        self.sources: Dict[str, Optional[str]] = {}
        self._open: Dict[str, Optional[Source]] = {}
        hardware = HardwareCounters(device, port, os.path.join(base, "hw_counters"))
        self._add("hw_counters", hardware, hardware.way)
        self._add("device_hw_counters", SysfsCounters(os.path.join(INFINIBAND, device, "hw_counters")), "sysfs")
        self._add("counters", SysfsCounters(os.path.join(base, "counters")), "sysfs")
        self._add("netdev", SysfsCounters(os.path.join(NET, netdev, "statistics")) if netdev else None, "sysfs")
        self._add("ethtool", EthtoolCounters(netdev) if netdev else None, "ioctl")
        self._add("devlink", _vnic_reporter(os.path.join(INFINIBAND, device)), "netlink")

    def _add(self, name: str, source: Optional[Source], way: Optional[str]) -> None:
        """Add a source. One without counters stays empty."""
        self._open[name] = source or None
        self.sources[name] = None if self._open[name] is None else way

    def read(self) -> Dict[str, Values]:
        """Return the counters of every source."""
        return {name: {} if source is None else source.read() for name, source in self._open.items()}

    def close(self) -> None:
        """Close every source."""
        for source in self._open.values():
            if source is not None:
                source.close()


def _vnic_reporter(device_path: str) -> Optional[ReporterCounters]:
    handle = devlink_handle(device_path)
    try:
        return ReporterCounters(*handle, VNIC_REPORTER) if handle else None
    except OSError:
        return None


def received_packets(counters: Dict[str, Values]) -> Optional[int]:
    """Return the received RDMA packets."""
    of_software = counters.get("hw_counters", {}).get("rcvd_pkts")
    return counters.get("counters", {}).get("port_rcv_packets") if of_software is None else of_software


def host_cpu(path: str = "/proc/stat") -> Dict[str, Any]:
    """Return the seconds of all CPUs since boot, by kind."""
    try:
        with open(path, encoding="ascii") as file:
            ticks = [int(value) for value in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return {}
    user, nice, system, idle, iowait, irq, softirq, steal = ticks
    hertz = os.sysconf("SC_CLK_TCK")
    seconds = {"user": user + nice, "system": system, "softirq": irq + softirq, "idle": idle + iowait, "steal": steal}
    return {name: round(value / hertz, 3) for name, value in seconds.items()}


def waited(pid: int, proc: str = "/proc") -> Optional[float]:
    """Return the seconds that a process's threads waited for a CPU, None if unknown."""
    tasks = os.path.join(proc, str(pid), "task")
    waits = []
    try:
        for task in os.listdir(tasks):
            # "RUNNING_NS WAITING_NS TIMES_RUN"
            with open(os.path.join(tasks, task, "schedstat"), encoding="ascii") as file:
                waits.append(int(file.read().split()[1]))
    except (OSError, IndexError, ValueError):  # no schedstat, or a thread has just ended
        return None
    return sum(waits) / 1e9
