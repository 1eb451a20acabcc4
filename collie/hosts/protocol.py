"""The conversation with one agent: requests, answers, samples and keepalives.

1. Every request has a deadline at the agent, and a slightly later one here. A late answer ends the conversation.
2. The agent answers a ping every 1.5 s, so silence means a dead agent or a dead host.
3. A failed conversation stays failed. A live agent reads the end of its input and cleans up.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from collie.errors import AgentError, CommandTimeout, HostUnreachable, TestbedError
from collie.hosts.answers import ANSWERS
from collie.hosts.timing import DEFAULT_TIMING
from collie.plain import typed
from collie.ports import Channel
from collie.readings.samples import AgentSample, parse_sample
from collie.untrusted import read_json, sanitized

PING_SECONDS = 1.5
_SILENCE_SECONDS = 10.0
"""Six unanswered pings. The agent's lease has ended by then."""
_FIRST_MESSAGE_SECONDS = 45.0
_BYE_SECONDS = 5.0
"""The agent needs a second to end its engine, and two more to kill it."""
_PING_ID = 0
_MAX_SHOWN_CHARACTERS = 80
MAX_WORDS = 2000
"""Longest message of an agent, in characters. The rest is dropped."""
MAX_SAMPLED_BYTES = 128 << 20
"""Limit of unread samples: an hour of the NIC with the most counters, at four samples a second."""

