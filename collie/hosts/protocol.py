"""The conversation with one agent: requests, answers, samples and keepalives.

Rules:

1. Every request has a deadline at the agent, and a slightly later one here. An answer that misses both ends the
   conversation, as the agent's state is unknown.
2. The agent answers a ping every 1.5 s, so silence means a dead agent or a dead host.
3. A failed conversation stays failed, and every request raises its failure. The channel is closed, so a live agent sees
   the end of its input and cleans up.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from collie.errors import AgentError, CommandTimeout, HostUnreachable, TestbedError
from collie.hosts.answers import ANSWERS
from collie.hosts.timing import DEFAULT_TIMING
from collie.plain import typed
from collie.ports import Channel
from collie.readings.samples import AgentSample, parse_sample
from collie.untrusted import read_json, sanitized

PING_SECONDS = 1.5
SILENCE_SECONDS = 10.0
"""Six unanswered pings. The agent's lease is 6 s, so it has ended itself by then."""
FIRST_WORD_SECONDS = 45.0
"""Until the first message: importing pyverbs takes 2 s on an idle emulated CPU, many times that on a busy one."""
BYE_SECONDS = 5.0
"""Ending an engine takes a second, and two more when it must be killed."""
PING_ID = 0
_SHOWN_CHARACTERS = 80
MAX_WORDS = 2000
"""Characters of an agent's message that are repeated."""
MAX_SAMPLED_BYTES = 128 << 20
"""Limit of a conversation's unread samples: an hour of the richest NIC at four a second."""

