"""CPU time of the kernel threads that run a software device.

On Linux 6.12 rdma_rxe runs in an unbound workqueue (drivers/infiniband/sw/rxe/rxe_task.c, ``rxe_wq``), which /proc/stat
counts as ``system``. On 6.1 it runs in soft interrupts, which are counted as ``softirq`` except for the part that
``ksoftirqd`` takes over: an emulated machine counted a quarter of a CPU as ``softirq`` and three quarters as
``system``. Packets arrive in soft interrupts, or in threads with threaded NAPI.
"""

from __future__ import annotations

import os
from typing import Dict, Optional, Tuple

KTHREADD = 2


# "kworker/u4:3" belongs to pool 4, "napi/eth1-8194" polls a queue of eth1. "kworker/0:1" is left out, because it serves
# interrupts of CPU 0.
_FIELDS = {
    "kworker/u": "device_cpu_seconds",
    "napi/": "device_cpu_seconds",
    "ksoftirqd/": "softirq_thread_cpu_seconds",
}


class DeviceThreads:
    """The threads of this machine that can run a device. The time of an ended thread stays in the sum."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._fields: Dict[str, Optional[str]] = {}  # by pid
        self._seconds: Dict[Tuple[str, str, str], float] = {}  # by pid, start and field

    def cpu_seconds(self) -> Dict[str, float]:
        """Return their time since boot by field of a sample, empty if unknown.

        Threads that ended before the first call are missing.
        """
        path = os.path.join(self._proc, str(KTHREADD), "task", str(KTHREADD), "children")
        try:
            with open(path, encoding="ascii") as file:
                pids = file.read().split()
        except OSError:  # no CONFIG_PROC_CHILDREN, or hidepid
            return {}
        self._fields = {pid: self._fields[pid] if pid in self._fields else self._field(pid) for pid in pids}
        for pid, field in self._fields.items():
            if field and (stat := self._read(pid, "stat")):
                said = stat.rpartition(")")[2].split()  # from field 3 of proc(5)
                ticks, start = int(said[11]) + int(said[12]), said[19]
                self._seconds[pid, start, field] = ticks / os.sysconf("SC_CLK_TCK")
        sums = dict.fromkeys(_FIELDS.values(), 0.0)
        for (_pid, _start, field), seconds in self._seconds.items():
            sums[field] += seconds
        return {field: round(seconds, 3) for field, seconds in sums.items()}

    def _field(self, pid: str) -> Optional[str]:
        name = self._read(pid, "comm")
        return next((field for prefix, field in _FIELDS.items() if name.startswith(prefix)), None)

    def _read(self, *path: str) -> str:
        try:
            with open(os.path.join(self._proc, *path), encoding="ascii", errors="replace") as file:
                return file.read()
        except OSError:  # just ended
            return ""
