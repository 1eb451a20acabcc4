"""Pairs of hosts driven by workers of dask.distributed.

The *workers* of a *scheduler* are `dask worker` processes that can reach the hosts. The *controller* is this process:
it decides, and keeps the record.

1. The controller assigns pairs to workers evenly. Dask neither chooses workers nor repeats runs.
2. If a pair's worker leaves, another repeats the run. If none is left, or a few leave in one step, the pair is lost.
3. No wait is endless. While a worker runs a task, the scheduler is asked for its workers, with a deadline. A scheduler
   that misses it is not asked again.
4. The watch of a run acts in the worker. The controller's watch gets the samples after the run.

A user who can reach the scheduler can run code on its workers and here (docs/explanation/security.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter, methodcaller
from threading import Lock, Thread
from time import monotonic, sleep
from types import ModuleType
from typing import Any, TypeVar
from uuid import uuid4

from collie import __version__
from collie.detect.bounds import Bound
from collie.detect.measurement import Watch, replayed
from collie.errors import TestbedError, UsageError
from collie.ports import ForeignUse, Measured, RunResult, Testbed, TestbedInfo
from collie.scheduler import worker as in_worker
from collie.scheduler.local import LocalPairs
from collie.scheduler.worker import Open, WorkerReply
from collie.workloads.pruning import Capabilities
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

T = TypeVar("T")

_WORKERS_PER_STEP = 3  # when this many workers have left during one step, the step is the likely cause
_LOOK_SECONDS = 0.5
_LEAVE_SECONDS = 5.0
_SPECIFICATIONS = 4096


@dataclass(frozen=True)
class Patience:
    """Deadlines of the connection to a scheduler, of a worker for a pair, and of the list of workers."""

    connect_seconds: float = 10.0
    worker_seconds: float = 60.0
    answer_seconds: Sequence[float] = (12.0, 3.0)  # slow machines take 10 s. A controller that was stopped asks again


_PATIENCE = Patience()


class _Vanished(Exception):
    """A worker has left."""


class Workers:
    """The workers of a scheduler, and their pairs. Without the scheduler its methods raise `TestbedError`."""

    def __init__(self, address: str, patience: Patience = _PATIENCE) -> None:
        self.address, self._dask, self._patience = address, require_usable(address), patience
        try:
            options = {"set_as_default": False, "name": "collie", "heartbeat_interval": "2s"}
            self._client = self._dask.Client(address, timeout=patience.connect_seconds, **options)
        except (OSError, ValueError, TypeError) as error:
            raise TestbedError(f"no scheduler answers at {address}: {error}. Start one by: dask scheduler") from None
        self._driven_by: dict[str, str] = {}
        self._left: dict[str, in_worker.Left | None] = {}
        self._assigning = Lock()
        self._silent = False

    def ask(self, pair: str, function: Callable[..., WorkerReply[T]], *arguments: Any) -> T:
        """Call a function with a pair's key in the pair's worker. If it leaves, use another. Arguments are pickled."""
        for _ in range(_WORKERS_PER_STEP):
            worker = self._worker(pair)
            try:
                answer = self._answer(worker, function, pair, *arguments)
            except _Vanished:
                continue
            if answer.error is not None:
                raise TestbedError(answer.error)
            if answer.version != __version__:
                raise TestbedError(f"worker {worker} has Collie {answer.version}, and this is {__version__}")
            return answer.value  # type: ignore[return-value]  # a reply without an error has a value
        raise TestbedError(f"{_WORKERS_PER_STEP} workers have left one after another during the same step")

    def ask_beside(self, pair: str, function: Callable[..., T | None], *arguments: Any) -> T | None:
        """Call a fast function beside the current task of a pair's worker. None without an answer."""
        worker = self._driven_by.get(pair)
        if worker is None:
            return None

        def run() -> T | None:
            with suppress(Exception):  # the next ordinary call reports the error
                found: dict[str, T | None] = self._client.run(function, pair, *arguments, workers=[worker])
                return found.get(worker)
            return None

        # Watched, because the scheduler tries for half a minute to reach a worker that has left.
        try:
            return self._watched(worker, run)
        except _Vanished:
            return None

    def end(self, pair: str) -> Mapping[str, int | None] | None:
        """Close a pair in its worker. Return the queue pairs left, None if unknown."""
        worker, before = self._driven_by.pop(pair, None), self._left.pop(pair, {})
        if worker not in self._present():
            return None
        try:
            return in_worker.together(before, self._answer(worker, in_worker.close, pair).value)
        except _Vanished:
            return None

    def close(self) -> None:
        """Leave the scheduler. Its workers stay."""
        with suppress(TimeoutError):
            self._client.close(timeout=_LEAVE_SECONDS)

    def _worker(self, pair: str) -> str:
        seconds = self._patience.worker_seconds
        deadline = monotonic() + seconds
        while not (present := self._present()):
            if monotonic() > deadline:
                raise TestbedError(
                    f"scheduler {self.address} has had no worker for {seconds:g} s; start some by: "
                    f"dask worker {self.address}"
                )
            sleep(_LOOK_SECONDS)
        with self._assigning:
            before = self._driven_by.get(pair)
            others = Counter(worker for other, worker in self._driven_by.items() if other != pair)
            freest = min(present, key=lambda worker: (others[worker], worker))
            if before in present and others[before] <= others[freest]:
                return before
            self._driven_by[pair] = freest
        if before in present:
            self._leave(before, pair)
        return freest

    def _leave(self, worker: str, pair: str) -> None:
        """Close a pair in one worker before another worker opens it."""
        left = None
        with suppress(_Vanished):
            left = self._answer(worker, in_worker.close, pair).value
        self._left[pair] = in_worker.together(self._left.get(pair, {}), left)

    def _present(self) -> frozenset[str]:
        deadlines = self._patience.answer_seconds
        for seconds in () if self._silent else deadlines:
            try:
                return frozenset(self._client.sync(self._client.scheduler.ncores, callback_timeout=seconds))
            except TimeoutError:
                continue
            except Exception as error:  # OSError, and later dask's AttributeError on a closed connection
                raise self._gone(error) from None
        self._silent = True
        raise TestbedError(f"scheduler {self.address} does not answer within {sum(deadlines):g} s")

    def _watched(self, worker: str, call: Callable[[], T]) -> T:
        """Return the result of a call without a deadline. Raises `_Vanished` if the worker leaves first."""
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(call())
            except BaseException as error:
                outcome.set_exception(error)

        Thread(target=run, daemon=True).start()  # daemon: the process does not wait for it
        while not wait([outcome], _LOOK_SECONDS).done:
            if worker not in self._present():
                raise _Vanished
        return outcome.result()

    def _answer(self, worker: str, function: Callable[..., WorkerReply[T]], *arguments: Any) -> WorkerReply[T]:
        future = self._client.submit(
            function,
            *arguments,
            key=f"collie-{uuid4().hex}",
            workers=[worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        try:
            answer: WorkerReply[T] = self._watched(worker, future.result)
            return answer
        except self._dask.KilledWorker:
            raise _Vanished from None
        except (self._dask.CancelledError, self._dask.comm.CommClosedError) as error:
            raise self._gone(error) from None
        except RuntimeError as error:
            if "deserialization of the task graph" not in str(error):
                raise
            raise TestbedError(
                f"scheduler {self.address} cannot read what it is sent, which takes Collie {__version__}; install it "
                "there, too"
            ) from None
        except ImportError as error:
            raise TestbedError(f"worker {worker} cannot run Collie {__version__}: {error}; install it there") from None
        finally:
            if not future.done():
                future.cancel()

    def _gone(self, error: Exception) -> TestbedError:
        return TestbedError(f"scheduler {self.address} is gone: {error or type(error).__name__}")


class WorkerPair:
    """A `ports.Testbed` that `opens` opens in a worker."""

    def __init__(self, workers: Workers, name: str, opens: Open) -> None:
        self._workers, self._name, self._opens = workers, name, opens
        self._key = f"{name}-{uuid4().hex}"
        self._asking = Lock()
        self._info: TestbedInfo | None = None
        self._left: Mapping[str, int | None] | None = None
        self.specification = lru_cache(_SPECIFICATIONS)(self._specification)  # answers during a run, too

    @property
    def info(self) -> TestbedInfo:
        """The identity of the testbed."""
        if self._info is None:
            self._info = self._asked(in_worker.info)
        return self._info

    @property
    def capabilities(self) -> Capabilities:
        """Known restrictions."""
        known: Capabilities = self._asked(attrgetter("capabilities"))
        return known

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        """Run a workload in the worker, then replay the samples to the watch."""
        result = self._asked(partial(in_worker.measure, workload, run, watch, on))
        if isinstance(result, Measured):
            replayed(result.measurement, watch)
        return result

    def foreign_uses(self) -> tuple[ForeignUse, ...]:
        """Watch every port in the worker."""
        return self._asked(methodcaller("foreign_uses"))

    def close(self) -> Mapping[str, int | None]:
        """Close the testbed in the worker. Without a worker the counts are unknown."""
        if self._left is None:
            unknown = {} if self._info is None or self._info.virtual_time else dict.fromkeys(self._info.fingerprints)
            try:
                left = self._workers.end(self._key)
            except TestbedError:
                left = None
            self._left = unknown if left is None else left
        return self._left

    def _asked(self, question: Callable[[Testbed], T]) -> T:
        if self._left is not None:
            raise TestbedError(f"{self._name} is closed")
        with self._asking:  # until the answer, the pair must stay with this worker
            answer: T = self._workers.ask(self._key, in_worker.ask, self._opens, question)
        return answer

    def _specification(self, workload: Workload) -> Bound:
        beside = self._workers.ask_beside(self._key, in_worker.specification_beside, workload)
        return beside or self._asked(methodcaller("specification", workload))


class DistributedPairs(LocalPairs):
    """Pairs driven by the workers of a dask scheduler. `opens` opens their testbeds there."""

    def __init__(
        self, address: str, opens: Mapping[str, Open], *, absent_ok: bool = False, patience: Patience = _PATIENCE
    ) -> None:
        self._workers = Workers(address, patience)
        try:
            pairs = {name: WorkerPair(self._workers, name, opener) for name, opener in opens.items()}
            super().__init__(pairs, absent_ok=absent_ok, takes_time=True)
        except BaseException:
            self._workers.close()
            raise

    def close(self) -> Mapping[str, int | None]:
        """Close every pair, and leave the scheduler."""
        try:
            return super().close()
        finally:
            self._workers.close()


def require_usable(address: str) -> ModuleType:
    """Return dask.distributed if its settings suit a scheduler's address. Raises `UsageError`. Contacts no scheduler.

    Dask would refuse wrong settings after 20 s, with a traceback.
    """
    match = re.fullmatch(r"(tcp|tls)://(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", address)
    if not match or not 0 < int(match[3]) < 1 << 16:
        raise UsageError(f"--scheduler {address!r} is no address; write tcp://HOST:8786, or tls://HOST:8786")
    try:
        import distributed as dask
    except ImportError:
        raise UsageError(
            "--scheduler needs dask.distributed, here and on the workers: pip install 'collie-rdma[scheduler]'"
        ) from None
    security, encrypted = dask.Security(), match[1] == "tls"
    if encrypted and security.get_connection_args("client").get("ssl_context") is None:
        raise UsageError(
            f"--scheduler {address}: dask has no certificate for it here; name its files in dask's settings "
            "distributed.comm.tls (ca-file, client.cert, client.key)"
        )
    if security.require_encryption and not encrypted:
        raise UsageError(
            f"--scheduler {address}: dask's setting distributed.comm.require-encryption forbids it; give tls://"
        )
    return dask
