"""A controller in a hundred lines: drives two agents over the ``ssh`` program, for benchmarks and tests of the agent.

The product's controller is ``collie.hosts``; this one exists so that the agent can be measured and tested by itself.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from collie.hosts.session import Archive

PING_SECONDS = 1.5
OTHER = {"requester": "responder", "responder": "requester"}


@dataclass(frozen=True)
class Host:
    """One machine of an inventory."""

    name: str
    address: str
    port: int
    user: str
    identity_file: str
    known_hosts: str
    data_address: str
    device: str
    gid_index: int
    python: str

    def argv(self, command: str) -> list[str]:
        """Return the argument list that runs ``command`` on the host."""
        options = ["-F", "none", "-i", self.identity_file, "-o", f"UserKnownHostsFile={self.known_hosts}"]
        options += ["-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-p", str(self.port)]
        return ["ssh", *options, f"{self.user}@{self.address}", command]

    def run(self, command: str, data: bytes | None = None, timeout: float = 60.0) -> str:
        """Run a command and return what it printed."""
        done = subprocess.run(self.argv(command), input=data or b"", capture_output=True, timeout=timeout, check=True)
        return done.stdout.decode()


def read_inventory(path: Path) -> list[Host]:
    """Read the hosts of the first pair or group; their keys go into a known_hosts file of our own."""
    content = yaml.safe_load(path.read_text())
    names = content["pairs"][0]
    hosts = [content["hosts"][name] for name in names]
    known = Path(tempfile.mkdtemp(prefix="collie-agent-driver-")) / "known_hosts"
    known.write_text("".join(f"[{host['address']}]:{host['port']} {host['host_key']}\n" for host in hosts))
    fields = ("address", "port", "user", "identity_file", "data_address", "device", "gid_index", "python")
    picked = [{key: content["hosts"][name][key] for key in fields} for name in names]
    return [Host(name=name, known_hosts=str(known), **host) for name, host in zip(names, picked, strict=True)]


class NoAnswer(Exception):
    """An agent did not answer in time."""


class AgentRefused(Exception):
    """An agent answered with an error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error['kind']} in {error['step']}: {error['message']}")
        self.error = error


