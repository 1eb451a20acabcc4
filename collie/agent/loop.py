"""The resident agent's loop: one thread that polls stdin, stdout, the engines and the clock.

Rules:

1. Nothing blocks for longer than it takes to kill an engine. Only engines call verbs.
2. At most one step is under way. At its deadline the engine is killed and the answer is ``timeout``.
3. The end of the loop ends the engine. If the loop stands still, the engine ends by itself (``pulse``).
4. A sample that the controller does not take is dropped and counted. Replies are never dropped.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from dataclasses import dataclass
from typing import Any, Dict, Optional

from .engines import Engines
from .faults import AgentFault, bad_request
from .lines import Lines
from .pulse import BEAT_SECONDS, Pulse
from .report import Run, Sampling
from .requests import Request, parse_request

LEASE_SECONDS = 8.0
# Time for an engine to destroy its queue pairs before it is killed.
GRACE_SECONDS = 1.0
# Time to write the last reply. A sample of a NIC with many queues is several times the size of a pipe.
FAREWELL_SECONDS = 1.0
MAX_BACKLOG_BYTES = 1 << 18
LATE_SECONDS = 0.5


def log(message: str) -> None:
    """Log to stderr, which can be closed."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"collie-agent[{os.getpid()}]: {message}\n")
        sys.stderr.flush()


@dataclass
class Step:
    """The step under way."""

    request: Request
    ends_at: float
    engines: Engines


