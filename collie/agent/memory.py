"""Memory for buffers, on a chosen NUMA node."""

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
from .kernel_files import entries, read_text

# Registered memory is pinned. A larger share of the available memory would starve the host.
USABLE_PART = 0.8

MPOL_DEFAULT, MPOL_BIND = 0, 2
MAP_HUGETLB = 0x40000  # missing in Python 3.9's mmap
NODES = "/sys/devices/system/node"
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}


def meminfo(field: str) -> Optional[int]:
    """Return a field of /proc/meminfo in bytes."""
    kilobytes = meminfo_number(field)
    return None if kilobytes is None else kilobytes * 1024


def meminfo_number(field: str) -> Optional[int]:
    """Return the number of a field of /proc/meminfo."""
    lines = (read_text("/proc/meminfo") or "").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(field + ":")), None)


def _require(total_bytes: int) -> None:
    available = meminfo("MemAvailable")
    if available is not None and total_bytes > available * USABLE_PART:
        message = f"buffers of {total_bytes} bytes do not fit: {available} bytes are available on this host"
        raise AgentFault("setup", "allocate", message, errno.ENOMEM)


def allocate(total_bytes: int, huge_pages: bool, processes: int = 1) -> mmap.mmap:
    """Map memory for buffers. ``processes`` engines do this at the same time.

    Raises:
        AgentFault: ``unsupported`` without huge pages, ``setup`` without enough memory.
    """
    if not huge_pages:
        _require(total_bytes * processes)
        return mmap.mmap(-1, total_bytes)
    page = meminfo("Hugepagesize") or 2 << 20
    needed = -(-total_bytes // page)
    if not meminfo_number("HugePages_Total"):
        command = f"echo {needed * processes} > /proc/sys/vm/nr_hugepages"
        raise AgentFault("unsupported", "allocate", f"this host reserves no huge pages: `{command}`")
    try:
        return mmap.mmap(-1, needed * page, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | MAP_HUGETLB)
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        # The kernel decides, as it reserves the pages here. A look before would count what other engines have taken.
        free = (meminfo_number("HugePages_Free") or 0) - (meminfo_number("HugePages_Rsvd") or 0)
        share = f" in each of {processes} processes" if processes > 1 else ""
        message = f"buffers of {total_bytes} bytes need {needed} huge pages{share}, and this host has {free} free"
        raise AgentFault("setup", "allocate", message, errno.ENOMEM) from error


def why_no_gpu() -> str:
    """Return why buffers cannot be in GPU memory."""
    found = glob.glob("/dev/dri/renderD*") + glob.glob("/dev/nvidia[0-9]*")
    if not found:
        return "GPU memory: this host has no GPU (neither /dev/dri/renderD* nor /dev/nvidia*)"
    try:
        importlib.import_module("pyverbs.mr").DmaBufMR  # noqa: B018 - a probe
    except (ImportError, AttributeError) as error:
        return f"GPU memory: pyverbs of this host cannot register a dmabuf ({error})"
    return f"GPU memory: there is a GPU ({found[0]}), but this agent does not register dmabufs yet"


def numa_nodes() -> List[int]:
    """Return the NUMA nodes, empty without NUMA."""
    return sorted(int(name[4:]) for name in entries(NODES) if name.startswith("node") and name[4:].isdigit())


def cpus_of(node: int, root: str = NODES) -> Set[int]:
    """Return the CPUs of a NUMA node, empty if unknown."""
    ranges = [part.split("-") for part in (read_text(root, f"node{node}", "cpulist") or "").split(",") if part]
    return {cpu for limits in ranges for cpu in range(int(limits[0]), int(limits[-1]) + 1)}


def run_on(node: Optional[int]) -> None:
    """Bind this process to those of its CPUs that are on a NUMA node, if the host has several nodes."""
    if node is None or len(numa_nodes()) < 2:
        return
    usable = cpus_of(node) & os.sched_getaffinity(0)
    if usable:
        os.sched_setaffinity(0, usable)


@contextmanager
def on_node(node: Optional[int]) -> Iterator[None]:
    """Place on a NUMA node all pages that are used for the first time inside the block."""
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
