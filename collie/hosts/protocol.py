"""One conversation with one agent: requests and their answers, samples, and signs of life.

Rules:

1. Every request has a deadline at the agent, and a little more at this end. An answer that misses both ends the
   conversation: nobody knows any more what the agent is doing.
2. The agent hears a ping every 1.5 seconds and answers it, so a silent line means a dead agent or a dead host.
3. Once the conversation has failed it stays failed; every request under way and to come raises what it failed of. The
   channel is closed, so that the agent, if it still lives, sees the end of its input and cleans up.
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
from collie.plain import typed
from collie.ports import Channel
from collie.readings.samples import AgentSample, parse_sample
from collie.untrusted import defused, read_json

PING_SECONDS = 1.5
SILENCE_SECONDS = 10.0
"""Six pings without an answer. The agent's lease is 6 s, so by then it has ended itself."""
FIRST_WORD_SECONDS = 45.0
"""An agent says nothing before it has imported pyverbs: 2 s on an idle emulated CPU, many times that on a busy one."""
BYE_SECONDS = 5.0
"""Ending an engine takes a second when it listens, two more when it has to be killed."""
PING_ID = 0
_SHOWN_CHARACTERS = 80
MAX_WORDS = 2000
"""Characters of a message from an agent that are repeated."""
MAX_SAMPLED_BYTES = 128 << 20
"""Of samples, as they came, that a conversation keeps: an hour of the richest NIC at four a second."""
GRACE_SECONDS = 4.0
"""For an answer to travel, on a host that is busy enough to miss its own deadline."""
_UNANSWERED = ("ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "timeout")


class StepFailed(AgentError):
    """The agent answered that a step failed; the conversation goes on.

    Attributes:
        do: what was asked for.
        kind: `unsupported`, `setup`, `timeout`, `died`, `bad_request` or `internal`.
        cause: short and countable, such as `create_qp ENOMEM`.
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
        """Whether a set-up failed as nothing came back from the other host."""
        return self.do == "connect" and (self.cause.startswith("rdma_cm") or self.cause.endswith(_UNANSWERED))


class AgentGone(AgentError):
    """The agent ended, and the conversation with it."""

    def __init__(self, host: str, message: str) -> None:
        super().__init__(host, "conversation", message)


@dataclass
class _Pending:
    """A request that waits for its answer."""

    answered: threading.Event = field(default_factory=threading.Event)
    answer: dict[str, Any] | None = None


class AgentClient:
    """Speaks to the agent at the other end of a channel. Requests may come from several threads.

    Args:
        host: name for messages.
        channel: to an agent that was just started.
        monotonic: the controller's clock, to stamp samples with.
    """

    def __init__(self, host: str, channel: Channel, monotonic: Callable[[], float]) -> None:
        self._host = host
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
        """What ended the conversation, if anything has."""
        return self._failure

    @property
    def engine_death(self) -> str | None:
        """The last words of an engine that ended during the run, if it did."""
        return self._engine_death

    def request(self, do: str, deadline_seconds: float = 10.0, **fields: Any) -> dict[str, Any]:
        """Ask the agent to do something and return its answer.

        Raises:
            StepFailed: it answered that this failed.
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
        if not pending.answered.wait(deadline_seconds + GRACE_SECONDS):
            self._fail(CommandTimeout(self._host, f"agent step {do}", deadline_seconds + GRACE_SECONDS))
        return self._answer(do, number, pending)

    def take_samples(self) -> tuple[AgentSample, ...]:
        """Return all samples since `forget_samples`."""
        with self._lock:
            return tuple(self._samples)

    def drain_samples(self) -> tuple[AgentSample, ...]:
        """Return all samples since the last call, each once."""
        with self._lock:
            samples = tuple(self._samples)
            self._samples.clear()
            self._sampled_bytes = 0
            return samples

    def forget_samples(self) -> None:
        """Start anew, for the next run."""
        with self._lock:
            self._samples.clear()
            self._sampled_bytes = 0
            self._engine_death = None

    def close(self) -> dict[str, Any]:
        """Say goodbye and end the conversation; the agent destroys what is left.

        Returns:
            The agent's last answer; empty when there was none.
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
            # Nobody waits for the answer: that it comes is enough, and the listener sees it.
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
            words = self._said_bye or self._channel.stderr_tail().strip()[-400:] or "without a word"
            self._fail(AgentGone(self._host, f"the agent ended: {words}"))

    def _something_else(self, error: ValueError) -> AgentGone:
        return AgentGone(self._host, f"the agent said something else than the protocol has: {error!s:.300}")

    def _hear(self, line: str) -> None:
        try:
            self._take(typed(Mapping[str, Any], read_json(line)), len(line))
        except ValueError as error:
            # A start-up file of the shell that prints something is the usual reason.
            said = f"the agent, or the shell before it, said `{defused(line[:_SHOWN_CHARACTERS])}`"
            raise AgentGone(self._host, f"{said}, which is not of this protocol: {error!s:.300}") from error

    def _take(self, message: dict[str, Any], size: int) -> None:
        """Take one message of the agent, of so many characters.

        Raises:
            ValueError: it is none of the protocol.
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
            if self._sampled_bytes > MAX_SAMPLED_BYTES:
                raise ValueError(f"more than {MAX_SAMPLED_BYTES >> 20} MiB of samples that nobody asked for")
