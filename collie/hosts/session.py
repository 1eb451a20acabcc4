"""One host: the agent is shipped once per content, started when needed, and started again when it is gone.

Rules:

1. There is at most one agent of ours per session; a new one is started only after the old conversation has failed, and
   its channel is closed first, so the old one is ending.
2. Starting is tried a finite number of times, with growing pauses, and only for what may pass: a host that does not
   answer, an agent that ends. A wrong host key, a missing interpreter or missing pyverbs are reported at once.
3. Nothing is written to a host but the agent's archive, under a name made of its content, and the archive unpacked.
   Nothing is written or started where others on the host could exchange it (`collie/agent/loader.py`).
4. Closing waits for no host: what is asked of one to start its agent is cut off, and no further attempt is made.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from collie.agent import loader
from collie.agent.build import build, digest
from collie.errors import CommandFailed, CommandTimeout, HostUnreachable, TestbedError
from collie.hosts.facts import HostFacts, parse_facts
from collie.hosts.protocol import AgentClient, AgentGone
from collie.inventory.hosts import Host
from collie.plain import typed
from collie.ports import Channel, Clock, Completed, Remote
from collie.untrusted import read_json, whole_number

logger = logging.getLogger(__name__)

HOSTS_AT_ONCE = 64
"""Whoever asks many hosts keeps to this: a connection takes file descriptors, of which a process mostly has 1024."""

PROTOCOL = 2
LEASE_SECONDS = 6.0
"""The dead man's switch: a controller that is stopped or cut off leaves silent hosts within 10 s
(docs/explanation/safety.md). The agent needs up to a second to have its engine destroy the queue pairs, and two more
when it has to kill it. Four pings fit into the lease."""
HELLO_SECONDS = 40.0
"""Importing pyverbs and opening every device takes 2 s on an idle emulated CPU, many times that on a busy one."""
COMMAND_SECONDS = 20.0
ANSWER_SECONDS = 5.0
"""For a command that does nothing. With ten seconds of silence before and ten for a channel to open, a host that is
gone is known to be within 30 s."""
START_PAUSES_SECONDS = (0.5, 2.0, 6.0)
"""Between attempts. A host whose one CPU still tears down what a hard workload left behind answers nobody for half a
minute; one that is gone refuses at once, and is given up after these 8.5 seconds."""

ASK_VERSION = ("-c", "import sys; print(*sys.version_info[:2])")
OLDEST_PYTHON = (3, 9)

LET_GO_SECONDS = 15.0
"""For the kernel to take back queue pairs whose process was killed."""
LOOK_SECONDS = 0.5
CUT_OFF_SECONDS = 0.2
"""Between one cut and the next: an agent's start takes several steps, and the first cut may fall between two."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The program that is shipped.

    Attributes:
        data: a zip archive, or any Python program.
        path: on the host, relative to the home directory; names the content.
    """

    data: bytes
    path: str

    @property
    def sha256(self) -> str:
        """Of the data, in hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()

    @classmethod
    def of(cls, data: bytes) -> Archive:
        """Name a program after its content."""
        return cls(data, f".cache/collie/agent-{digest(data)}.pyz")

    @classmethod
    def agent(cls) -> Archive:
        """Build Collie's agent."""
        return cls.of(build())


