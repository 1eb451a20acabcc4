"""Control verbs beside the traffic: regions registered and deregistered, queue pairs created and destroyed.

Rules:

1. A thread makes them one after another, each kind at its own rate. Verbs and the loop in C release the interpreter's
   lock, so the traffic goes on meanwhile. The loop in Python could not, so only the native data path makes any.
2. Each object is destroyed before the next verb. None is left, and the traffic has its objects to itself.
3. A device that is too slow gets the next verb at once, in the ratio of the rates. What it missed is made up for, but
   only what was due in the last ``LATE_SECONDS``.
4. A verb that fails ends the thread, and a word of ``Totals`` says why. So the samples of every host show it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict, List, Optional

from . import memory
from .faults import AgentFault
from .objects import CompletionQueue, remote_access, step
from .resources import Resources
from .totals import CONTROL_ERRNO, NEW_MRS, NEW_QPS
from .workload import Workload

LATE_SECONDS = 0.1
# A queue pair that carries nothing needs no more.
CQ_ENTRIES = 16
# A verb that takes longer blocks ``stop`` and ``destroy``, so that the agent kills the engine.
END_SECONDS = 2.0


class ControlVerbs:
    """The control verbs of one engine."""

    def __init__(self, resources: Resources, words: Any) -> None:
        """Make verbs on the device of ``resources``, and count them in the words of ``Totals``."""
        self._resources, self._words = resources, words
        self._makers: Optional[_Makers] = None
        self._intervals: Dict[int, float] = {}
        self._wanted_end = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def admit(self, workloads: List[Workload], engines: int) -> None:
        """Take what the verbs of a phase need. ``engines`` share the largest rates of its workloads."""
        self.close()
        rates = {
            NEW_MRS: max((workload.new_mrs_per_second for workload in workloads), default=0),
            NEW_QPS: max((workload.new_qps_per_second for workload in workloads), default=0),
        }
        self._intervals = {word: engines / rate for word, rate in rates.items() if rate}
        if self._intervals:
            busiest = max(workloads, key=lambda each: (each.new_mrs_per_second, each.new_qps_per_second))
            self._resources.check_room(engines)
            self._makers = _Makers(self._resources, busiest, engines)

    def begin(self) -> None:
        """Make the verbs of the phase until ``end``."""
        if self._makers is not None:
            self._wanted_end.clear()
            make: Dict[int, Callable[[], None]] = {NEW_MRS: self._makers.region, NEW_QPS: self._makers.pair}
            self._thread = threading.Thread(target=self._run, args=(make,), daemon=True)
            self._thread.start()

    def want_end(self) -> None:
        """Begin no other verb."""
        self._wanted_end.set()

    @property
    def is_running(self) -> bool:
        """Whether a verb may be under way."""
        return self._thread is not None and self._thread.is_alive()

    def end(self) -> None:
        """Wait for the verb that is under way. Raise ``AgentFault`` if it does not end."""
        self.want_end()
        if self._thread is not None:
            self._thread.join(END_SECONDS)
            if self._thread.is_alive():
                raise AgentFault("setup", "control verbs", f"a control verb takes more than {END_SECONDS:.0f} s")
            self._thread = None

    def close(self) -> None:
        """End, and give back what the verbs needed."""
        self.end()
        makers, self._makers = self._makers, None
        if makers is not None:
            makers.close()

    def _run(self, make: Dict[int, Callable[[], None]]) -> None:
        try:
            self._keep_making(make)
        except AgentFault as fault:
            self._words[CONTROL_ERRNO] = fault.errno or errno.EIO
        except Exception:  # the end of the thread: the controller must hear of a bug, too
            traceback.print_exc(file=sys.stderr)
            self._words[CONTROL_ERRNO] = errno.EIO

    def _keep_making(self, make: Dict[int, Callable[[], None]]) -> None:
        due = dict.fromkeys(self._intervals, time.monotonic())
        while True:
            word = min(due, key=due.__getitem__)
            now = time.monotonic()
            missed = now - LATE_SECONDS - due[word]
            if missed > 0:  # shifting all of them keeps their ratio
                due = {each: at + missed for each, at in due.items()}
            if self._wanted_end.wait(max(0.0, due[word] - now)):
                return
            make[word]()
            self._words[word] += 1
            due[word] += self._intervals[word]


class _Makers:
    """Makes and destroys one object of each kind, as large as those of the traffic."""

    def __init__(self, resources: Resources, workload: Workload, engines: int) -> None:
        self._resources, self._workload = resources, workload
        with step("allocate"):
            self._memory: mmap.mmap = memory.allocate(workload.buffer_bytes, workload.huge_pages, engines)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._cq = CompletionQueue(resources.v, resources.context, CQ_ENTRIES)

    def close(self) -> None:
        with step("destroy_cq"):
            self._cq.close()

    def region(self) -> None:
        v, workload = self._resources.v, self._workload
        access = v.e.IBV_ACCESS_LOCAL_WRITE | remote_access(v, workload)
        with step("reg_mr"):
            region = v.MR(self._resources.pd, workload.buffer_bytes, access, address=self._address)
        with step("dereg_mr"):
            region.close()

    def pair(self) -> None:
        self._resources.make_and_destroy_pair(self._workload, self._cq.cq)
