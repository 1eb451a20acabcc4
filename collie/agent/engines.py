"""All engines of one run, which answer as one engine."""

from __future__ import annotations

import errno
import select
import time
from typing import Any, Callable, Collection, Dict, List, Optional

from .child import EngineProcess
from .faults import bad_request, from_errno
from .sharing import divide, join, shares
from .totals import RunTotals

LAST_COMMANDS = ("hello", "destroy")
KILL_SECONDS = 2.0


class Engines:
    """Engines that share the queue pairs of every flow, but for those flows that have an engine of their own."""

    def __init__(
        self,
        make_engine: Callable[[Dict[str, int]], EngineProcess],
        qps: Dict[str, int],
        processes: int = 1,
        apart: Collection[str] = (),
    ) -> None:
        """Fork ``processes`` engines for the ends ``qps`` (flow key: queue pairs), and one for those ``apart``.

        Raises:
            AgentFault: ``bad_request`` for fewer queue pairs than engines, ``setup`` for a failed fork.
        """
        shared = [count for key, count in qps.items() if key not in apart]
        if shared and processes > max(shared):
            raise bad_request(f"prepare: {processes} processes for {max(shared)} queue pairs per flow at most")
        self.ends, self._apart = qps, apart
        self._processes = processes if shared or not apart else 0
        self._shares = self._used = shares(qps, self._processes, apart)
        self.members: List[EngineProcess] = []
        self._first_to_end: Optional[int] = None
        self._killed = False
        try:
            for share in self._shares:
                self.members.append(make_engine(share))
        except OSError as error:  # no memory, or the process limit
            self.kill()
            number, code = len(self.members) + 1, error.errno or errno.EAGAIN
            raise from_errno("fork", code, f"engine {number} of {len(self._shares)}") from error
        totals = [member.totals for member in self.members]
        self.totals = RunTotals(totals, totals[:-1] if apart else totals)
        self._do = ""
        self._replies: Dict[int, Dict[str, Any]] = {}

    @property
    def pids(self) -> List[int]:
        """Process ids."""
        return [member.pid for member in self.members]

    def register(self, poller: select.poll) -> None:
        """Register every engine that has not ended: for reading, and for writing if a command waits."""
        for member in self.members:
            if not member.ended and member.status is None:
                poller.register(member.fileno(), select.POLLIN | (select.POLLOUT if member.wants_write else 0))

    def flush(self) -> None:
        """Write waiting commands without blocking."""
        for member in self.members:
            member.flush()

    def send(self, command: Dict[str, Any]) -> None:
        """Send each engine its part of a command."""
        if command["do"] == "phase":
            used = {end["key"]: end["qps"] for end in command["ends"]}
            self._used = shares(used, self._processes, self._apart)
        divided = divide(command, self._shares if command["do"] == "connect" else self._used)
        self._do, self._replies = command["do"], {}
        for number, member in enumerate(self.members):
            member.send(divided[number])

    def receive(self) -> Optional[Dict[str, Any]]:
        """Return the joint reply once all engines have answered."""
        for number, member in enumerate(self.members):
            for reply in member.receive():
                self._replies[number] = reply
        if len(self._replies) < len(self.members):
            return None
        replies, self._replies = [self._replies[number] for number in range(len(self.members))], {}
        joined = join(self._do, replies, self._used)
        if self._do == "phase" and joined["ok"]:
            self.totals.use(self._used)
        return joined

    @property
    def ended(self) -> bool:
        """Whether an engine ended before its last command was done."""
        return any(
            member.ended and not (self._do in LAST_COMMANDS and number in self._replies)
            for number, member in enumerate(self.members)
        )

    @property
    def gone(self) -> bool:
        """Whether all engines are reaped."""
        return all(member.status is not None for member in self.members)

    def times(self) -> Dict[str, Optional[float]]:
        """Return the total CPU times in seconds, None if unknown.

        The wait for a CPU is the mean of the engines that share flows, or that of the one apart if it waits longer.
        """
        each = [member.times() for member in self.members]
        totals = {name: _sum([times[name] for times in each]) for name in each[0]}
        waits = [times["wait_seconds"] for times in each]
        means = [_mean(some) for some in (waits[: self._processes], waits[self._processes :]) if some]
        return {**totals, "wait_seconds": None if None in means else max(filter(None, means), default=0.0)}

    def reap(self, seconds: float) -> bool:
        """Wait for the end of all engines, at most ``seconds``. Return whether they ended."""
        ends_at = time.monotonic() + seconds
        reaped = [member.reap(max(0.0, ends_at - time.monotonic())) for member in self.members]
        return all(reaped)

    def kill(self) -> bool:
        """Kill all engines at once. Return whether they end within ``KILL_SECONDS``.

        An engine that lives longer hangs in the kernel, so later calls do not wait.
        """
        if self._first_to_end is None:
            self._first_to_end = next((number for number, member in enumerate(self.members) if member.ended), None)
        for member in self.members:
            member.kill()
        waited, self._killed = self._killed, True
        return self.reap(0.0 if waited else KILL_SECONDS)

    def last_words(self) -> str:
        """Describe how the first engine to end has ended."""
        number = self._first_to_end or 0
        member = self.members[number]
        if len(self.members) == 1:
            return member.last_words()
        return f"process {number + 1} of {len(self.members)} (pid {member.pid}): {member.last_words()}"


def _mean(values: List[Optional[float]]) -> Optional[float]:
    total = _sum(values)
    return None if total is None else total / len(values)


def _sum(values: List[Optional[float]]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