class HostSession:
    """A host and the agent on it. Does nothing until first asked.

    Args:
        host: inventory entry.
        remote: how to reach it.
        archive: the agent.
        clock: for pauses and for the stamps of samples.
    """

    def __init__(self, host: Host, remote: Remote, archive: Archive, clock: Clock) -> None:
        self.host = host
        self._remote = remote
        self._archive = archive
        self._clock = clock
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._is_starting = False
        self._client: AgentClient | None = None
        self._facts: HostFacts | None = None
        self._left: int | None = 0
        self._left_pids: set[int] = set()

    @property
    def facts(self) -> HostFacts:
        """What the agent says of the host.

        Raises:
            TestbedError: there is no agent to ask.
        """
        self.client()
        assert self._facts is not None, "a client has said hello"
        return self._facts

    def refreshed_facts(self) -> HostFacts:
        """Ask the agent of its host anew: links, addresses and GIDs come and go. No run may be under way.

        Raises:
            TestbedError: it cannot be asked.
        """
        client = self.client()
        answer = client.request("hello", HELLO_SECONDS, protocol=PROTOCOL)
        try:
            self._facts = parse_facts(answer)
        except ValueError as error:
            raise AgentGone(self.host.name, f"its hello is not of this protocol: {error!s:.300}") from error
        return self._facts

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        """Run a command on the host, beside its agent.

        Raises:
            TestbedError: the host does not answer, or the command does not end in time.
        """
        return self._remote.run(argv, timeout_seconds)

    def client(self) -> AgentClient:
        """Return a conversation that was sound when last heard of; starts an agent when there is none.

        Raises:
            HostUnreachable: the host does not answer, after all attempts.
            TestbedError: no agent can be started there, or the session is closed.
        """
        with self._lock:
            if self._client is not None and self._client.failure is None:
                return self._client
            self._drop()
            self._is_starting = True  # before the first look at `_closing`: `close` looks the other way round
            try:
                self._client = self._started()
            finally:
                self._is_starting = False
            return self._client

    def _started(self) -> AgentClient:
        for pause in (*START_PAUSES_SECONDS, None):
            if self._closing.is_set():
                break
            try:
                return self._start()
            except (HostUnreachable, CommandTimeout, AgentGone) as error:
                if pause is None or self._closing.is_set():
                    raise
                logger.info("%s; next attempt in %g s", error, pause)
                self._clock.sleep(pause, until=self._closing)
        raise TestbedError(f"host {self.host.name}: its session is closed")

    @property
    def is_live(self) -> bool:
        """Whether an agent runs and its conversation is sound."""
        return self._client is not None and self._client.failure is None

    def answers(self) -> bool:
        """Whether the host itself runs a command, whatever became of its agent."""
        try:
            return self._remote.run(["true"], ANSWER_SECONDS).status == 0
        except TestbedError:
            return False

    def client_under_way(self) -> AgentClient:
        """Return the conversation of the run under way; unlike `client`, never a new one: a run dies with its agent.

        Raises:
            TestbedError: the conversation has ended.
        """
        client = self._client
        if client is None:
            raise AgentGone(self.host.name, "no agent is running")
        if client.failure is not None:
            raise client.failure
        return client

    def request(self, do: str, deadline_seconds: float = 10.0, **fields: Any) -> dict[str, Any]:
        """Ask the agent of the run under way.

        Raises:
            StepFailed: it answered that this failed.
            TestbedError: the conversation has ended.
        """
        return self.client_under_way().request(do, deadline_seconds, **fields)

    def abandon(self) -> None:
        """End the agent, with whatever it holds; the next use starts a new one."""
        with self._lock:
            self._drop()

    def disconnect(self) -> None:
        """End the agent and the connection; the next use starts both anew."""
        with self._lock:
            self._drop()
            self._remote.close()

    def close(self) -> int | None:
        """End the agent and the connection for good, and cut off whoever starts one.

        Returns:
            How many of our queue pairs the kernel still lists, if it tells.
        """
        self._closing.set()
        while not self._lock.acquire(timeout=CUT_OFF_SECONDS if self._is_starting else -1):
            self._remote.close()
        try:
            self._drop()
            if self._left and self._left_pids:
                self._left = self._let_go(self._left)
            self._remote.close()
            return self._left
        finally:
            self._lock.release()

    def _let_go(self, left: int) -> int:
        """Wait until the kernel has taken back what agents left behind; return how many queue pairs it still lists.

        A queue pair lives as long as a packet of its own waits in a transmit queue, and so does the process that has
        it, killed or not. Where the kernel cannot be asked it is what the agents have said.
        """
        late = self._clock.monotonic() + LET_GO_SECONDS
        while True:
            try:
                said = self._remote.run(["rdma", "-j", "resource", "show", "qp"], COMMAND_SECONDS)
                pairs = typed(Sequence[Mapping[str, Any]], read_json(said.stdout)) if said.status == 0 else None
            except (TestbedError, ValueError):
                pairs = None
            if pairs is None:
                return left
            left = sum(pair.get("pid") in self._left_pids for pair in pairs)
            if not left or self._clock.monotonic() > late:
                break
            self._clock.sleep(LOOK_SECONDS)
        if left:
            logger.warning(
                "host %s: the kernel has not let go of %d queue pairs of ours within %g s: packets of theirs wait in a "
                "transmit queue. To drop these: ip link set NETDEV down; ip link set NETDEV up",
                self.host.name,
                left,
                LET_GO_SECONDS,
            )
        return left

    def _drop(self) -> None:
        if self._client is None:
            return
        last, self._client = self._client.close(), None
        left = last.get("qps_left")
        # Each agent knows of its own alone: what an earlier one has left is not gone because the next left nothing.
        self._left = (self._left or None) if left is None else (self._left or 0) + left
        if left:
            self._left_pids.update(last.get("pids") or ())
            logger.warning("host %s: %d queue pairs of pids %s are left", self.host.name, left, last.get("pids"))
        elif left is None:
            logger.warning(
                "host %s: its agent gave no account of its queue pairs; without us it ends within %g s. To see: "
                "rdma resource show qp",
                self.host.name,
                LEASE_SECONDS,
            )

    def _start(self) -> AgentClient:
        channel = self._running()
        client = AgentClient(self.host.name, channel, self._clock.monotonic)
        try:
            answer = client.request("hello", HELLO_SECONDS, protocol=PROTOCOL, lease_seconds=LEASE_SECONDS)
            self._facts = parse_facts(answer)
        except AgentGone as error:
            client.close()
            self._explain_interpreter(error)
            raise
        except ValueError as error:
            client.close()
            raise AgentGone(self.host.name, f"its hello is not of this protocol: {error!s:.300}") from error
        except BaseException:
            client.close()
            raise
        return client

    def _running(self) -> Channel:
        """Start the program, and ship it first where the host does not have it."""
        channel, answer = self._loaded()
        if answer == loader.ABSENT:
            logger.info("host %s: shipping %s (%d bytes)", self.host.name, self._archive.path, len(self._archive.data))
            self._remote.put(self._archive.data, self._archive.path)
            channel, answer = self._loaded()
        if answer == loader.RUNNING:
            return channel
        if answer == loader.ABSENT:
            answer = f"{self._archive.path} is not what was just written to it; see who else writes there"
        raise TestbedError(f"host {self.host.name}: {answer.removeprefix(loader.REFUSED)}")

    def _loaded(self) -> tuple[Channel, str]:
        """Have the host check and start what it has; return the channel, and what the loader answers.

        A channel of which the answer is not `RUNNING` is closed.

        Raises:
            AgentGone: it ends without an answer, or with something else.
        """
        argv = [self.host.python, "-c", loader.BOOT, self._archive.path, self._archive.sha256]
        channel = self._remote.open(argv)
        answer: str | None = None
        try:
            channel.send_line(_loader_source())
            answer = channel.read_line(HELLO_SECONDS)
        finally:
            if answer != loader.RUNNING:
                channel.close()
        if answer in (loader.RUNNING, loader.ABSENT) or (answer or "").startswith(loader.REFUSED):
            return channel, answer or ""
        words = f"the agent ended: {channel.stderr_tail().strip()[-400:] or 'without a word'}"
        if answer is not None:  # a start-up file of the shell that prints something is the usual reason
            words = f"the shell before the agent said `{answer[:80]}`; it has to be silent"
        gone = AgentGone(self.host.name, words)
        self._explain_interpreter(gone)
        raise gone

    def _explain_interpreter(self, error: AgentGone) -> None:
        """Replace "the agent ended" by what is wrong with the interpreter, if that is what is wrong."""
        argv = [self.host.python, *ASK_VERSION]
        answer = self._remote.run(argv, COMMAND_SECONDS)
        version = python_version(answer.stdout)
        if answer.status != 0 or version is None:
            message = answer.stderr or "it is no Python interpreter; change `python` in the hosts file"
            raise CommandFailed(self.host.name, argv, answer.status, message) from error
        if version < OLDEST_PYTHON:
            said = f"{self.host.python} is Python {'.'.join(map(str, version))}; the agent needs 3.9 or newer"
            raise TestbedError(f"host {self.host.name}: {said}; change `python` in the hosts file") from error


def last_line(output: str) -> str:
    """Return the last line of a command's output: start-up files of a shell may have printed others before it."""
    return "".join(output.splitlines()[-1:])


def python_version(output: str) -> tuple[int, int] | None:
    """Return the version that an interpreter gives for `ASK_VERSION`; None where it is no interpreter of Python."""
    match [whole_number(word) for word in last_line(output).split()]:
        case [int(major), int(minor)]:
            return major, minor
    return None


@cache
def _loader_source() -> str:
    """Return the loader as the one line that its `BOOT` reads: hexadecimal digits."""
    return inspect.getsource(loader).encode().hex()
