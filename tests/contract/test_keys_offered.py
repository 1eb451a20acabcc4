"""A server is offered the keys that the configuration names for it, and no others: counted by a server that refuses."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import paramiko
import pytest

from collie.errors import HostUnreachable
from collie.inventory.hosts import Host
from collie.ssh.remote import SshRemote
from collie.testing.remote_suite import SOON
from tests.contract.conftest import Listener

NAMES = ("a", "b", "agent", "id_ecdsa")


class Agent:
    """Lists some keys, and signs with them."""

    def __init__(self, path: Path, keys: Sequence[paramiko.PKey]) -> None:
        self._keys = keys
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with connection:
                    while size := connection.recv(4):
                        request = paramiko.Message(connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
                        answer = self._answer(request).asbytes()
                        connection.sendall(len(answer).to_bytes(4, "big") + answer)

    def _answer(self, request: paramiko.Message) -> paramiko.Message:
        answer = paramiko.Message()
        kind = request.get_byte()
        if kind == b"\x0d":
            blob = request.get_binary()
            key = next(key for key in self._keys if key.asbytes() == blob)
            answer.add_byte(b"\x0e")
            answer.add_string(key.sign_ssh_data(request.get_binary()).asbytes())
        elif kind == b"\x0b":
            answer.add_byte(b"\x0c")
            answer.add_int(len(self._keys))
            for key in self._keys:
                answer.add_string(key.asbytes())
                answer.add_string(b"")
        else:  # OpenSSH asks whether the session is bound
            answer.add_byte(b"\x05")
        return answer

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@dataclasses.dataclass(frozen=True)
class Rig:
    """A server that knows none of the keys, an agent, and the user's files."""

    folder: Path
    host: Host
    keys: dict[str, paramiko.ECDSAKey]
    server: Listener

    def offered(self, config: str, host: Host | None = None) -> list[str]:
        """The names of the keys that Collie offers, in their order."""
        self.server.offered.clear()
        remote = SshRemote(host or self.host, config_file=str(self._config(config)))
        with pytest.raises(HostUnreachable, match="is refused"):
            remote.run(["true"], SOON)
        remote.close()
        return self.named(self.server)

    def offered_by_openssh(self, config: str) -> set[str]:
        """The names of the keys that the `ssh` program offers."""
        self.server.offered.clear()
        options = {"BatchMode": "yes", "StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null"}
        argv = ["ssh", "-F", str(self._config(config)), "-p", str(self.host.port), "-l", "me"]
        argv += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        done = subprocess.run([*argv, "127.0.0.1", "true"], capture_output=True, timeout=SOON, check=False)
        assert done.returncode == 255
        return set(self.named(self.server))

    def named(self, server: Listener) -> list[str]:
        names = {key.asbytes(): name for name, key in self.keys.items()}
        return [names[blob] for blob in server.offered]

    def _config(self, text: str) -> Path:
        file = self.folder / "config"
        file.write_text(text.replace("DIR", str(self.folder)))
        return file


@pytest.fixture
def rig(tmp_path: Path, ssh_host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """Keys `a` and `b` are files; `agent` is in the agent, with `a` and `b`; `id_ecdsa` is a default one."""
    keys = {name: paramiko.ECDSAKey.generate() for name in NAMES}
    for name in ("a", "b"):
        keys[name].write_private_key_file(str(tmp_path / name))
    (tmp_path / ".ssh").mkdir()
    keys["id_ecdsa"].write_private_key_file(str(tmp_path / ".ssh" / "id_ecdsa"))
    server = Listener(tmp_path / "home", paramiko.ECDSAKey.generate())
    host = dataclasses.replace(
        ssh_host,
        port=server.port,
        identity_file=None,
        host_key=f"{server.host_key.get_name()} {server.host_key.get_base64()}",
    )
    agent = Agent(tmp_path / "socket", [keys[name] for name in ("agent", "a", "b")])
    thread = threading.Thread(target=agent.serve, daemon=True)
    thread.start()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "socket"))
    yield Rig(tmp_path, host, keys, server)
    agent.close()
    thread.join(SOON)
    server.close()


CASES = [
    ("IdentityFile DIR/a", ["a", "agent", "b"]),
    ("IdentityFile DIR/a\nIdentitiesOnly yes", ["a"]),
    ("IdentityFile DIR/b\nIdentityFile DIR/a\nIdentitiesOnly yes", ["b", "a"]),
    ("IdentityFile none", ["agent", "a", "b"]),
    ("IdentityFile none\nIdentitiesOnly yes", []),
    ("IdentityFile none\nIdentityFile DIR/a\nIdentitiesOnly yes", ["a"]),
    ("IdentityFile DIR/a\nIdentityAgent none", ["a"]),
    ("IdentityFile none\nIdentityAgent DIR/socket", ["agent", "a", "b"]),
    ("IdentityFile none\nIdentityAgent DIR/lost", []),
    ("IdentityFile none\nIdentityAgent SSH_AUTH_SOCK", ["agent", "a", "b"]),
    ("IdentityFile none\nIdentityAgent $SSH_AUTH_SOCK", ["agent", "a", "b"]),
    ("IdentityFile none\nIdentityAgent $NO_SUCH_VARIABLE", []),
    ("IdentityFile DIR/a\nPubkeyAuthentication no", []),
    ("Host elsewhere\nIdentityFile DIR/a\nIdentitiesOnly yes\nHost *\nIdentityFile DIR/b\nIdentitiesOnly yes", ["b"]),
]