_UNANSWERED = ("ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "timeout")


class StepFailed(AgentError):
    """The agent reported that a step failed. The conversation goes on.

    Attributes:
        kind: `unsupported`, `setup`, `timeout`, `died`, `bad_request` or `internal`.
        cause: short text that groups failures, such as `create_qp ENOMEM`.
    """

    def __init__(self, host: str, error: dict[str, Any], do: str) -> None:
        self.do = do
        self.kind = str(error.get("kind", "internal"))[:MAX_WORDS]
        step = str(error.get("step") or do)[:MAX_WORDS]
        message = str(error.get("message", "no message"))[:MAX_WORDS]
        super().__init__(host, step, message, unsupported=self.kind == "unsupported")
        causes = {
            "setup": " ".join(filter(None, (step, str(error.get("errno_name") or "")[:MAX_WORDS]))),
            "timeout": f"{step} timeout",
            "died": "engine died",
            "bad_request": "refused by the agent",
            "internal": "agent fault",
        }
        self.cause = causes.get(self.kind, self.kind)

    @property
    def unanswered(self) -> bool:
        """Whether a connection failed because the other host did not answer."""
        return self.do == "connect" and (self.cause.startswith("rdma_cm") or self.cause.endswith(_UNANSWERED))


class AgentGone(AgentError):
    """The agent ended, and the conversation with it."""

    def __init__(self, host: str, message: str) -> None:
        super().__init__(host, "conversation", message)


class AgentClient:
    """Speaks to a newly started agent. Requests may come from several threads.

    Attributes:
        failure: the error that ended the conversation, if any.
        engine_death: the last message of an engine that ended during the run, if any.
    """

    def __init__(
        self,
        host: str,
        channel: Channel,
        monotonic: Callable[[], float],
        *,
        grace_seconds: float = DEFAULT_TIMING.grace_seconds,
        max_sampled_bytes: int = MAX_SAMPLED_BYTES,
    ) -> None:
        self._host = host
        self._grace_seconds = grace_seconds
        self._max_sampled_bytes = max_sampled_bytes
        self._channel = channel
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last_id = 0
        self._pending: dict[int, Future[dict[str, Any]]] = {}
        self._samples: list[AgentSample] = []
        self._sampled_bytes = 0
        self._end_reason = ""
        self.engine_death: str | None = None
        self.failure: TestbedError | None = None
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._listen, name=f"listen to {host}", daemon=True),
            threading.Thread(target=self._ping, name=f"ping {host}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def request(self, do: str, deadline_seconds: float = 10.0, **fields: Any) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            StepFailed: the agent reported a failure.
            TestbedError: the conversation has ended.
        """
        pending: Future[dict[str, Any]] = Future()
        with self._lock:
            if self.failure is not None:
                raise self.failure
            self._last_id += 1
            number = self._last_id
            self._pending[number] = pending
        try:
            line = json.dumps({"id": number, "do": do, "deadline_seconds": deadline_seconds, **fields})
            self._channel.send_line(line)
        except HostUnreachable as error:
            self._fail(error)
            raise
        patience = deadline_seconds + self._grace_seconds
        try:
            answer = pending.result(patience)
        except TimeoutError:
            self._fail(CommandTimeout(self._host, f"agent step {do}", patience))
            answer = pending.result()
        return self._checked(do, answer)

    def take_samples(self) -> tuple[AgentSample, ...]:
        """Return all samples since `forget_samples`."""
        with self._lock:
            return tuple(self._samples)

    def drain_samples(self) -> tuple[AgentSample, ...]:
        """Return new samples, each once."""
        with self._lock:
            samples, self._samples, self._sampled_bytes = tuple(self._samples), [], 0
            return samples

    def forget_samples(self) -> None:
        """Drop samples, for the next run."""
        self.drain_samples()
        self.engine_death = None

    def close(self) -> dict[str, Any]:
        """End the conversation. Return the agent's last answer, empty without one."""
        last: dict[str, Any] = {}
        if self.failure is None:
            with contextlib.suppress(TestbedError):
                last = self.request("bye", _BYE_SECONDS)
        self._fail(AgentGone(self._host, "the conversation was closed"))
        for thread in self._threads:
            thread.join(1.0)
        return last

    def _checked(self, do: str, answer: dict[str, Any]) -> dict[str, Any]:
        if answer.get("ok") is not True:
            raise StepFailed(self._host, answer.get("error") or {}, do)
        try:
            typed(ANSWERS.get(do, Mapping[str, Any]), answer)
        except ValueError as error:
            broken = self._broken_protocol(error)
            self._fail(broken)
            raise broken from None
        return answer

    def _fail(self, error: TestbedError) -> None:
        with self._lock:
            if self.failure is not None:
                return
            self.failure = error
            pending, self._pending = self._pending, {}
        self._closing.set()
        for request in pending.values():
            request.set_exception(error)
        self._channel.close()

    def _ping(self) -> None:
        while not self._closing.wait(PING_SECONDS):
            # No request waits for the answer to a ping. The listener receives it.
            with contextlib.suppress(HostUnreachable):
                self._channel.send_line(json.dumps({"id": _PING_ID, "do": "ping"}))

    def _listen(self) -> None:
        silence = _FIRST_MESSAGE_SECONDS
        try:
            while (line := self._channel.read_line(silence)) is not None:
                self._read(line)
                silence = _SILENCE_SECONDS
        except CommandTimeout:
            self._fail(CommandTimeout(self._host, "a sign of life from the agent", silence))
        except (HostUnreachable, AgentGone) as error:
            self._fail(error)
        except ValueError as error:  # a line that is too long
            self._fail(self._broken_protocol(error))
        else:
            reason = self._end_reason or self._channel.stderr_tail().strip()[-400:] or "without a message"
            self._fail(AgentGone(self._host, f"the agent ended: {reason}"))

    def _broken_protocol(self, error: ValueError) -> AgentGone:
        return AgentGone(self._host, f"the agent's answer breaks the protocol: {error!s:.300}")

    def _read(self, line: str) -> None:
        try:
            self._handle(typed(Mapping[str, Any], read_json(line)), len(line))
        except ValueError as error:
            # Usually a start-up file of the shell prints this.
            printed = f"the agent, or the shell before it, printed `{sanitized(line[:_MAX_SHOWN_CHARACTERS])}`"
            raise AgentGone(self._host, f"{printed}, which breaks the protocol: {error!s:.300}") from error

    def _handle(self, message: dict[str, Any], size: int) -> None:
        event = message.get("event")
        if event == "sample":
            self._keep(parse_sample(message, self._monotonic()), size)
        elif event == "engine_died":
            self.engine_death = typed(str, message.get("message", "no message"))[:MAX_WORDS]
        elif event == "bye":
            self._end_reason = typed(str, message.get("reason", ""))[:MAX_WORDS]
        elif event is None:
            number = typed(int | None, message.get("id"))
            typed(Mapping[str, Any] | None, message.get("error"))
            with self._lock:
                pending = self._pending.pop(number, None) if number is not None else None
            if pending is not None:
                pending.set_result(message)

    def _keep(self, sample: AgentSample, size: int) -> None:
        with self._lock:
            self._samples.append(sample)
            self._sampled_bytes += size
            if self._sampled_bytes > self._max_sampled_bytes:
                limit = self._max_sampled_bytes >> 20
                raise AgentGone(self._host, f"the controller left more than {limit} MiB of the agent's samples unread")