class Loop:
    """Serves a controller and engines. Subclasses define the requests."""

    def __init__(self, lines: Lines, sampling: Sampling, pulse: Pulse) -> None:
        self.reason: Optional[str] = None  # cause of the end
        self._lines, self._sampling, self._pulse = lines, sampling, pulse
        self._lease_seconds = LEASE_SECONDS
        self._last_line = time.monotonic()
        self._run: Optional[Run] = None
        self._step: Optional[Step] = None

    def handle(self, request: Request) -> Optional[Dict[str, Any]]:
        """Carry out a request and return the reply, None if the engine will reply."""
        raise NotImplementedError

    def finish(self, step: Step, reply: Dict[str, Any]) -> Dict[str, Any]:
        """Complete the engine's reply to a step."""
        raise NotImplementedError

    def serve(self, wakeup: Optional[int] = None) -> str:
        """Serve until the end, and return its cause. A signal handler makes ``wakeup`` readable."""
        try:
            while self.reason is None:
                self._turn(wakeup)
        finally:
            self.end_run()
        self._lines.send({"event": "bye", "reason": self.reason})
        self._lines.finish(FAREWELL_SECONDS)
        return self.reason

    def hand_over(self, request: Request, engines: Engines, command: Dict[str, Any]) -> None:
        """Send a command and make the request the step under way."""
        engines.send({"do": request.do, **command})
        self._step = Step(request, time.monotonic() + request.deadline_seconds, engines)

    def lose_engines(self, engines: Optional[Engines] = None) -> None:
        """Kill the engines of the run or of ``hello``, and forget the run."""
        engines = engines or self._engines()
        if engines is not None and not engines.kill():
            log(f"engine {', '.join(map(str, engines.pids))} does not die: it hangs in the kernel")
        self._step = None
        if self._run is not None and self._run.engines is engines:
            self._run = None
        if not self._sampling.keep:
            self._sampling.stop()

    def end_run(self) -> None:
        """End the run, by ``destroy`` if the engines can still carry it out."""
        run = self._run
        if run is not None and self._step is None and not run.engines.ended:
            run.engines.send({"do": "destroy"})
            run.engines.reap(GRACE_SECONDS)
        self.lose_engines()

    def _engines(self) -> Optional[Engines]:
        if self._step is not None:
            return self._step.engines
        return self._run.engines if self._run is not None else None

    def _turn(self, wakeup: Optional[int]) -> None:
        poller = select.poll()
        poller.register(self._lines.source, select.POLLIN)
        if self._lines.backlog:
            poller.register(self._lines.sink, select.POLLOUT)
        engines = self._engines()
        if engines is not None:
            engines.register(poller)
        if wakeup is not None:
            poller.register(wakeup, select.POLLIN)
        self._pulse.beat()
        started, wait = time.monotonic(), max(0.0, min(BEAT_SECONDS, self._until_next()))
        poller.poll(wait * 1000)
        late = time.monotonic() - started - wait
        if late > LATE_SECONDS:
            # The host gave this process no CPU, so the controller's lines could not arrive either. A software device in
            # a retransmission storm does that for seconds. Such time does not count against the lease.
            self._last_line += late
        if self._lines.backlog:
            self._lines.flush()
        if engines is not None:
            self._hear_engines(engines)
        for line in self._lines.receive():
            self._last_line = time.monotonic()
            self._hear(line)
        self._watch_clock()

    def _until_next(self) -> float:
        moments = [self._last_line + self._lease_seconds]
        if self._step:
            moments.append(self._step.ends_at)
        if self._sampling.next is not None:
            moments.append(self._sampling.next)
        return min(moments) - time.monotonic()

    def _watch_clock(self) -> None:
        now = time.monotonic()
        if self._lines.closed:
            self.reason = self.reason or "eof"
        elif now - self._last_line > self._lease_seconds:
            self.reason = self.reason or "lease"
        if self._step and now >= self._step.ends_at:
            step = self._step
            step.engines.kill()
            message = f"{step.request.do} took longer than {step.request.deadline_seconds} s; the engine was killed"
            self._engines_gone(step, AgentFault("timeout", step.request.do, message))
        if self._sampling.next is not None and now >= self._sampling.next:
            sample = self._sampling.sample(self._run, self._lines.backlog > MAX_BACKLOG_BYTES)
            if sample is not None:
                self._lines.send(sample)

    def _hear(self, line: bytes) -> None:
        try:
            request = parse_request(line)
        except AgentFault as fault:
            self._refuse(fault.request_id, fault)
            return
        try:
            if self._step and request.do not in ("ping", "sampling"):
                raise bad_request(f"{request.do}: {self._step.request.do} is still under way")
            reply = self.handle(request)
        except AgentFault as fault:
            self._refuse(request.id, fault)
        else:
            if reply is not None:
                self._lines.send({"id": request.id, "ok": True, **reply})

    def _refuse(self, request_id: Optional[int], fault: AgentFault) -> None:
        log(f"{fault.kind} in {fault.step}: {fault.message}")
        self._lines.send({"id": request_id, "ok": False, "error": fault.to_json()})

    def _hear_engines(self, engines: Engines) -> None:
        engines.flush()
        reply = engines.receive()
        step = self._step
        if reply is not None and step is not None:
            self._step = None
            self._hear_answer(step, reply)
        if engines.ended and (self._step or self._run) and not engines.gone:
            self._engines_died(engines)

    def _hear_answer(self, step: Step, reply: Dict[str, Any]) -> None:
        if reply.pop("ok"):
            self._lines.send({"id": step.request.id, "ok": True, **self.finish(step, reply)})
            return
        fault = AgentFault.from_json(reply["error"])
        if step.request.do not in ("stop", "verify") and (fault.kind != "bad_request" or step.request.do == "prepare"):
            self.lose_engines(step.engines)
        self._refuse(step.request.id, fault)

    def _engines_died(self, engines: Engines) -> None:
        engines.kill()
        step = self._step
        if step:
            self._engines_gone(step, AgentFault("died", step.request.do, engines.last_words()))
        else:
            self.lose_engines(engines)
            log(engines.last_words())
            self._lines.send({"event": "engine_died", "message": engines.last_words()})

    def _engines_gone(self, step: Step, fault: AgentFault) -> None:
        if step.request.do == "destroy":  # the engine is gone, and nothing is left to destroy
            log(fault.message)
            reply = self.finish(step, {"flushed": None, "clean": False})
            self._lines.send({"id": step.request.id, "ok": True, **reply})
        else:
            self.lose_engines(step.engines)
            self._refuse(step.request.id, fault)
