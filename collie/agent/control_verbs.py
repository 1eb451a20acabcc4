"""Control verbs and errors beside the traffic: regions, queue pairs and address handles made, queue pairs broken.

Rules:

1. A thread makes them one after another, each kind at its own rate. Verbs and the loop in C release the interpreter's
   lock, so the traffic goes on meanwhile. The loop in Python could not, so only the native data path makes any.
2. Each object is destroyed before the next verb. None is left, and the traffic has its objects to itself. Only the
   queue pair that is broken stays, to be broken again.
3. A device that is too slow gets the next verb at once, in the ratio of the rates. What it missed is made up for, but
   only what was due in the last ``LATE_SECONDS``.
4. Imitated verbs take their CPU time, and nothing else. A few real ones before the traffic tell how much that is.
5. A verb that fails ends the thread, and a word of ``Totals`` says why. So the samples of every host show it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from statistics import median
from typing import Any, Callable, Dict, List, Optional

from . import memory
from .faults import AgentFault
from .objects import CompletionQueue, closed_on_failure, remote_access, step
from .resources import Resources
from .totals import CONTROL_ERRNO, NEW_AHS, NEW_MRS, NEW_QPS, QP_ERRORS
from .verbs import WC_STATUS
from .work_requests import SendWR
from .workload import CONTROL_VERBS, Workload

# The word that counts each of CONTROL_VERBS.
WORDS = (NEW_MRS, NEW_QPS, NEW_AHS, QP_ERRORS)

LATE_SECONDS = 0.1
# A queue pair that carries nothing needs no more.
CQ_ENTRIES = 16
# Between two looks for the completion of a request that fails.
POLL_SECONDS = 0.0002
PAYLOAD_BYTES = 8
# Local length, QP operation and protection error: devices differ in how they name an address beyond a region.
LOCAL_ERRORS = (1, 2, 4)
# A verb that takes longer blocks ``stop`` and ``destroy``, so that the agent kills the engine.
END_SECONDS = 2.0
# Verbs of each kind that tell its CPU time.
REHEARSALS = 5

Make = Callable[[], None]


class ControlVerbs:
    """The control verbs of one engine."""

    def __init__(self, resources: Resources, words: Any) -> None:
        """Make verbs on the device of ``resources``, and count them in the words of ``Totals``."""
        self._resources, self._words = resources, words
        self._makers: Optional[_Makers] = None
        self._make: Dict[int, Make] = {}
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
            room = 2 * engines if rates[QP_ERRORS] else engines
            self._resources.check_room(room, room)
            self._makers = _Makers(self._resources, busiest, engines, breaks=bool(rates[QP_ERRORS]))
            self._make = {word: self._makers.by_word[word] for word in self._intervals}
            if busiest.control_verbs_imitated:
                self._make = {word: imitation(make) for word, make in self._make.items()}

    def begin(self) -> None:
        """Make the verbs of the phase until ``end``."""
        if self._makers is not None:
            self._wanted_end.clear()
            self._thread = threading.Thread(target=self._run, args=(self._make,), daemon=True)
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

    def _run(self, make: Dict[int, Make]) -> None:
        try:
            self._keep_making(make)
        except AgentFault as fault:
            sys.stderr.write(f"{fault.step}: {fault.message}\n")
            sys.stderr.flush()
            self._words[CONTROL_ERRNO] = fault.errno or errno.EIO
        except Exception:  # the end of the thread: the controller must hear of a bug, too
            traceback.print_exc(file=sys.stderr)
            self._words[CONTROL_ERRNO] = errno.EIO

    def _keep_making(self, make: Dict[int, Make]) -> None:
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


def imitation(make: Make) -> Make:
    """Return what takes the CPU time of a verb and makes none."""
    seconds = median(_cpu_seconds(make) for _ in range(REHEARSALS))

    def use_cpu() -> None:
        ends_at = time.thread_time() + seconds
        while time.thread_time() < ends_at:
            pass

    return use_cpu


def _cpu_seconds(make: Make) -> float:
    began = time.thread_time()
    make()
    return time.thread_time() - began


class _Makers:
    """Makes and destroys one object of each kind, as large as those of the traffic, or ``breaks`` a queue pair."""

    def __init__(self, resources: Resources, workload: Workload, engines: int, *, breaks: bool) -> None:
        self._resources, self._workload = resources, workload
        self.by_word: Dict[int, Make] = {
            NEW_MRS: self._region,
            NEW_QPS: self._pair,
            NEW_AHS: self._address_handle,
            QP_ERRORS: self._error,
        }
        with step("allocate"):
            self._memory: mmap.mmap = memory.allocate(workload.buffer_bytes, workload.huge_pages, engines)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._cq = CompletionQueue(resources.v, resources.context, CQ_ENTRIES)
        self._broken: Optional[_Broken] = None
        if breaks:
            with closed_on_failure(self._cq):
                self._broken = _Broken(
                    resources, workload, self._register(), self._address + workload.buffer_bytes, self._cq
                )

    def close(self) -> None:
        with closed_on_failure(self._cq):
            if self._broken is not None:
                self._broken.close()
        with step("destroy_cq"):
            self._cq.close()

    def _register(self) -> Any:
        v, workload = self._resources.v, self._workload
        access = v.e.IBV_ACCESS_LOCAL_WRITE | remote_access(v, workload)
        with step("reg_mr"):
            return v.MR(self._resources.pd, workload.buffer_bytes, access, address=self._address)

    def _region(self) -> None:
        region = self._register()
        with step("dereg_mr"):
            region.close()

    def _pair(self) -> None:
        pair = self._resources.pair_to_itself(self._workload, self._cq.cq).pairs[0]
        with step("destroy_qp"):
            pair.close()

    def _address_handle(self) -> None:
        own = self._resources
        handle = own.address_handle(self._workload, own.gid, own.lid)
        with step("destroy_ah"):
            handle.close()

    def _error(self) -> None:
        assert self._broken is not None, "its rate is above 0"
        self._broken.fail()


class _Broken:
    """A queue pair that fails again and again: it sends from beyond the end of a region.

    No packet leaves for it, so what the device counts of packets, losses and RNR NAKs is the traffic's alone.
    """

    def __init__(self, resources: Resources, workload: Workload, region: Any, beyond: int, cq: CompletionQueue) -> None:
        """Make the queue pair, and own the ``region``, whose first address outside is ``beyond``."""
        self._resources, self._region, self._cq = resources, region, cq
        self._beyond = beyond
        made_for = replace(workload, qp_type="RC", srq=False, send_wq_depth=1, sge_count=1, max_inline_data=0)
        with closed_on_failure(region):
            self._end = resources.pair_to_itself(replace(made_for, max_rd_atomic=1, max_dest_rd_atomic=1), cq.cq)

    def fail(self) -> None:
        """Have a request fail, and bring its queue pair back to RTS."""
        v = self._resources.v
        entry = v.SGE(self._beyond, PAYLOAD_BYTES, self._region.lkey)
        with step("post_send"):
            self._end.pairs[0].post_send(SendWR(0, v.e.IBV_WR_SEND, 1, 0, (entry,), v.e.IBV_SEND_SIGNALED, None))
        status = self._completed()
        if status not in LOCAL_ERRORS:
            raise AgentFault("setup", "control verbs", f"a request beyond its region ended with {WC_STATUS[status]!r}")
        self._resources.restart(self._end, 0)

    def _completed(self) -> int:
        """Return the status of the request."""
        ends_at = time.monotonic() + END_SECONDS / 2
        while time.monotonic() < ends_at:
            with step("poll_cq"):
                found, completions = self._cq.cq.poll(1)
            if found:
                return int(completions[0].status)
            time.sleep(POLL_SECONDS)
        raise AgentFault("setup", "control verbs", "a request beyond its region does not complete")

    def close(self) -> None:
        pair = self._end.pairs[0]
        with closed_on_failure(self._region):
            with suppress(AgentFault):  # only a queue pair in RESET cannot go to ERR, and it has nothing outstanding
                self._resources.fail(pair)
            with step("destroy_qp"):
                pair.close()
        with step("dereg_mr"):
            self._region.close()
