"""Tasks of a worker, which dask sends by reference. An error travels as text.

A worker opens the testbed of a pair once, and closes it on request or after some time without a call. A worker that has
left its scheduler stops its run at the next sample, because another worker may have the pair.
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
from collie.ports import RunResult, Testbed, TestbedInfo
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

T = TypeVar("T")
Open = Callable[[], Testbed]  # opens the testbed of a pair, in a worker

_IDLE_SECONDS = 300.0  # a testbed without calls has lost its controller, and is closed
_AT_WORK = ("running", "paused")


@dataclass(frozen=True)
class WorkerReply(Generic[T]):
    """Value or error of a call, with the worker's version of Collie."""

    value: T | None = None
    error: str | None = None
    version: str = __version__


@dataclass(eq=False)
class _Kept:
    testbed: Testbed
    timer: Timer | None = None
    lock: Lock = field(default_factory=Lock)

    def rest(self, forget: Callable[[], object], idle_seconds: float) -> None:
        """Close the testbed unless a call comes in time."""
        self.stir()
        self.timer = Timer(idle_seconds, forget)
        self.timer.daemon = True
        self.timer.start()

    def stir(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


Left = Mapping[str, int | None]  # queue pairs left by a closed testbed, by host, None if unknown

_kept: dict[str, _Kept] = {}
_left: dict[str, Left | None] = {}  # by the key of a pair, for testbeds that the timer closed
_keeping = Lock()


def ask(
    key: str, opens: Open, question: Callable[[Testbed], T], *, idle_seconds: float = _IDLE_SECONDS
) -> WorkerReply[T]:
    """Call a function on the testbed of a pair, opened if necessary."""
    try:
        while True:
            with _keeping:
                kept = _kept.get(key)
                if kept is None:
                    kept = _kept[key] = _Kept(opens())
            with kept.lock:
                if _kept.get(key) is not kept:
                    continue  # just closed
                kept.stir()
                try:
                    return WorkerReply(question(kept.testbed))
                finally:
                    kept.rest(partial(_forget, key), idle_seconds)
    except CollieError as error:
        return WorkerReply(error=str(error))


def close(key: str) -> WorkerReply[Left]:
    """Close the testbed of a pair. If the timer closed it, return that result. Without a testbed, return no value."""
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
    """Return the sum over two testbeds of one pair. None if either is unknown."""
    if before is None or now is None:
        return None
    counts = {host: (before.get(host, 0), now.get(host, 0)) for host in {**before, **now}}
    return {host: None if None in both else sum(n or 0 for n in both) for host, both in counts.items()}


def info(testbed: Testbed) -> TestbedInfo:
    """Return the identity of a testbed."""
    testbed.specification(Workload())  # asks the host once, so that later calls need no host
    return testbed.info


def measure(workload: Workload, run: int, watch: Watch | None, on: SetUp | None, testbed: Testbed) -> RunResult:
    """Run a workload until `watch` stops it or this worker leaves its scheduler."""
    from distributed import get_worker  # always present in a worker

    worker = get_worker()

    def stops(sample: Sample) -> str | None:
        if reason := watch(sample) if watch is not None else None:
            return reason
        return None if worker.status.name in _AT_WORK else "the worker has left its scheduler"

    return testbed.measure(workload, run, stops, on)


def specification_beside(key: str, workload: Workload) -> Bound | None:
    """Return the data sheet's bound, also during a run. None if the pair has no open testbed."""
    kept = _kept.get(key)
    return kept.testbed.specification(workload) if kept is not None else None