_UNANSWERED = ("ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "timeout")


class StepFailed(AgentError):
    """The agent reported that a step failed. The conversation goes on.

    Attributes:
        do: the request.
        kind: `unsupported`, `setup`, `timeout`, `died`, `bad_request` or `internal`.
        cause: countable, such as `create_qp ENOMEM`.
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
        """Whether a set-up failed for want of an answer from the other host."""
        return self.do == "connect" and (self.cause.startswith("rdma_cm") or self.cause.endswith(_UNANSWERED))


class AgentGone(AgentError):
    """The agent ended, and the conversation with it."""

    def __init__(self, host: str, message: str) -> None:
        super().__init__(host, "conversation", message)


@dataclass
class _Pending:
    """A request without its answer."""

    answered: threading.Event = field(default_factory=threading.Event)
    answer: dict[str, Any] | None = None


class AgentClient:
    """Speaks to the agent behind a channel. Requests may come from several threads.

    Args:
        host: name for messages.
        channel: to an agent just started.
        monotonic: the controller's clock.
        grace_seconds: wait for an answer beyond the agent's deadline.
        max_sampled_bytes: limit of unread samples.
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
        self._pending: dict[int, _Pending] = {}
        self._samples: list[AgentSample] = []
        self._sampled_bytes = 0
        self._engine_death: str | None = None
        self._failure: TestbedError | None = None
        self._said_bye = ""
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._listen, name=f"listen to {host}", daemon=True),
            threading.Thread(target=self._ping, name=f"ping {host}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def failure(self) -> TestbedError | None:
        """The error that ended the conversation, if any."""
        return self._failure

    @property
    def engine_death(self) -> str | None:
        """The last message of an engine that ended during the run, if any."""
        return self._engine_death

    def request(self, do: str, deadline_seconds: float = 10.0, **fields: Any) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            StepFailed: the agent reported a failure.
            TestbedError: the conversation has ended.
        """
        pending = _Pending()
        with self._lock:
            if self._failure is not None:
                raise self._failure
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
        if not pending.answered.wait(patience):
            self._fail(CommandTimeout(self._host, f"agent step {do}", patience))
        return self._answer(do, number, pending)

    def take_samples(self) -> tuple[AgentSample, ...]:
        """Return all samples since `forget_samples`."""
        with self._lock:
            return tuple(self._samples)

    def drain_samples(self) -> tuple[AgentSample, ...]:
        """Return new samples, each once."""
        with self._lock:
            samples = tuple(self._samples)
            self._samples.clear()
            self._sampled_bytes = 0
            return samples

    def forget_samples(self) -> None:
        """Drop samples, for the next run."""
        with self._lock:
            self._samples.clear()
            self._sampled_bytes = 0
            self._engine_death = None

    def close(self) -> dict[str, Any]:
        """End the conversation. The agent destroys its remaining queue pairs.

        Returns:
            The agent's last answer. Empty without one.
        """
        last: dict[str, Any] = {}
        if self._failure is None:
            with contextlib.suppress(TestbedError):
                last = self.request("bye", BYE_SECONDS)
        self._fail(AgentGone(self._host, "the conversation was closed"))
        for thread in self._threads:
            thread.join(1.0)
        return last

    def _answer(self, do: str, number: int, pending: _Pending) -> dict[str, Any]:
        with self._lock:
            self._pending.pop(number, None)
        answer = pending.answer
        if answer is None:
            assert self._failure is not None, "only a failure leaves a request without an answer"
            raise self._failure
        if answer.get("ok") is not True:
            raise StepFailed(self._host, answer.get("error") or {}, do)
        try:
            typed(ANSWERS.get(do, Mapping[str, Any]), answer)
        except ValueError as error:
            gone = self._something_else(error)
            self._fail(gone)
            raise gone from None
        return answer

    def _fail(self, error: TestbedError) -> None:
        with self._lock:
            if self._failure is not None:
                return
            self._failure = error
            pending, self._pending = self._pending, {}
        self._closing.set()
        for waiting in pending.values():
            waiting.answered.set()
        self._channel.close()

    def _ping(self) -> None:
        while not self._closing.wait(PING_SECONDS):
            # The listener sees the answer, and no request waits for it.
            with contextlib.suppress(HostUnreachable):
                self._channel.send_line(json.dumps({"id": PING_ID, "do": "ping"}))

    def _listen(self) -> None:
        silence = FIRST_WORD_SECONDS
        try:
            while (line := self._channel.read_line(silence)) is not None:
                self._hear(line)
                silence = SILENCE_SECONDS
        except CommandTimeout:
            self._fail(CommandTimeout(self._host, "a sign of life from the agent", silence))
        except (HostUnreachable, AgentGone) as error:
            self._fail(error)
        except ValueError as error:  # a line without an end
            self._fail(self._something_else(error))
        else:
            words = self._said_bye or self._channel.stderr_tail().strip()[-400:] or "without a message"
            self._fail(AgentGone(self._host, f"the agent ended: {words}"))

    def _something_else(self, error: ValueError) -> AgentGone:
        return AgentGone(self._host, f"the agent's answer breaks the protocol: {error!s:.300}")

    def _hear(self, line: str) -> None:
        try:
            self._take(typed(Mapping[str, Any], read_json(line)), len(line))
        except ValueError as error:
            # Usually a start-up file of the shell prints something.
            said = f"the agent, or the shell before it, printed `{sanitized(line[:_SHOWN_CHARACTERS])}`"
            raise AgentGone(self._host, f"{said}, which breaks the protocol: {error!s:.300}") from error

    def _take(self, message: dict[str, Any], size: int) -> None:
        """Handle one message of the agent, of `size` characters.

        Raises:
            ValueError: it breaks the protocol.
        """
        event = message.get("event")
        if event == "sample":
            self._keep(parse_sample(message, self._monotonic()), size)
        elif event == "engine_died":
            self._engine_death = typed(str, message.get("message", "no message"))[:MAX_WORDS]
        elif event == "bye":
            self._said_bye = typed(str, message.get("reason", ""))[:MAX_WORDS]
        elif event is None:
            number = typed(int | None, message.get("id"))
            typed(Mapping[str, Any] | None, message.get("error"))
            with self._lock:
                pending = self._pending.get(number) if number is not None else None
            if pending is not None:
                pending.answer = message
                pending.answered.set()

    def _keep(self, sample: AgentSample, size: int) -> None:
        with self._lock:
            self._samples.append(sample)
            self._sampled_bytes += size
            if self._sampled_bytes > self._max_sampled_bytes:
                raise ValueError(f"more than {self._max_sampled_bytes >> 20} MiB of unread samples")