@pytest.mark.parametrize(("config", "names"), CASES)
def test_the_configuration_says_which_keys_are_offered(rig: Rig, config: str, names: list[str]) -> None:
    assert rig.offered(config) == names


@pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no `ssh` here")
@pytest.mark.parametrize("config", [config for config, _ in CASES])
def test_openssh_offers_the_same_ones(rig: Rig, config: str) -> None:
    assert set(rig.offered(config)) == rig.offered_by_openssh(config)


def test_default_keys_are_offered_where_none_is_named(rig: Rig) -> None:
    assert rig.offered("") == ["agent", "a", "b", "id_ecdsa"]
    assert rig.offered("IdentitiesOnly yes") == ["id_ecdsa"]
    assert rig.offered("IdentityAgent none") == ["id_ecdsa"]


def test_the_key_of_the_hosts_file_stands_in_place_of_the_configured_ones(rig: Rig) -> None:
    named = dataclasses.replace(rig.host, identity_file=str(rig.folder / "b"))
    assert rig.offered("IdentityFile DIR/a\nIdentitiesOnly yes", named) == ["b"]


@pytest.mark.parametrize("form", ["public beside", "public alone", "own format"])
def test_the_agent_signs_for_a_named_key_that_only_it_can_use(rig: Rig, form: str) -> None:
    private = rig.folder / "a"
    public = f"{rig.keys['a'].get_name()} {rig.keys['a'].get_base64()} a comment\n"
    if form == "public alone":
        private.write_text(public)
    else:
        rig.keys["a"].write_private_key_file(str(private), password="secret")
        if form == "public beside":
            Path(f"{private}.pub").write_text(public)
        else:
            private.write_text(_own_format(rig.keys["a"]))
    assert rig.offered("IdentityFile DIR/a\nIdentitiesOnly yes") == ["a"]


def _own_format(key: paramiko.PKey) -> str:
    """A private key file of OpenSSH's own format, of which only the public part can be read without the passphrase."""
    held = paramiko.Message()
    held.add_bytes(b"openssh-key-v1\0")
    for part in (b"aes256-ctr", b"bcrypt", b"salt"):
        held.add_string(part)
    held.add_int(1)
    held.add_string(key.asbytes())
    held.add_string(b"encrypted")
    name = "OPENSSH PRIVATE KEY"
    return f"-----BEGIN {name}-----\n{base64.b64encode(held.asbytes()).decode()}\n-----END {name}-----\n"


def test_a_named_key_with_a_passphrase_that_no_agent_has_is_reported(rig: Rig) -> None:
    rig.keys["id_ecdsa"].write_private_key_file(str(rig.folder / "locked"), password="secret")
    config = f"IdentityFile {rig.folder}/locked\nIdentitiesOnly yes\n"
    (rig.folder / "config").write_text(config)
    remote = SshRemote(rig.host, config_file=str(rig.folder / "config"))
    with pytest.raises(HostUnreachable, match=r"/locked has a passphrase; add it to the SSH agent: ssh-add /.*/locked"):
        remote.run(["true"], SOON)
    remote.close()
    assert rig.server.offered == []


def test_a_jump_host_and_the_host_behind_it_are_offered_their_own_keys_alone(rig: Rig) -> None:
    jump = Listener(rig.folder / "home", rig.keys["a"])
    (rig.folder / ".ssh" / "known_hosts").write_text(
        f"[127.0.0.1]:{jump.port} {jump.host_key.get_name()} {jump.host_key.get_base64()}\n"
    )
    config = f"Host bastion\n  HostName 127.0.0.1\n  Port {jump.port}\n  IdentityFile DIR/a\n  IdentitiesOnly yes\n"
    behind = dataclasses.replace(rig.host, jump="me@bastion", identity_file=str(rig.folder / "b"))
    assert rig.offered(config + "Host *\n  IdentitiesOnly yes\n", behind) == ["b"]
    assert rig.named(jump) == ["a"]
    jump.offered.clear()
    # Of a jump host of which nothing is said the host's key is none.
    with pytest.raises(HostUnreachable, match=r"jump host bastion\) .*user me is refused"):
        _ = SshRemote(
            behind, config_file=str(rig._config(config.replace("IdentityFile DIR/a", "IdentityFile none")))
        ).run(["true"], SOON)
    assert rig.named(jump) == []
    jump.close()


@pytest.mark.parametrize("content", [b"", b"-----BEGIN OPENSSH PRIVATE KEY-----\n!!!\n", b"ssh-rsa =", b"\0" * 100])
def test_a_file_that_is_no_key_is_passed_over(rig: Rig, content: bytes) -> None:
    (rig.folder / "odd").write_bytes(content)
    assert rig.offered("IdentityFile DIR/odd\nIdentityFile DIR/a\nIdentitiesOnly yes") == ["a"]
