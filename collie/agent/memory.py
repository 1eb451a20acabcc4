"""Where a run's buffers lie: enough memory, and on the NUMA node asked for."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from contextlib import contextmanager
from typing import Iterator, List, Optional

from .faults import AgentFault

# Registered memory is pinned: beyond this part of what is available the host itself would start to starve.
USABLE_PART = 0.8

MPOL_DEFAULT, MPOL_BIND = 0, 2
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}


def meminfo(field: str) -> Optional[int]:
    """Return one line of /proc/meminfo in bytes, None where there is none."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def require(total_bytes: int) -> None:
    """Refuse buffers that the host has no room for, before its memory is exhausted by trying.

    Raises:
        AgentFault: ``setup`` with ENOMEM.
    """
    available = meminfo("MemAvailable")
    if available is not None and total_bytes > available * USABLE_PART:
        message = f"buffers of {total_bytes} bytes do not fit: {available} bytes are available on this host"
        raise AgentFault("setup", "allocate", message, errno.ENOMEM)


def numa_nodes() -> List[int]:
    """Return the numbers of the host's NUMA nodes; empty where the kernel has no notion of them."""
    try:
        names = os.listdir("/sys/devices/system/node")
    except OSError:
        return []
    return sorted(int(name[4:]) for name in names if name.startswith("node") and name[4:].isdigit())


@contextmanager
def on_node(node: Optional[int]) -> Iterator[None]:
    """Place the pages that are touched inside on NUMA node ``node``; without effect on hosts with one node."""
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
