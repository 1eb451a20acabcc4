"""A host that lies: whatever its agent says, a conversation gives typed answers or ends with one of our errors."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collie.errors import HostUnreachable
from collie.hosts import protocol
from collie.hosts.host_info import matching_gid, parse_host_info
from collie.hosts.protocol import AgentClient, AgentGone, StepFailed
from collie.inventory.hosts import Host
from collie.readings.samples import parse_sample
from collie.ssh.lines import LONGEST_LINE_BYTES, LineBuffer, Tail
from collie.ssh.local import MAX_WAITING_LINES
from collie.ssh.openssh import OpenSshRemote
from tests.support.local_remote import LocalRemote

FLOW = {
    "posted_messages": 1,
    "delivered_bytes": None,
    "qp_messages": {"min": 1, "mean": 1.5, "max": 2},
    "failed_qps": 0,
}
SAMPLE = {
    "event": "sample",
    "clock": 1.0,
    "clock_end": 1.5,
    "flows": {"a-b/requester": FLOW},
    "counters": {"hw_counters": {"rcvd_pkts": 1, "gone": None}},
    "link": {"state": "ACTIVE", "carrier_changes": 2},
}
HELLO = {"kernel": "6", "python": "3", "data_paths": {}, "numa_nodes": [0], "devices": []}
GID = {"index": 0, "address": "no address", "type": "RoCE v2"}
PORT = {"port": 1, "state": None, "rate": "9" * 400 + " Gb/sec", "active_mtu": None, "netdev": None, "gids": [GID]}
DEVICE = {"name": "d", "driver": None, "numa_node": None, "open_error": None, "ports": [PORT]}


class Scripted:
    """A `Channel` to an agent that answers every request with the text that it is given; then it ends."""

    def __init__(self, answer: Callable[[dict[str, Any]], str]) -> None:
        self._answer = answer
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def send_line(self, line: str) -> None:
        request = json.loads(line)
        if request["id"]:
            self._lines.put(self._answer(request))

    def read_line(self, timeout_seconds: float) -> str | None:
        return self._lines.get()

    def stderr_tail(self) -> str:
        return ""

    def close(self) -> None:
        self._lines.put(None)


def asked(do: str, answer: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
    client = AgentClient("host", Scripted(answer), lambda: 0.0)
    try:
        return client.request(do)
    finally:
        client.close()


@pytest.mark.parametrize(
    "line",
    [
        *("[]", "7", "null", "[" * 100_000, '{"id": 1', '{"id": NaN}', '{"id": "1"}', '{"id": [1]}', '{"id": true}'),
        *('{"event": "sample"}', '{"event": "bye", "reason": 1}', '{"event": "engine_died", "message": []}'),
        *('{"id": 1, "ok": false, "error": "no"}', '{"id": 1, "error": [1]}', "\x00", '{"id": 1e999}'),
    ],
)
def test_a_line_that_is_none_of_the_protocol_ends_the_conversation(line: str) -> None:
    before = threading.excepthook
    with pytest.raises(AgentGone, match="which breaks the protocol"):
        asked("ping", lambda _: line)
    assert threading.excepthook is before


@pytest.mark.parametrize(
    ("do", "wrong"),
    [
        ("ping", {}),
        ("ping", {"clock": "now"}),
        ("prepare", {"endpoints": []}),
        ("stop", {"totals": {"flows": {"a-b/requester": {"qp_messages": {"min": None}}}}}),
        ("verify", {"flows": {"a-b/responder": {"wrong_bytes": "many", "first_wrong": None}}}),
        ("verify", {"flows": {"a-b/responder": {"wrong_bytes": 1, "first_wrong": {"qp": 1}}}}),
        ("destroy", {"qps_left": "all"}),
        ("resources", {"qps": [{"state": "RTS"}]}),
        ("fingerprint", {"fingerprint": {"nic": 7}}),
    ],
)
def test_an_answer_of_another_shape_ends_the_conversation(do: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(AgentGone, match="breaks the protocol"):
        asked(do, lambda request: json.dumps({"id": request["id"], "ok": True, **wrong}))


def test_a_message_of_a_host_is_cut_and_steers_no_terminal() -> None:
    error = {"kind": "setup", "step": "s" * 9999, "message": "\x1b]0;owned\x07" + "m" * 99999, "errno_name": ["x"]}
    with pytest.raises(StepFailed) as caught:
        asked("prepare", lambda request: json.dumps({"id": request["id"], "ok": False, "error": error}))
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 3 * protocol.MAX_WORDS


def test_unrequested_samples_are_not_kept_without_end() -> None:
    channel = Scripted(lambda _: json.dumps(SAMPLE))
    client = AgentClient("host", channel, lambda: 0.0, max_sampled_bytes=10 * len(json.dumps(SAMPLE)))
    for number in range(1, 12):
        channel.send_line(json.dumps({"id": number}))
    with pytest.raises(AgentGone, match="the controller left more than 0 MiB of the agent's samples unread") as caught:
        client.request("ping")
    assert "breaks the protocol" not in str(caught.value)
    assert len(client.take_samples()) <= 11
    client.close()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("clock",), "1"),
        (("clock",), 10**400),
        (("clock",), -1.7e308),
        (("clock_end",), 1.7e308),
        (("flows",), []),
        (("flows", "a-b/requester", "qp_messages"), None),
        (("flows", "a-b/requester", "failed_qps"), 1e999),
        (("flows", "a-b/requester", "delivered_bytes"), "7"),
        (("counters",), {"hw_counters": 7}),
        (("counters", "hw_counters", "rcvd_pkts"), []),
        (("link", "state"), {}),
        (("health",), {"errors": []}),
        (("host",), {"cpu_seconds": {"user": "x"}}),
    ],
)
def test_a_sample_of_another_shape_is_none(path: tuple[str, ...], value: object) -> None:
    raw = json.loads(json.dumps(SAMPLE))
    assert parse_sample(raw, 0.0).clock == 1.25
    inner = raw
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(ValueError, match=r"."):
        parse_sample(raw, 0.0)


@pytest.mark.parametrize(
    "wrong", [{"data_paths": []}, {"devices": [{}]}, {"numa_nodes": [None]}, {"numa_cpus": {"x": 1}}]
)
def test_a_hello_of_another_shape_is_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_host_info({**HELLO, **wrong})


def test_a_rate_and_an_address_that_are_none_are_unknown() -> None:
    port = parse_host_info({**HELLO, "devices": [DEVICE]}).devices[0].ports[0]
    assert port.rate_bps is None
    assert matching_gid(port, "192.0.2.1") is None


# --- Bytes of a host --------------------------------------------------------------------------------------------------


def test_a_line_without_an_end_is_refused() -> None:
    buffer = LineBuffer()
    buffer.feed(b"x" * LONGEST_LINE_BYTES)
    with pytest.raises(ValueError, match="a line of more than"):
        buffer.feed(b"x")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[LocalRemote]:
    remote = LocalRemote("here", tmp_path)
    yield remote
    remote.close()


def test_a_command_that_prints_a_line_without_an_end_is_lost(here: LocalRemote) -> None:
    channel = here.open(["sh", "-c", "tr '\\0' x </dev/zero"])
    with pytest.raises(HostUnreachable, match="a line of more than"):
        list(iter(lambda: channel.read_line(60.0), None))


def test_a_command_that_floods_waits_for_its_reader(here: LocalRemote) -> None:
    channel = here.open(["yes"])
    assert channel.read_line(60.0) == "y"
    assert channel._lines.qsize() <= MAX_WAITING_LINES
    channel.close()
    assert channel.process.poll() is not None


def test_what_a_command_prints_over_ssh_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\nexec yes\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    remote = OpenSshRemote(Host("host", "10.0.0.1", "192.0.2.1", "rxe0"))
    with pytest.raises(HostUnreachable, match="more than 16 MiB"):
        remote.run(["true"], 60.0)
    remote.close()


def test_the_last_words_of_a_command_steer_no_terminal(here: LocalRemote) -> None:
    channel = here.open(["printf", "%b", "\\033[2Jdone\\n"])
    assert channel.read_line(60.0) == "\x1b[2Jdone"  # data: whoever reads it knows what it should be
    tail = Tail()
    tail.feed(b"\x1b]0;owned\x07 no such file\n")
    assert tail.text() == "\ufffd]0;owned\ufffd no such file"


def test_the_last_words_of_ssh_end_where_its_lines_end() -> None:
    tail = Tail()
    tail.feed(b"ssh: connect to host 127.0.0.1 port 1: Connection refused\r\nlost")
    assert tail.text() == "ssh: connect to host 127.0.0.1 port 1: Connection refused\nlost"
