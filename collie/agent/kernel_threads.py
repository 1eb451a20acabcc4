"""CPU time of the kernel's threads in which a software device does what a NIC would do.

On Linux 6.12 rdma_rxe works in an unbound workqueue (drivers/infiniband/sw/rxe/rxe_task.c, ``rxe_wq``), whose time
/proc/stat counts as ``system``, like that of any process. On 6.1 it works in soft interrupts, which are counted apart,
but for part of what ``ksoftirqd`` took over: an emulated machine counted a quarter of a CPU of it as ``softirq`` and
three quarters as ``system``. Packets arrive in soft interrupts on either, or in threads where the administrator says so
(threaded NAPI).
"""

from __future__ import annotations

import os
from typing import Dict, Optional, Tuple

KTHREADD = 2


# "kworker/u4:3" is one of pool 4, "napi/eth1-8194" polls a queue of eth1. "kworker/0:1", bound to CPU 0, is left out:
# it does what interrupts of that CPU leave to it.
_FIELDS = {
    "kworker/u": "device_cpu_seconds",
    "napi/": "device_cpu_seconds",
    "ksoftirqd/": "softirq_thread_cpu_seconds",
}


class DeviceThreads:
    """Those threads of this machine. They come and go, and what one has taken stays in the sum."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._fields: Dict[str, Optional[str]] = {}  # by process id
        self._seconds: Dict[Tuple[str, str, str], float] = {}  # by process id, start and field

    def cpu_seconds(self) -> Dict[str, float]:
        """Return what they took since boot, by field of a sample; empty when unknown.

        Those are left out that had ended before the first call.
        """
        path = os.path.join(self._proc, str(KTHREADD), "task", str(KTHREADD), "children")
        try:
            with open(path, encoding="ascii") as file:
                pids = file.read().split()
        except OSError:  # a kernel without CONFIG_PROC_CHILDREN, or a /proc that hides other users' processes
            return {}
        self._fields = {pid: self._fields[pid] if pid in self._fields else self._field(pid) for pid in pids}
        for pid, field in self._fields.items():
            if field and (stat := self._read(pid, "stat")):
                said = stat.rpartition(")")[2].split()  # from the third on: proc(5)
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
        except OSError:  # it has just ended
            return ""
