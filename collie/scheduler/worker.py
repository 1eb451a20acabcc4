"""What a worker of a scheduler does: it opens the testbed of a pair once, and keeps it. Sent to it by reference.

A testbed is closed when the controller says so, as when a new worker takes the pair over, or when nobody has asked for
a while. An error travels as its text. A worker that has left its scheduler stops its run at the next sample: another
one may have the pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock, Timer
from typing import Generic, TypeVar

from collie import __version__
from collie.detect.bounds import Bound
from collie.detect.measurement import Sample, Watch
from collie.errors import CollieError
from collie.ports import ForeignUse, RunResult, Testbed, TestbedInfo
from collie.workloads.pruning import Capabilities
from collie.workloads.workload import Workload

T = TypeVar("T")
Open = Callable[[], Testbed]
"""Opens the testbed of a pair; is sent to a worker."""

_IDLE_SECONDS = 300.0
"""A worker closes a testbed that was not asked for so long: its controller is gone."""
_AT_WORK = ("running", "paused")


@dataclass(frozen=True)
class WorkerReply(Generic[T]):
    """What a worker says.

    Attributes:
        value: the answer; None where there is an error.
        error: what went wrong.
        version: of the worker's Collie.
    """

    value: T | None = None
    error: str | None = None
    version: str = __version__


@dataclass(eq=False)
class _Kept:
    """A testbed that this worker has opened, and the timer that closes it."""

    testbed: Testbed
    timer: Timer | None = None
    lock: Lock = field(default_factory=Lock)

    def rest(self, forget: Callable[[], object]) -> None:
        """Close the testbed unless it is asked again in time."""
        self.stir()
        self.timer = Timer(_IDLE_SECONDS, forget)
        self.timer.daemon = True
        self.timer.start()

    def stir(self) -> None:
        """Do not close it yet."""
        if self.timer is not None:
            self.timer.cancel()


Left = Mapping[str, int | None]
"""How many queue pairs of ours a testbed has left when it was closed, by host; None where the host does not tell."""

_kept: dict[str, _Kept] = {}
_left: dict[str, Left | None] = {}
"""Of testbeds that were closed while nobody asked."""
_keeping = Lock()


def ask(key: str, opens: Open, question: Callable[[Testbed], T]) -> WorkerReply[T]:
    """Ask the testbed of a pair something; open it first if this worker has not."""
    try:
        while True:
            with _keeping:
                kept = _kept.get(key)
                if kept is None:
                    kept = _kept[key] = _Kept(opens())
            with kept.lock:
                if _kept.get(key) is not kept:
                    continue  # closed just now
                kept.stir()
                try:
                    return WorkerReply(question(kept.testbed))
                finally:
                    kept.rest(partial(_forget, key))
    except CollieError as error:
        return WorkerReply(error=str(error))


def close(key: str) -> WorkerReply[Left]:
    """Close the testbed of a pair; the answer has no value where this worker does not have it and never had."""
    with _keeping:
        kept = _kept.pop(key, None)
        before = _left.pop(key, None if kept is None else {})
    if kept is None:
        return WorkerReply(before)
    kept.stir()
    with kept.lock:
        try:
            return WorkerReply(together(before, kept.testbed.close()))
        except CollieError as error:
            return WorkerReply(error=str(error))


def _forget(key: str) -> None:
    left = close(key).value
    with _keeping:
        _left[key] = left


def together(before: Left | None, now: Left | None) -> Left | None:
    """Return what two testbeds of one pair have left, one after the other; None where one of them is not known."""
    if before is None or now is None:
        return None
    counts = {host: (before.get(host, 0), now.get(host, 0)) for host in {**before, **now}}
    return {host: None if None in both else sum(n or 0 for n in both) for host, both in counts.items()}


def info(testbed: Testbed) -> TestbedInfo:
    """Return what a testbed is."""
    testbed.specification(Workload())  # asks the hosts the first time; from then on it is arithmetic
    return testbed.info


def capabilities(testbed: Testbed) -> Capabilities:
    """Return what is known to restrict a testbed."""
    return testbed.capabilities


def foreign_uses(testbed: Testbed) -> tuple[ForeignUse, ...]:
    """Watch every port of a testbed."""
    return testbed.foreign_uses()


def measure(workload: Workload, run: int, watch: Watch | None, testbed: Testbed) -> RunResult:
    """Run a workload, until `watch` says why to end it or this worker has left its scheduler."""
    from distributed import get_worker  # is there where a worker is

    worker = get_worker()

    def stops(sample: Sample) -> str | None:
        if reason := watch(sample) if watch is not None else None:
            return reason
        return None if worker.status.name in _AT_WORK else "the worker has left its scheduler"

    return testbed.measure(workload, run, stops)


def specification_beside(key: str, workload: Workload) -> Bound | None:
    """Return what the data sheet promises, beside whatever runs; None where this worker does not have the pair."""
    kept = _kept.get(key)
    return kept.testbed.specification(workload) if kept is not None else None


def specification(workload: Workload, testbed: Testbed) -> Bound:
    """Return what the data sheet promises."""
    return testbed.specification(workload)