class RemoteAgent:
    """One agent, started over SSH. `archive` is another program than Collie's agent."""

    def __init__(self, host: Host, archive: Archive | None = None) -> None:
        self.host = host
        self.samples: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.prepared: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self._replies: queue.Queue[dict[str, Any]] = queue.Queue()
        self._lock = threading.Lock()
        archive = archive or Archive.agent()
        host.run(f"mkdir -p {Path(archive.path).parent} && cat > {archive.path}", archive.data)
        command = f"exec {host.python} {archive.path}"
        self.process = subprocess.Popen(
            host.argv(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.stop_pinging = threading.Event()
        self._threads = [threading.Thread(target=target) for target in (self._read, self._ping, self._discard_log)]
        for thread in self._threads:
            thread.daemon = True
            thread.start()
        self.facts = self.ask("hello", protocol=3, deadline_seconds=20)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                message = json.loads(line)
                if message.get("event") == "sample":
                    self.samples.append(message)
                elif "event" in message:
                    self.events.append(message)
                elif message["id"] != 0:
                    self._replies.put(message)

    def _discard_log(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for _ in lines:
                pass

    def _ping(self) -> None:
        while not self.stop_pinging.wait(PING_SECONDS) and self.process.poll() is None:
            try:
                self._send({"id": 0, "do": "ping"})
            except OSError:
                return

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with self._lock:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            AgentRefused: the agent answered with an error.
            NoAnswer: it did not answer in time. It is of no more use.
        """
        self._send({"id": next(self._numbers), "do": do, **fields})
        seconds = fields.get("deadline_seconds", 10) + 15
        try:
            reply = self._replies.get(timeout=seconds)
        except queue.Empty:
            raise NoAnswer(f"{self.host.name} did not answer {do} in {seconds} s") from None
        if not reply["ok"]:
            raise AgentRefused(reply["error"])
        return reply

    def close(self) -> None:
        """End the agent by hanging up, and kill the connection where that does not help."""
        self.stop_pinging.set()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join()


@dataclass
class Measured:
    """What one run showed in the window after the warm-up, and each agent's last answers.

    Delivered rates are under the key of the end that counts, posted ones under the requester's. ``window`` is on this
    machine's monotonic clock.
    """

    bytes_per_second: dict[str, float] = field(default_factory=dict)
    messages_per_second: dict[str, float] = field(default_factory=dict)
    posted_per_second: dict[str, float] = field(default_factory=dict)
    window: tuple[float, float] = (0.0, 0.0)
    totals: list[dict[str, Any]] = field(default_factory=list)
    destroyed: list[dict[str, Any]] = field(default_factory=list)


def ends(bidirectional: bool = False, loopback: bool = False) -> list[list[dict[str, str]]]:
    """Return the flow ends of both hosts."""
    first = [{"flow": "a-b", "role": "requester"}]
    second = [{"flow": "a-b", "role": "responder"}]
    if bidirectional:
        first.append({"flow": "b-a", "role": "responder"})
        second.append({"flow": "b-a", "role": "requester"})
    if loopback:
        second += [{"flow": "b-b", "role": "requester"}, {"flow": "b-b", "role": "responder"}]
    return [first, second]


def begin(
    agents: list[RemoteAgent],
    workload: Mapping[str, Any],
    flows: Sequence[Sequence[Mapping[str, Any]]],
    deadline_seconds: float = 30,
    period_seconds: float = 0.25,
    verify: bool = False,
    **more: Any,
) -> None:
    """Bring a workload to running; ``more`` are further fields of ``prepare``."""
    set_up(agents, workload, flows, deadline_seconds, **more)
    begin_phase(agents, workload, flows, deadline_seconds, period_seconds, verify=verify)


def set_up(
    agents: list[RemoteAgent],
    made_for: Mapping[str, Any],
    flows: Sequence[Sequence[Mapping[str, Any]]],
    deadline_seconds: float = 30,
    **more: Any,
) -> None:
    """Make and connect the objects of a set-up."""
    endpoints: dict[str, Any] = {}
    keys = []
    for agent, own in zip(agents, flows, strict=True):
        host = agent.host
        reply = agent.ask(
            "prepare",
            device=host.device,
            gid_index=host.gid_index,
            workload=dict(made_for),
            flows=own,
            deadline_seconds=deadline_seconds,
            **more,
        )
        agent.prepared = reply
        endpoints.update(reply["endpoints"])
        keys.append(list(reply["endpoints"]))

    def connect(agent: RemoteAgent, own_keys: list[str]) -> None:
        split = [key.split("/") for key in own_keys]
        peers = {f"{flow}/{role}": endpoints[f"{flow}/{OTHER[role]}"] for flow, role in split}
        agent.ask("connect", peers=peers, deadline_seconds=deadline_seconds)

    with ThreadPoolExecutor(len(agents)) as pool:  # by RDMA-CM, one side waits for the other
        for step in [pool.submit(connect, agent, own) for agent, own in zip(agents, keys, strict=True)]:
            step.result()


def begin_phase(
    agents: list[RemoteAgent],
    workload: Mapping[str, Any],
    flows: Sequence[Sequence[Mapping[str, Any]]],
    deadline_seconds: float = 30,
    period_seconds: float = 0.25,
    *,
    verify: bool = False,
) -> None:
    """Bring a phase of a set-up to running, on the flows that it uses."""
    for agent, own in zip(agents, flows, strict=True):
        agent.ask("phase", workload=dict(workload), flows=own, verify=verify, deadline_seconds=deadline_seconds)
    for agent in reversed(agents):
        agent.ask("start", period_seconds=period_seconds)


def measure(
    agents: list[RemoteAgent],
    workload: Mapping[str, Any],
    seconds: float,
    warm_up: float = 1.0,
    flows: list[list[dict[str, str]]] | None = None,
    data_path: str | None = None,
    period_seconds: float = 0.25,
) -> Measured:
    """Run a workload and measure over ``seconds`` after ``warm_up``."""
    for agent in agents:
        agent.samples.clear()
    measured = Measured()
    prepared: dict[str, Any] = {"data_path": data_path} if data_path else {}
    try:
        begin(agents, workload, flows or ends(), period_seconds=period_seconds, **prepared)
        time.sleep(warm_up)
        began = time.monotonic()
        time.sleep(seconds)
        measured.window = (began, time.monotonic())
        for agent in agents:
            measured.totals.append(agent.ask("stop")["totals"])
    finally:
        for agent in agents:
            # Hundreds of queue pairs take an emulated machine many seconds; the product waits longer for them, too.
            measured.destroyed.append(agent.ask("destroy", deadline_seconds=60))
    for agent in agents:
        _rates(measured, [sample for sample in agent.samples if sample["state"] == "running"], warm_up)
    return measured


def _rates(measured: Measured, samples: list[dict[str, Any]], warm_up: float) -> None:
    last = samples[-1]
    first = next(sample for sample in samples if sample["clock"] >= samples[0]["clock"] + warm_up)
    seconds = last["clock"] - first["clock"]
    for key, flow in last["flows"].items():
        before = first["flows"][key]
        if flow["posted_messages"] is not None:
            measured.posted_per_second[key] = (flow["posted_messages"] - before["posted_messages"]) / seconds
        if flow["delivered_bytes"] is not None:
            measured.bytes_per_second[key] = (flow["delivered_bytes"] - before["delivered_bytes"]) / seconds
            measured.messages_per_second[key] = (flow["delivered_messages"] - before["delivered_messages"]) / seconds


@dataclass(frozen=True)
class Footprint:
    """What an agent holds on its host between two runs."""

    resources: str
    processes: int
    descriptors: int
    available_bytes: int

    @classmethod
    def of(cls, agent: RemoteAgent) -> Footprint:
        """Look at an agent's host: objects of every RDMA device, agents, the agent's open files, memory."""
        pid = agent.facts["pid"]
        looked = agent.host.run(
            f"rdma resource show; echo; pgrep -c -f /agent-.*pyz; ls /proc/{pid}/fd | wc -l; "
            "sync; echo 3 > /proc/sys/vm/drop_caches; grep MemAvailable /proc/meminfo"
        )
        resources, _, rest = looked.partition("\n\n")
        processes, descriptors, _, kilobytes, _ = rest.split()
        return cls(resources, int(processes), int(descriptors), int(kilobytes) * 1024)

    def leaks(self, later: Footprint, allowed_bytes: int) -> list[str]:
        """Say what has become more, memory beyond an allowance."""
        found = []
        for name in ("resources", "processes", "descriptors"):
            before, after = getattr(self, name), getattr(later, name)
            if before != after:
                found.append(f"{name}: {before} before, {after} after")
        lost = self.available_bytes - later.available_bytes
        if lost > allowed_bytes:
            found.append(f"memory: {lost} bytes less are available")
        return found


def scale_run(agents: list[RemoteAgent], qps: int, mrs_per_qp: int, seconds: float = 2.0) -> dict[str, Any]:
    """Set up many queue pairs with many regions, let them write, tear all down; returns the requester's totals.

    Raises:
        AgentRefused: a step failed.
    """
    workload = {
        "qp_type": "RC",
        "opcode": "WRITE",
        "messages": [1024],
        "mr_bytes": 4096,
        "qps": qps,
        "mrs_per_qp": mrs_per_qp,
        "send_wq_depth": 2,
        "recv_wq_depth": 1,
        "timeout": 20,  # a thousand queue pairs on an emulated CPU answer late
    }
    try:
        begin(agents, workload, ends(), deadline_seconds=120)
        time.sleep(seconds)
        totals: dict[str, Any] = agents[0].ask("stop", drain_seconds=5, deadline_seconds=20)["totals"]
    finally:
        left = [agent.ask("destroy", deadline_seconds=60)["qps_left"] for agent in agents]
    assert left == [0, 0], left
    return totals
