"""Control verbs beside the traffic: regions registered and deregistered, queue pairs created and destroyed.

Rules:

1. A thread makes them, each kind at its own rate. Verbs and the loop in C release the interpreter's lock, so the
   traffic goes on meanwhile. The loop in Python could not, so only the native data path makes control verbs.
2. Each object is destroyed before the next verb. None is left, and the traffic has its objects to itself.
3. A device that is too slow gets the next verb at once, and what it has missed of late.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any, Callable, Dict, Optional

from .faults import AgentFault
from .objects import Buffers, CompletionQueue, remote_access, step
from .resources import Resources
from .totals import NEW_MRS, NEW_QPS
from .workload import Workload

# What was due earlier is not made up for.
LATE_SECONDS = 0.1
# A queue pair that carries nothing needs no more.
CQ_ENTRIES = 16
# A verb that waits for longer holds up the end of the run, whose deadline then ends the process.
END_SECONDS = 2.0


class ControlVerbs:
    """The control verbs of one engine."""

    def __init__(self, resources: Resources, words: Any) -> None:
        """Make verbs on the device of ``resources``, and count them in the words of ``Totals``."""
        self._resources, self._words = resources, words
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._fault: Optional[AgentFault] = None

    def begin(self, workload: Workload, processes: int) -> None:
        """Make control verbs at this engine's share of the rates of ``workload``, until ``end``."""
        wanted = {NEW_MRS: workload.new_mrs_per_second, NEW_QPS: workload.new_qps_per_second}
        intervals = {word: processes / rate for word, rate in wanted.items() if rate}
        if intervals:
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, args=(workload, intervals), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Make no more. Raise ``AgentFault`` if one does not end."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join(END_SECONDS)
            if self._thread.is_alive():
                raise AgentFault("setup", "control verbs", f"a control verb takes more than {END_SECONDS} s")
            self._thread = None

    def check(self) -> None:
        """Raise ``AgentFault`` if a verb has failed since the last check."""
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def _run(self, workload: Workload, intervals: Dict[int, float]) -> None:
        try:
            with _Makers(self._resources, workload) as make:
                self._keep_making(make, intervals)
        except AgentFault as fault:
            self._fault = fault

    def _keep_making(self, make: Dict[int, Callable[[], None]], intervals: Dict[int, float]) -> None:
        due = dict.fromkeys(intervals, time.monotonic())
        while True:
            word = min(due, key=due.__getitem__)
            if self._ended.wait(max(0.0, due[word] - time.monotonic())):
                return
            make[word]()
            self._words[word] += 1
            due[word] = max(due[word] + intervals[word], time.monotonic() - LATE_SECONDS)


class _Makers:
    """What makes and destroys one object of each kind, as large as those of the traffic."""

    def __init__(self, resources: Resources, workload: Workload) -> None:
        self._resources, self._workload = resources, workload
        one = dataclasses.replace(workload, mrs_per_qp=1)
        self._buffer = Buffers(resources.v, resources.pd, one, 1, 0, None)
        try:
            self._cq = CompletionQueue(resources.v, resources.context, CQ_ENTRIES)
        except AgentFault:
            self._buffer.close()
            raise

    def __enter__(self) -> Dict[int, Callable[[], None]]:
        return {NEW_MRS: self._region, NEW_QPS: self._pair}

    def __exit__(self, *_error: object) -> None:
        self._buffer.close()
        self._cq.close()

    def _region(self) -> None:
        v, workload = self._resources.v, self._workload
        address, _ = self._buffer.local(0, 0)
        access = v.e.IBV_ACCESS_LOCAL_WRITE | remote_access(v, workload)
        with step("reg_mr"):
            region = v.MR(self._resources.pd, workload.buffer_bytes, access, address=address)
        with step("dereg_mr"):
            region.close()

    def _pair(self) -> None:
        self._resources.make_and_destroy_pair(self._workload, self._cq.cq)
