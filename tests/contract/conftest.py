"""An SSH server in this process, and data paths on a fake libibverbs."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from ctypes import CDLL
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
    cMSG_CHANNEL_SUCCESS,
)
from paramiko.sftp import SFTP_OK

from collie.agent import facts
from collie.agent.paths import DataPath
from collie.agent.pulse import SILENCE_SECONDS
from collie.inventory.hosts import Host
from tests.support.data_paths import GID, STAMPING, native_path, python_path
from tests.support.fake_libraries import compiled
from tests.support.forked import Forked


@pytest.fixture
def ssh_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """The inventory entry of a server whose users start in `tmp_path/home`; its host key is pinned."""
    home = tmp_path / "home"
    home.mkdir()
    # Nothing of whoever runs the tests: no agent, no keys, no configuration, no known hosts.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    key_file = tmp_path / "id"
    paramiko.ECDSAKey.generate().write_private_key_file(str(key_file))
    server = Listener(home, paramiko.ECDSAKey(filename=str(key_file)))
    yield Host(
        name="server",
        address="127.0.0.1",
        data_address="192.0.2.1",
        device="rxe0",
        port=server.port,
        user="me",
        identity_file=str(key_file),
        host_key=f"{server.host_key.get_name()} {server.host_key.get_base64()}",
    )
    server.close()


class Listener:
    """A server that lets `me` in with one key.

    Attributes:
        offered: the public keys that clients have come with.
    """

    def __init__(self, home: Path, client_key: paramiko.PKey) -> None:
        self.host_key = paramiko.ECDSAKey.generate()
        self._home, self._client_key = home, client_key
        self.offered: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._transports: list[paramiko.Transport] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        for transport in self._transports:
            transport.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                transport = _Transport(connection)
                transport.add_server_key(self.host_key)
                transport.set_subsystem_handler("sftp", paramiko.SFTPServer, _Files, str(self._home))
                self._transports.append(transport)
                server = _Server(self._home, self._client_key, self.offered)
                with contextlib.suppress(paramiko.SSHException, EOFError):
                    transport.start_server(event=threading.Event(), server=server)
                threading.Thread(target=server.tunnel, args=(transport,), daemon=True).start()


class _Transport(paramiko.Transport):
    """Says when the client has been told that a request was granted; handles one request after another.

    Attributes:
        reported: of the request that is being handled.
    """

    reported = threading.Event()

    def _send_user_message(self, data: paramiko.Message) -> None:
        super()._send_user_message(data)  # type: ignore[misc]  # there is no public way
        if data.asbytes()[:1] == cMSG_CHANNEL_SUCCESS:
            self.reported.set()


class _Server(paramiko.ServerInterface):
    """Answers no request on a channel while there is a file `stuck` in its users' home.

    It answers no key while there is `slow-login`. It has no SFTP while there is `no-sftp`, and with `lost-sftp`
    believes that it has.
    """

    def __init__(self, home: Path, client_key: paramiko.PKey, offered: list[bytes]) -> None:
        self._home, self._client_key, self._offered = home, client_key, offered
        self._tunnels: dict[int, socket.socket] = {}

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        while (self._home / "slow-login").exists():
            time.sleep(0.01)
        self._offered.append(key.asbytes())
        known = username == "me" and key.asbytes() == self._client_key.asbytes()
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        self._tunnels[chanid] = socket.create_connection(destination)
        return int(OPEN_SUCCEEDED)

    def tunnel(self, transport: paramiko.Transport) -> None:
        """Connect the channels that lead elsewhere."""
        while (channel := transport.accept()) is not None:
            if (target := self._tunnels.pop(channel.get_id(), None)) is not None:
                threading.Thread(target=_pump, args=(target.fileno(), channel.sendall), daemon=True).start()
                threading.Thread(target=_tunnel, args=(channel, target), daemon=True).start()

    def _wait_while_stuck(self) -> None:
        while (self._home / "stuck").exists():
            time.sleep(0.01)

    def check_channel_subsystem_request(self, channel: paramiko.Channel, name: str) -> bool:
        self._wait_while_stuck()
        if (self._home / "no-sftp").exists():
            return False
        if (self._home / "lost-sftp").exists():
            return self.check_channel_exec_request(channel, b"exit 127")
        return super().check_channel_subsystem_request(channel, name)

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._wait_while_stuck()
        transport = channel.get_transport()
        assert isinstance(transport, _Transport)
        transport.reported = threading.Event()
        threading.Thread(target=self._execute, args=(channel, command, transport.reported), daemon=True).start()
        return True

    def _execute(self, channel: paramiko.Channel, command: bytes, reported: threading.Event) -> None:
        reported.wait()  # else a short command ends, and its channel closes, before the client hears of its beginning
        pipe = subprocess.PIPE
        process = subprocess.Popen(["sh", "-c", command], cwd=self._home, stdin=pipe, stdout=pipe, stderr=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        outputs = [
            threading.Thread(target=_pump, args=(process.stdout.fileno(), channel.sendall), daemon=True),
            threading.Thread(target=_pump, args=(process.stderr.fileno(), channel.sendall_stderr), daemon=True),
        ]
        for output in outputs:
            output.start()
        stdin = threading.Thread(target=_feed, args=(channel, process.stdin), daemon=True)
        stdin.start()
        for output in outputs:
            output.join()
        status = process.wait()
        with contextlib.suppress(OSError, EOFError):
            channel.send_exit_status(status if status >= 0 else 128 - status)
            channel.shutdown_write()
            channel.close()
        stdin.join(5)
        for stream in (process.stdout, process.stderr):
            stream.close()


def _pump(descriptor: int, send: object) -> None:
    assert callable(send)
    with contextlib.suppress(OSError):
        while data := os.read(descriptor, 65536):
            send(data)


def _tunnel(channel: paramiko.Channel, target: socket.socket) -> None:
    with contextlib.suppress(OSError), target:
        while data := channel.recv(65536):
            target.sendall(data)


def _feed(channel: paramiko.Channel, stdin: object) -> None:
    assert hasattr(stdin, "write")
    with contextlib.suppress(OSError), contextlib.closing(stdin):  # type: ignore[type-var]
        while data := channel.recv(65536):
            stdin.write(data)
            stdin.flush()  # type: ignore[attr-defined]


class _Files(paramiko.SFTPServerInterface):
    def __init__(self, server: paramiko.ServerInterface, home: str) -> None:
        super().__init__(server)
        self._home = Path(home)

    def _place(self, path: str) -> Path:
        return self._home / path

    def canonicalize(self, path: str) -> str:
        return str(self._place(path))

    def stat(self, path: str) -> paramiko.SFTPAttributes | int:
        try:
            return paramiko.SFTPAttributes.from_stat(self._place(path).stat())
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    lstat = stat

    def open(self, path: str, flags: int, attr: paramiko.SFTPAttributes) -> paramiko.SFTPHandle | int:
        try:
            descriptor = os.open(self._place(path), flags, 0o666)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        handle = _Handle(flags)
        handle.writefile = os.fdopen(descriptor, "wb")  # type: ignore[attr-defined]
        handle.place = self._place(path)
        return handle

    def remove(self, path: str) -> int:
        return self._try(lambda: self._place(path).unlink())

    def posix_rename(self, oldpath: str, newpath: str) -> int:
        return self._try(lambda: self._place(oldpath).replace(self._place(newpath)))

    def mkdir(self, path: str, attr: paramiko.SFTPAttributes) -> int:
        return self._try(lambda: self._place(path).mkdir(attr.st_mode or 0o777))

    @staticmethod
    def _try(act: object) -> int:
        assert callable(act)
        try:
            act()
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        return SFTP_OK


class _Handle(paramiko.SFTPHandle):
    place: Path

    def chattr(self, attr: paramiko.SFTPAttributes) -> int:
        self.place.chmod((attr.st_mode or 0) & 0o777)
        return SFTP_OK


@pytest.fixture(scope="module")
def libibverbs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("libibverbs", tmp_path_factory.mktemp("fake"))


@pytest.fixture(params=["native", "native, stamped", "python"])
def path(request: pytest.FixtureRequest, libibverbs: Path) -> Iterator[DataPath]:
    with native_path(str(libibverbs), STAMPING if request.param == "native, stamped" else 0) as native:
        yield python_path(str(libibverbs)) if request.param == "python" else native


@pytest.fixture
def fake(libibverbs: Path) -> Iterator[CDLL]:
    """The library, which must have nothing left and lost nothing after the test."""
    loaded = CDLL(str(libibverbs))
    yield loaded
    assert loaded.fake_live() == 0
    assert loaded.fake_overflows() == 0


@pytest.fixture
def fork(path: DataPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Forked]]:
    monkeypatch.setattr(facts, "gid", lambda *_where: GID)
    made: list[Forked] = []

    def make(processes: int, silence_seconds: float = SILENCE_SECONDS, **workload: Any) -> Forked:
        made.append(Forked(path, processes, silence_seconds, **workload))
        return made[-1]

    yield make
    assert all(forked.engines.kill() for forked in made)
