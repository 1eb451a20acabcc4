"""CPU time of the kernel's threads in which a software device does what a NIC would do.

On Linux 6.12 rdma_rxe works in an unbound workqueue (drivers/infiniband/sw/rxe/rxe_task.c, ``rxe_wq``), whose time
/proc/stat counts as ``system``, like that of any process. On 6.1 it works in soft interrupts, which are counted apart.
Packets arrive in soft interrupts on either, or in threads where the administrator says so (threaded NAPI).
"""

from __future__ import annotations

import os
from typing import Dict, Optional, Tuple

KTHREADD = 2


# "kworker/u4:3" is one of pool 4, "napi/eth1-8194" polls a queue of eth1. "kworker/0:1", bound to CPU 0, is left out:
# it does what interrupts of that CPU leave to it.
_NAMES = ("kworker/u", "napi/")


class DeviceThreads:
    """Those threads of this machine. They come and go, and what one has taken stays in the sum."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._works: Dict[str, bool] = {}  # by process id
        self._seconds: Dict[Tuple[str, str], float] = {}  # by process id and start

    def cpu_seconds(self) -> Optional[float]:
        """Return what they took since boot, those left out that had ended before the first call; None when unknown."""
        path = os.path.join(self._proc, str(KTHREADD), "task", str(KTHREADD), "children")
        try:
            with open(path, encoding="ascii") as file:
                pids = file.read().split()
        except OSError:  # a kernel without CONFIG_PROC_CHILDREN, or a /proc that hides other users' processes
            return None
        self._works = {pid: self._works[pid] if pid in self._works else self._is_worker(pid) for pid in pids}
        for pid, works in self._works.items():
            if works and (stat := self._read(pid, "stat")):
                fields = stat.rpartition(")")[2].split()  # from the third on: proc(5)
                ticks, start = int(fields[11]) + int(fields[12]), fields[19]
                self._seconds[pid, start] = ticks / os.sysconf("SC_CLK_TCK")
        return round(sum(self._seconds.values()), 3)

    def _is_worker(self, pid: str) -> bool:
        return self._read(pid, "comm").startswith(_NAMES)

    def _read(self, *path: str) -> str:
        try:
            with open(os.path.join(self._proc, *path), encoding="ascii", errors="replace") as file:
                return file.read()
        except OSError:  # it has just ended
            return ""
