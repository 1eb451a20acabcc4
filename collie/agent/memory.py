"""Memory for the buffers of a run, on a chosen NUMA node."""

from __future__ import annotations

import ctypes
import errno
import glob
import importlib
import mmap
import os
import platform
from contextlib import contextmanager
from typing import Iterator, List, Optional, Set

from .faults import AgentFault

# Registered memory is pinned. A larger share of the available memory would starve the host.
USABLE_PART = 0.8

MPOL_DEFAULT, MPOL_BIND = 0, 2
MAP_HUGETLB = 0x40000  # not in mmap of Python 3.9
NODES = "/sys/devices/system/node"
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}


def meminfo(field: str) -> Optional[int]:
    """Return a field of /proc/meminfo in bytes, or None."""
    kilobytes = meminfo_number(field)
    return None if kilobytes is None else kilobytes * 1024


def meminfo_number(field: str) -> Optional[int]:
    """Return the number of a field of /proc/meminfo, or None."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
    except OSError:
        pass
    return None


def require(total_bytes: int) -> None:
    """Refuse buffers that do not fit the available memory.

    Raises:
        AgentFault: ``setup`` with ENOMEM.
    """
    available = meminfo("MemAvailable")
    if available is not None and total_bytes > available * USABLE_PART:
        message = f"buffers of {total_bytes} bytes do not fit: {available} bytes are available on this host"
        raise AgentFault("setup", "allocate", message, errno.ENOMEM)


def allocate(total_bytes: int, huge_pages: bool, processes: int = 1) -> mmap.mmap:
    """Map memory for buffers, which ``processes`` engines do at the same time.

    Raises:
        AgentFault: ``unsupported`` if the host reserves no huge pages, ``setup`` if memory is short.
    """
    if not huge_pages:
        require(total_bytes * processes)
        return mmap.mmap(-1, total_bytes)
    page = meminfo("Hugepagesize") or 2 << 20
    needed = -(-total_bytes // page)
    if not meminfo_number("HugePages_Total"):
        command = f"echo {needed} > /proc/sys/vm/nr_hugepages"
        raise AgentFault("unsupported", "allocate", f"this host reserves no huge pages: `{command}`")
    free = meminfo_number("HugePages_Free") or 0
    if free < needed:
        message = f"buffers of {total_bytes} bytes need {needed} huge pages, and this host has {free} free"
        raise AgentFault("setup", "allocate", message, errno.ENOMEM)
    return mmap.mmap(-1, needed * page, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | MAP_HUGETLB)


def why_no_gpu() -> str:
    """Return the reason that buffers cannot be in GPU memory."""
    found = glob.glob("/dev/dri/renderD*") + glob.glob("/dev/nvidia[0-9]*")
    if not found:
        return "GPU memory: this host has no GPU (neither /dev/dri/renderD* nor /dev/nvidia*)"
    try:
        importlib.import_module("pyverbs.mr").DmaBufMR  # noqa: B018 - a probe
    except (ImportError, AttributeError) as error:
        return f"GPU memory: pyverbs of this host cannot register a dmabuf ({error})"
    return f"GPU memory: there is a GPU ({found[0]}), but this agent does not register dmabufs yet"


def numa_nodes() -> List[int]:
    """Return the numbers of the NUMA nodes, empty without NUMA."""
    try:
        names = os.listdir(NODES)
    except OSError:
        return []
    return sorted(int(name[4:]) for name in names if name.startswith("node") and name[4:].isdigit())


def cpus_of(node: int, root: str = NODES) -> Set[int]:
    """Return the CPUs of a NUMA node, empty if unknown."""
    try:
        with open(f"{root}/node{node}/cpulist", encoding="ascii") as file:
            ranges = [part.split("-") for part in file.read().strip().split(",") if part]
    except OSError:
        return set()
    return {cpu for limits in ranges for cpu in range(int(limits[0]), int(limits[-1]) + 1)}


def run_on(node: Optional[int]) -> None:
    """Bind this process and its later threads to the CPUs of a NUMA node.

    No effect on hosts with one node, or if no CPU of the node is permitted.
    """
    if node is None or len(numa_nodes()) < 2:
        return
    usable = cpus_of(node) & os.sched_getaffinity(0)
    if usable:
        os.sched_setaffinity(0, usable)


@contextmanager
def on_node(node: Optional[int]) -> Iterator[None]:
    """Place pages first touched inside on NUMA node ``node``. No effect on hosts with one node."""
    nodes = numa_nodes()
    if node is None or len(nodes) < 2:
        yield
        return
    if node not in nodes:
        raise AgentFault("unsupported", "numa", f"NUMA node {node} is not one of {nodes}")
    _set_policy(MPOL_BIND, 1 << node)
    try:
        yield
    finally:
        _set_policy(MPOL_DEFAULT, 0)


def _set_policy(mode: int, mask: int) -> None:
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None:
        raise AgentFault("unsupported", "numa", f"no memory policy on {platform.machine()}")
    bits = ctypes.c_ulong(mask)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, mode, ctypes.byref(bits) if mask else None, 8 * ctypes.sizeof(bits) if mask else 0):
        code = ctypes.get_errno()
        raise AgentFault("setup", "numa", f"set_mempolicy: {os.strerror(code)}", code)
