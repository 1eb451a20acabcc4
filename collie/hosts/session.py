"""The session with one host. Each version of the agent is shipped once, and the agent is started when needed.

1. A new agent starts after the channel of the old one is closed, so there is at most one.
2. A start is retried after transient errors: a silent host, an agent that ends.
3. Only the agent's archive is written to a host. Other users cannot replace it (`collie/agent/loader.py`).
4. Closing waits for no host. It cuts off a start under way.
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

from collie.agent import PROTOCOL, loader
from collie.agent.build import build, digest
from collie.errors import CommandFailed, CommandTimeout, HostUnreachable, TestbedError
from collie.hosts.host_info import HostInfo, parse_host_info
from collie.hosts.protocol import AgentClient, AgentGone
from collie.hosts.timing import DEFAULT_TIMING, HostTiming
from collie.inventory.hosts import Host
from collie.plain import typed
from collie.ports import Channel, Clock, Completed, Remote, left_in_all
from collie.untrusted import read_json, whole_number

logger = logging.getLogger(__name__)

HOSTS_AT_ONCE = 64
"""A process can often open no more than 1024 file descriptors."""

LEASE_SECONDS = 6.0
"""A host without its controller is silent within 10 s: the agent needs up to a second to destroy the queue pairs, and
two more to kill its engine. Four pings fit into the lease.
"""
_HELLO_SECONDS = 40.0
"""The answer opens every device, which takes 2 s on an idle emulated CPU and many times that on a busy one."""
COMMAND_SECONDS = 20.0
_ANSWER_SECONDS = 5.0
"""With 10 s of silence and 10 s to open a channel, a lost host is known in 30 s."""
_CUT_OFF_SECONDS = 0.2

ASK_VERSION = ("-c", "import sys; print(*sys.version_info[:2])")
_MIN_PYTHON = (3, 9)


@dataclass(frozen=True, slots=True)
class Archive:
    """The shipped program, a zip archive or any Python program, at a path below the home directory."""

    data: bytes
    path: str

    @property
    def sha256(self) -> str:
        """The SHA-256 of the program, in hexadecimal digits."""
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
    """A host and its agent. Idle until first used."""

    def __init__(
        self, host: Host, remote: Remote, archive: Archive, clock: Clock, timing: HostTiming = DEFAULT_TIMING
    ) -> None:
        self.host = host
        self.timing = timing
        self._remote = remote
        self._archive = archive
        self.clock = clock
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._is_starting = False
        self._client: AgentClient | None = None
        self._info: HostInfo | None = None
        self._left = 0
        self._unreported: int | None = 0  # None after an agent that did not report
        self._left_pids: set[int] = set()

    @property
    def info(self) -> HostInfo:
        """The agent's description of the host."""
        self.client()
        assert self._info is not None, "every client has answered hello"
        return self._info

    def refreshed_info(self) -> HostInfo:
        """Read the description again between runs, because links, addresses and GIDs may change."""
        self._info = self._hello(self.client())
        return self._info

    def _hello(self, client: AgentClient, **fields: Any) -> HostInfo:
        answer = client.request("hello", _HELLO_SECONDS, protocol=PROTOCOL, **fields)
        try:
            return parse_host_info(answer)
        except ValueError as error:
            raise AgentGone(self.host.name, f"its hello breaks the protocol: {error!s:.300}") from error

    def run(self, argv: Sequence[str], timeout_seconds: float = COMMAND_SECONDS) -> Completed:
        """Run a command on the host, beside its agent."""
        return self._remote.run(argv, timeout_seconds)

    def client(self) -> AgentClient:
        """Return a conversation without a known failure. Start an agent if needed.

        Raises:
            HostUnreachable: the host is silent, after all attempts.
            TestbedError: no agent can be started, or the session is closed.
        """
        with self._lock:
            if self._client is not None and self._client.failure is None:
                return self._client
            self._drop()
            self._is_starting = True  # set before `_closing` is read. `close` sets `_closing`, then reads this
            try:
                self._client = self._started()
            finally:
                self._is_starting = False
            return self._client

    def _started(self) -> AgentClient:
        for pause in (*self.timing.start_pauses_seconds, None):
            if self._closing.is_set():
                break
            try:
                return self._start()
            except (HostUnreachable, CommandTimeout, AgentGone) as error:
                if pause is None or self._closing.is_set():
                    raise
                logger.info("%s; next attempt in %g s", error, pause)
                self.clock.sleep(pause, until=self._closing)
        raise TestbedError(f"host {self.host.name}: its session is closed")

    @property
    def is_live(self) -> bool:
        """Whether an agent runs without a known failure."""
        return self._client is not None and self._client.failure is None

    def answers(self) -> bool:
        """Whether the host runs a command, with or without its agent."""
        try:
            return self.run(["true"], _ANSWER_SECONDS).status == 0
        except TestbedError:
            return False

    def client_under_way(self) -> AgentClient:
        """Return the conversation of the present run, never a later one."""
        client = self._client
        if client is None:
            raise AgentGone(self.host.name, "no agent is running")
        if client.failure is not None:
            raise client.failure
        return client

    def request(self, do: str, deadline_seconds: float = 10.0, **fields: Any) -> dict[str, Any]:
        """Send a request to the agent of the present run."""
        return self.client_under_way().request(do, deadline_seconds, **fields)

    def abandon(self) -> None:
        """End the agent. The next use starts a new one."""
        with self._lock:
            self._drop()

    def disconnect(self) -> None:
        """End the agent and the connection. The next use starts both again."""
        with self._lock:
            self._drop()
            self._remote.close()

    def close(self) -> int | None:
        """End the agent and the connection for good. Return the number of queue pairs left, None if unknown."""
        self._closing.set()
        while not self._lock.acquire(timeout=_CUT_OFF_SECONDS if self._is_starting else -1):
            self._remote.close()
        try:
            self._drop()
            if self._left and self._left_pids:
                self._left = self._await_release(self._left)
            self._remote.close()
            return left_in_all(self._left, self._unreported)
        finally:
            self._lock.release()

    def _await_release(self, left: int) -> int:
        """Wait until the kernel has released our queue pairs. Return the number left."""
        late = self.clock.monotonic() + self.timing.release_seconds
        while True:
            try:
                listed = self.run(["rdma", "-j", "resource", "show", "qp"])
                if listed.status != 0:
                    return left
                pairs = typed(Sequence[Mapping[str, Any]], read_json(listed.stdout))
            except (TestbedError, ValueError):
                return left
            left = sum(pair.get("pid") in self._left_pids for pair in pairs)
            if not left or self.clock.monotonic() > late:
                break
            self.clock.sleep(self.timing.release_period_seconds)
        if left:
            logger.warning(
                "host %s: the kernel has not released %d of our queue pairs within %g s: their packets wait in a "
                "transmit queue. To drop these: ip link set NETDEV down; ip link set NETDEV up",
                self.host.name,
                left,
                self.timing.release_seconds,
            )
        return left

    def _drop(self) -> None:
        if self._client is None:
            return
        last, self._client = self._client.close(), None
        left = last.get("qps_left")
        # An agent counts only its own queue pairs, so those of earlier agents are added.
        self._left += left or 0
        if left:
            self._left_pids.update(last.get("pids") or ())
            logger.warning("host %s: %d queue pairs of pids %s are left", self.host.name, left, last.get("pids"))
        elif left is None:
            self._unreported = None
            logger.warning(
                "host %s: its agent did not report its queue pairs; it ends by itself within %g s. To see: "
                "rdma resource show qp",
                self.host.name,
                LEASE_SECONDS,
            )

    def _start(self) -> AgentClient:
        channel = self._running()
        client = AgentClient(self.host.name, channel, self.clock.monotonic, grace_seconds=self.timing.grace_seconds)
        try:
            self._info = self._hello(client, lease_seconds=LEASE_SECONDS)
        except AgentGone as error:
            client.close()
            self._explain_interpreter(error)
            raise
        except BaseException:
            client.close()
            raise
        return client

    def _running(self) -> Channel:
        channel, answer = self._loaded()
        if answer == loader.ABSENT:
            logger.info("host %s: shipping %s (%d bytes)", self.host.name, self._archive.path, len(self._archive.data))
            self._remote.put(self._archive.data, self._archive.path)
            channel, answer = self._loaded()
        if answer == loader.RUNNING:
            return channel
        if answer == loader.ABSENT:
            answer = f"{self._archive.path} differs from the data just written to it; another process writes there"
        raise TestbedError(f"host {self.host.name}: {answer.removeprefix(loader.REFUSED)}")

    def _loaded(self) -> tuple[Channel, str]:
        """Start the program. Return its channel and the loader's answer. The channel is open only for `RUNNING`."""
        argv = [self.host.python, "-c", loader.BOOT, self._archive.path, self._archive.sha256]
        channel = self._remote.open(argv)
        answer: str | None = None
        try:
            channel.send_line(_loader_source())
            answer = channel.read_line(_HELLO_SECONDS)
        finally:
            if answer != loader.RUNNING:
                channel.close()
        if answer in (loader.RUNNING, loader.ABSENT) or (answer or "").startswith(loader.REFUSED):
            return channel, answer or ""
        message = f"the agent ended: {channel.stderr_tail().strip()[-400:] or 'without a message'}"
        if answer is not None:  # usually a start-up file of the shell prints this
            message = f"the shell before the agent printed `{answer[:80]}`; it must print nothing"
        gone = AgentGone(self.host.name, message)
        self._explain_interpreter(gone)
        raise gone

    def _explain_interpreter(self, error: AgentGone) -> None:
        """Raise the interpreter's fault instead of `error`, if the interpreter has one."""
        argv = [self.host.python, *ASK_VERSION]
        answer = self.run(argv)
        version = python_version(answer.stdout)
        if answer.status != 0 or version is None:
            message = answer.stderr or "it is no Python interpreter; change `python` in the hosts file"
            raise CommandFailed(self.host.name, argv, answer.status, message) from error
        if problem := python_problem(self.host.python, version):
            raise TestbedError(f"host {self.host.name}: {problem}; change `python` in the hosts file") from error


def last_line(output: str) -> str:
    """Return the last line of an output. A shell's start-up files may print others."""
    return "".join(output.splitlines()[-1:])


def python_version(output: str) -> tuple[int, int] | None:
    """Return the version in the answer to `ASK_VERSION`. None for another program."""
    match [whole_number(word) for word in last_line(output).split()]:
        case [int(major), int(minor)]:
            return major, minor
    return None


def python_problem(interpreter: str, version: tuple[int, int]) -> str | None:
    """Describe an interpreter that is too old for the agent."""
    if version >= _MIN_PYTHON:
        return None
    return f"{interpreter} is Python {version[0]}.{version[1]}; the agent needs 3.9 or newer"


@cache
def _loader_source() -> str:
    return inspect.getsource(loader).encode().hex()
