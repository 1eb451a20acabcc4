"""CPU time of the kernel threads that run a software device.

On Linux 6.12 rdma_rxe runs in an unbound workqueue (drivers/infiniband/sw/rxe/rxe_task.c), which /proc/stat counts as
``system``. On 6.1 it runs in soft interrupts, counted as ``softirq``, or as ``system`` where ``ksoftirqd`` takes over.
Packets arrive in soft interrupts, or in threads with threaded NAPI.
"""

from __future__ import annotations

import os
from typing import Dict, Optional, Tuple

from .kernel_files import read_text

KTHREADD = "2"


# "kworker/u4:3" belongs to pool 4, "napi/eth1-8194" polls a queue of eth1. "kworker/0:1" is left out, because it serves
# interrupts of CPU 0.
_FIELDS = {
    "kworker/u": "device_cpu_seconds",
    "napi/": "device_cpu_seconds",
    "ksoftirqd/": "softirq_thread_cpu_seconds",
}


class DeviceThreads:
    """Kernel threads that can run a software device. The sums of CPU time include threads that have ended."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._fields: Dict[str, Optional[str]] = {}  # by pid
        self._seconds: Dict[Tuple[str, str, str], float] = {}  # by pid, start and field

    def cpu_seconds(self) -> Dict[str, float]:
        """Return the CPU seconds of the threads since boot, by field of a sample. Empty if unknown."""
        children = read_text(self._proc, KTHREADD, "task", KTHREADD, "children")
        if children is None:  # no CONFIG_PROC_CHILDREN, or hidepid
            return {}
        self._fields = {pid: self._fields[pid] if pid in self._fields else self._field(pid) for pid in children.split()}
        for pid, field in self._fields.items():
            if field and (stat := read_text(self._proc, pid, "stat")):
                after_name = stat.rpartition(")")[2].split()  # from field 3 of proc(5)
                ticks, start = int(after_name[11]) + int(after_name[12]), after_name[19]
                self._seconds[pid, start, field] = ticks / os.sysconf("SC_CLK_TCK")
        sums = dict.fromkeys(_FIELDS.values(), 0.0)
        for (_pid, _start, field), seconds in self._seconds.items():
            sums[field] += seconds
        return {field: round(seconds, 3) for field, seconds in sums.items()}

    def _field(self, pid: str) -> Optional[str]:
        name = read_text(self._proc, pid, "comm") or ""
        return next((field for prefix, field in _FIELDS.items() if name.startswith(prefix)), None)
