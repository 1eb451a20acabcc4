"""Control verbs and errors beside the traffic: regions, queue pairs and address handles made, queue pairs broken.

Rules:

1. A thread makes them one after another, each kind at its own rate. Verbs and the loop in C release the interpreter's
   lock, so the traffic goes on meanwhile. The loop in Python could not, so only the native data path makes any.
2. Each object is destroyed before the next verb. None is left, and the traffic has its objects to itself. Only the
   queue pair that is broken stays, to be broken again.
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
from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional

from . import memory
from .faults import AgentFault
from .objects import CompletionQueue, closed_on_failure, remote_access, step
from .resources import End, Resources
from .totals import CONTROL_ERRNO, NEW_AHS, NEW_MRS, NEW_QPS, QP_ERRORS
from .work_requests import SendWR
from .workload import CONTROL_VERBS, Workload

# The word that counts each of CONTROL_VERBS.
WORDS = (NEW_MRS, NEW_QPS, NEW_AHS, QP_ERRORS)

LATE_SECONDS = 0.1
# A queue pair that carries nothing needs no more.
CQ_ENTRIES = 16
# Between two looks for the completion of a request that fails.
POLL_SECONDS = 0.0002
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
            word: max((getattr(workload, name) for workload in workloads), default=0)
            for word, name in zip(WORDS, CONTROL_VERBS)  # noqa: B905 - Python 3.9 has no `strict`
        }
        self._intervals = {word: engines / rate for word, rate in rates.items() if rate}
        if self._intervals:
            busiest = max(workloads, key=lambda each: [getattr(each, name) for name in CONTROL_VERBS])
            self._resources.check_room(engines, 2 * engines if rates[QP_ERRORS] else engines)
            self._makers = _Makers(self._resources, busiest, engines, breaks=bool(rates[QP_ERRORS]))

    def begin(self) -> None:
        """Make the verbs of the phase until ``end``."""
        if self._makers is not None:
            self._wanted_end.clear()
            self._thread = threading.Thread(target=self._run, args=(self._makers.by_word,), daemon=True)
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
    """Makes and destroys one object of each kind, as large as those of the traffic, or ``breaks`` a queue pair."""

    def __init__(self, resources: Resources, workload: Workload, engines: int, *, breaks: bool) -> None:
        self._resources, self._workload = resources, workload
        self.by_word: Dict[int, Callable[[], None]] = {
            NEW_MRS: self._region,
            NEW_QPS: self._pair,
            NEW_AHS: self._address_handle,
            QP_ERRORS: self._error,
        }
        with step("allocate"):
            self._memory: mmap.mmap = memory.allocate(workload.buffer_bytes, workload.huge_pages, engines)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._cq = CompletionQueue(resources.v, resources.context, CQ_ENTRIES)
        self._broken: Optional[End] = None
        if breaks:
            # Only RC has an error that needs no fault of the application: a receiver that is not ready.
            reliable = replace(workload, qp_type="RC", srq=False, rnr_retry=0)
            with closed_on_failure(self._cq):
                self._broken = resources.pair_to_itself(reliable, self._cq.cq)

    def close(self) -> None:
        if self._broken is not None:
            pair = self._broken.pairs[0]
            self._resources.fail(pair)
            with step("destroy_qp"):
                pair.close()
        with step("destroy_cq"):
            self._cq.close()

    def _region(self) -> None:
        v, workload = self._resources.v, self._workload
        access = v.e.IBV_ACCESS_LOCAL_WRITE | remote_access(v, workload)
        with step("reg_mr"):
            region = v.MR(self._resources.pd, workload.buffer_bytes, access, address=self._address)
        with step("dereg_mr"):
            region.close()

    def _pair(self) -> None:
        pair = self._resources.pair_to_itself(self._workload, self._cq.cq).pairs[0]
        with step("destroy_qp"):
            pair.close()

    def _address_handle(self) -> None:
        handle = self._resources.address_handle_to_itself(self._workload)
        with step("destroy_ah"):
            handle.close()

    def _error(self) -> None:
        """Have a SEND fail for want of a receive, and bring its queue pair back to RTS."""
        assert self._broken is not None, "its rate is above 0"
        e = self._resources.v.e
        with step("post_send"):
            self._broken.pairs[0].post_send(SendWR(0, e.IBV_WR_SEND, 0, 0, (), e.IBV_SEND_SIGNALED, None))
        with step("poll_cq"):
            ends_at = time.monotonic() + END_SECONDS / 2
            while not self._cq.cq.poll(1)[0]:
                if time.monotonic() > ends_at:
                    raise AgentFault("setup", "control verbs", "a message without a receive does not fail")
                time.sleep(POLL_SECONDS)
        self._resources.restart(self._broken, 0)
