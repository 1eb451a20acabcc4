"""An SSH agent that hangs is named in the end, and keeps nobody from leaving."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko
import pytest

from collie.errors import HostUnreachable
from collie.inventory.hosts import Host
from collie.ssh.connection import Timeouts
from collie.ssh.remote import SshRemote
from collie.testing.remote_suite import SOON

_SIGN_REQUEST, _IDENTITIES_ANSWER, _SIGN_RESPONSE = 13, 12, 14


class Agent:
    """Holds one key or hangs. It signs as soon as `may_sign` is set.

    Attributes:
        asked: somebody has connected.
        asked_to_sign: somebody wants a signature.
    """

    def __init__(self, path: Path, key: paramiko.PKey | None, comment: bytes = b"somebody's key") -> None:
        self._comment = comment
        self.asked, self.asked_to_sign, self.may_sign = threading.Event(), threading.Event(), threading.Event()
        self._key = key
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.may_sign.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(SOON)
        self._socket.close()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                self.asked.set()
                if self._key is not None:
                    threading.Thread(target=self._serve, args=(connection, self._key), daemon=True).start()

    def _serve(self, connection: socket.socket, key: paramiko.PKey) -> None:
        with contextlib.suppress(OSError):
            while size := connection.recv(4):
                request = paramiko.Message(connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
                answer = paramiko.Message()
                if request.get_byte() == bytes([_SIGN_REQUEST]):
                    self.asked_to_sign.set()
                    self.may_sign.wait()
                    request.get_binary()
                    answer.add_byte(bytes([_SIGN_RESPONSE]))
                    answer.add_string(key.sign_ssh_data(request.get_binary()).asbytes())
                else:
                    answer.add_byte(bytes([_IDENTITIES_ANSWER]))
                    answer.add_int(1)
                    answer.add_string(key.asbytes())
                    answer.add_string(self._comment)
                connection.sendall(len(answer.asbytes()).to_bytes(4, "big") + answer.asbytes())


@pytest.fixture
def socket_path(tmp_path: Path, ssh_host: Host, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "agent"
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))  # after `ssh_host`, which unsets it
    return path


@pytest.fixture
def hanging(socket_path: Path) -> Iterator[Agent]:
    agent = Agent(socket_path, None)
    yield agent
    agent.close()


@pytest.fixture
def holding(socket_path: Path, ssh_host: Host) -> Iterator[Agent]:
    """An agent that holds the key which the server knows."""
    agent = Agent(socket_path, paramiko.ECDSAKey(filename=ssh_host.identity_file))
    yield agent
    agent.close()


@pytest.fixture
def keyless(ssh_host: Host) -> Host:
    return dataclasses.replace(ssh_host, identity_file=None)


def answer(host: Host, timeouts: Timeouts) -> str:
    remote = SshRemote(host, timeouts, "/nonexistent")
    try:
        return remote.run(["echo", "hello"], SOON).stdout.strip()
    finally:
        remote.close()


def test_an_agent_that_never_answers_is_named_with_what_to_do(keyless: Host, hanging: Agent) -> None:
    with pytest.raises(
        HostUnreachable, match=r"host server .*the SSH agent at /.*does not answer within 0.3 s; .*unset"
    ):
        answer(keyless, Timeouts(agent=0.3))


def test_an_agent_that_accepts_no_connection_any_more_is_named(keyless: Host, socket_path: Path) -> None:
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(socket_path))
        listener.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = opened.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(socket_path))
        with pytest.raises(HostUnreachable, match="does not answer"):
            answer(keyless, Timeouts())


def test_an_agent_is_not_asked_for_what_the_named_key_opens(ssh_host: Host, hanging: Agent) -> None:
    assert answer(ssh_host, Timeouts(agent=0.3)) == "hello"
    assert not hanging.asked.is_set()


def test_a_variable_that_has_outlived_its_agent_does_no_harm(keyless: Host, socket_path: Path) -> None:
    with pytest.raises(HostUnreachable, match="user me is refused"):
        answer(keyless, Timeouts())


def test_a_comment_that_cannot_be_read_does_no_harm(keyless: Host, ssh_host: Host, socket_path: Path) -> None:
    agent = Agent(socket_path, paramiko.ECDSAKey(filename=ssh_host.identity_file), b"M\xfcller")
    agent.may_sign.set()
    assert answer(keyless, Timeouts()) == "hello"
    agent.close()


def test_an_agent_that_does_not_sign_is_named(keyless: Host, holding: Agent) -> None:
    with pytest.raises(HostUnreachable, match=r"the SSH agent at /.* does not sign within 0.3 s"):
        answer(keyless, Timeouts(sign=0.3))


def test_whoever_has_to_touch_a_key_may_take_longer_than_a_server(keyless: Host, holding: Agent) -> None:
    with ThreadPoolExecutor(1) as other:
        answered = other.submit(answer, keyless, Timeouts(authenticate=0.3, sign=SOON))
        assert holding.asked_to_sign.wait(SOON)
        time.sleep(0.6)
        holding.may_sign.set()
        assert answered.result(SOON) == "hello"


def test_closing_waits_for_no_agent(keyless: Host, hanging: Agent) -> None:
    remote = SshRemote(keyless, Timeouts(agent=10 * SOON), "/nonexistent")
    with ThreadPoolExecutor(1) as other:
        asking = other.submit(remote.run, ["true"], SOON)
        assert hanging.asked.wait(SOON)
        remote.close()
        with pytest.raises(HostUnreachable, match="closed while"):
            asking.result(SOON)
