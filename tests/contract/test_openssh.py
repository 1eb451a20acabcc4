"""The ssh program."""

from __future__ import annotations

import dataclasses
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko
import pytest

from collie.errors import HostKeyMismatch, HostUnreachable, TestbedError
from collie.inventory.hosts import Host
from collie.ssh.openssh import OpenSshRemote
from collie.testing.remote_suite import SOON
from tests.support.remotes import own_fingerprint, without_key


def openssh(host: Host, keys: Path | None = None) -> str:
    remote = OpenSshRemote(host, keys, config_file="/dev/null")
    try:
        return remote.run(["echo", "hello"], SOON).stdout.strip()
    finally:
        remote.close()


def test_the_ssh_options_forward_nothing_and_ask_for_nothing() -> None:
    remote = OpenSshRemote(Host("host", "10.0.0.1", "192.0.2.1", "rxe0", identity_file="/home/me/key"))
    words = remote._ssh()
    for option in ("ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "BatchMode=yes"):
        assert words[words.index(option) - 1] == "-o"
    assert words[words.index("-i") + 1] == "/home/me/key", "a file's name is all that the list of processes shows"


def test_ssh_believes_the_pinned_key_alone(ssh_host: Host) -> None:
    assert openssh(ssh_host) == "hello"
    wrong = with_another_key(ssh_host)
    with pytest.raises(
        HostKeyMismatch, match=r"server.*ssh rejects the host key of.*change `host_key` in the hosts file"
    ) as caught:
        openssh(wrong)
    assert "known_hosts" not in str(caught.value)
    assert "\ufffd" not in str(caught.value)
    with pytest.raises(TestbedError, match="give `host_key`"):
        openssh(without_key(ssh_host, own_fingerprint(ssh_host)))


def test_ssh_believes_the_named_file_alone_and_else_what_it_is_configured_to(ssh_host: Host, tmp_path: Path) -> None:
    file = tmp_path / "keys of the lab"
    file.write_text(f"[127.0.0.1]:{ssh_host.port} {ssh_host.host_key}\n")
    assert openssh(without_key(ssh_host), file) == "hello"
    with pytest.raises(HostKeyMismatch):
        openssh(without_key(ssh_host))
    file.write_text("")
    with pytest.raises(HostKeyMismatch, match=f"then add it to {file}"):
        openssh(without_key(ssh_host), file)


@pytest.fixture
def trusting(tmp_path: Path) -> Path:
    """The configuration of somebody who believes anybody and shares connections."""
    file = tmp_path / "config"
    options = (
        "StrictHostKeyChecking no",
        "UserKnownHostsFile /dev/null",
        "ControlMaster auto",
        f"ControlPath {tmp_path}/mux",
    )
    file.write_text("\n".join(["Host *", *options, ""]))
    return file


def with_another_key(host: Host) -> Host:
    other = paramiko.ECDSAKey.generate()
    return dataclasses.replace(host, host_key=f"{other.get_name()} {other.get_base64()}")


def test_a_pinned_key_is_asked_for_though_the_user_has_a_connection_open(ssh_host: Host, trusting: Path) -> None:
    anybody = OpenSshRemote(without_key(ssh_host), config_file=str(trusting))
    master = anybody.open(["cat"])
    master.send_line("open")
    assert master.read_line(SOON) == "open"
    assert (trusting.parent / "mux").exists()
    remote = OpenSshRemote(with_another_key(ssh_host), config_file=str(trusting))
    with pytest.raises(HostKeyMismatch):
        remote.run(["echo", "hello"], SOON)
    remote.close()
    anybody.close()


def test_an_untrusted_jump_host_is_distinguished_from_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ssh_host: Host
) -> None:
    program = tmp_path / "ssh"
    words = "No ED25519 host key is known for bastion and you have requested strict checking."
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\necho 'Host key verification failed.' >&2\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(HostKeyMismatch, match=r"its jump host: .* known for bastion .*then add it to known_hosts"):
        openssh(dataclasses.replace(ssh_host, jump="bastion"))


def test_a_pinned_key_is_asked_for_after_closing_too(ssh_host: Host, trusting: Path) -> None:
    remote = OpenSshRemote(with_another_key(ssh_host), config_file=str(trusting))
    remote.close()
    with pytest.raises(HostKeyMismatch):
        remote.run(["echo", "hello"], SOON)
    remote.close()


def test_closing_cuts_off_a_command_that_ssh_runs(ssh_host: Host, tmp_path: Path) -> None:
    home, remote = tmp_path / "home", OpenSshRemote(ssh_host, config_file="/dev/null")
    with ThreadPoolExecutor(1) as other:
        script = "touch begun; while ! test -e over; do sleep 0.05; done"
        running = other.submit(remote.run, ["sh", "-c", script], SOON)
        while not (home / "begun").exists():
            assert not running.done(), running.result()
            time.sleep(0.01)
        remote.close()
        with pytest.raises(HostUnreachable, match="closed while a command ran"):
            running.result()
        (home / "over").touch()  # this server ends no command when its client goes


def test_what_ssh_cannot_reach_is_named(ssh_host: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(HostUnreachable, match=r"host server .*[Rr]efused"):
        openssh(dataclasses.replace(ssh_host, port=port))
    with pytest.raises(HostUnreachable, match="Permission denied"):
        openssh(dataclasses.replace(ssh_host, user="you"))


def test_an_ssh_that_ends_is_a_lost_host_and_no_end_of_output(ssh_host: Host) -> None:
    remote = OpenSshRemote(ssh_host, config_file="/dev/null")
    channel = remote.open(["cat"])
    channel.send_line("one")
    assert channel.read_line(SOON) == "one"
    channel.process.terminate()
    with pytest.raises(HostUnreachable, match="server"):
        channel.read_line(SOON)
    assert remote.run(["echo", "again"], SOON).stdout == "again\n"
    remote.close()
