"""Every `Remote` does what the port says, and SSH trusts nobody unseen."""

from __future__ import annotations

import base64
import dataclasses
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko
import pytest

from collie.errors import CommandFailed, CommandTimeout, HostKeyMismatch, HostUnreachable, TestbedError
from collie.inventory.hosts import Host
from collie.ports import Remote
from collie.ssh import local
from collie.ssh.connection import Timeouts
from collie.ssh.openssh import OpenSshRemote
from collie.ssh.remote import SshRemote
from collie.ssh.trust import fingerprint
from collie.testing.remote_suite import SOON, RemoteSuite
from tests.support.local_remote import LocalRemote


class TestLocalRemote(RemoteSuite):
    @pytest.fixture
    def remote(self, tmp_path: Path) -> Iterator[Remote]:
        remote = LocalRemote("here", tmp_path)
        yield remote
        remote.close()


class TestSshRemote(RemoteSuite):
    @pytest.fixture
    def remote(self, ssh_host: Host) -> Iterator[Remote]:
        remote = SshRemote(ssh_host)
        yield remote
        remote.close()


class TestOpenSshRemote(RemoteSuite):
    @pytest.fixture
    def remote(self, ssh_host: Host) -> Iterator[Remote]:
        remote = OpenSshRemote(ssh_host, config_file="/dev/null")
        yield remote
        remote.close()


def answer(host: Host, config_file: str = "/nonexistent") -> str:
    remote = SshRemote(host, Timeouts(connect=3, banner=5, authenticate=5), config_file)
    try:
        return remote.run(["echo", "hello"], SOON).stdout.strip()
    finally:
        remote.close()


def own_fingerprint(host: Host) -> str:
    assert host.host_key
    return fingerprint(base64.b64decode(host.host_key.split()[1]))


def without_key(host: Host, fingerprint: str | None = None) -> Host:
    return dataclasses.replace(host, host_key=None, host_key_fingerprint=fingerprint)


def known_hosts(host: Host, directory: Path, key: str) -> None:
    (directory / ".ssh").mkdir()
    (directory / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{host.port} {key}\n")


def test_a_host_with_another_key_than_the_pinned_one_is_refused_and_both_fingerprints_are_named(ssh_host: Host) -> None:
    other = paramiko.ECDSAKey.generate()
    wrong = dataclasses.replace(ssh_host, host_key=f"{other.get_name()} {other.get_base64()}")
    with pytest.raises(HostKeyMismatch) as caught:
        answer(wrong)
    text = str(caught.value)
    assert own_fingerprint(ssh_host) in text
    assert fingerprint(other.asbytes()) in text
    assert "server" in text
    assert "host_key" in text


def test_a_host_without_a_key_of_the_pinned_type_is_refused(ssh_host: Host) -> None:
    ed25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
    with pytest.raises(HostKeyMismatch, match="no key of the type"):
        answer(dataclasses.replace(ssh_host, host_key=ed25519))


def test_a_pinned_fingerprint_is_as_good_as_a_key_whatever_its_type(ssh_host: Host) -> None:
    assert answer(without_key(ssh_host, own_fingerprint(ssh_host))) == "hello"
    with pytest.raises(HostKeyMismatch, match="host_key_fingerprint in the hosts file expects SHA256:A"):
        answer(without_key(ssh_host, "SHA256:" + "A" * 43))


def test_a_host_that_nobody_knows_is_refused_and_its_fingerprint_offered(ssh_host: Host) -> None:
    with pytest.raises(HostKeyMismatch) as caught:
        answer(without_key(ssh_host))
    assert f"host_key_fingerprint: {own_fingerprint(ssh_host)}" in str(caught.value)


def test_a_server_that_hangs_over_a_key_is_no_refusal(ssh_host: Host, tmp_path: Path) -> None:
    (tmp_path / "home" / "slow-login").touch()
    remote = SshRemote(ssh_host, Timeouts(authenticate=0.5))
    with pytest.raises(HostUnreachable, match=r"no answer to a key within 0\.5 s"):
        remote.run(["true"], SOON)
    remote.close()


def test_known_hosts_is_believed_for_and_against_a_host(ssh_host: Host, tmp_path: Path) -> None:
    assert ssh_host.host_key
    known_hosts(ssh_host, tmp_path, ssh_host.host_key)
    assert answer(without_key(ssh_host)) == "hello"
    other = paramiko.ECDSAKey.generate()
    (tmp_path / ".ssh" / "known_hosts").write_text(
        f"[127.0.0.1]:{ssh_host.port} {other.get_name()} {other.get_base64()}\n"
    )
    with pytest.raises(HostKeyMismatch, match="known_hosts expects"):
        answer(without_key(ssh_host))


def test_what_the_inventory_leaves_out_comes_from_the_ssh_configuration(ssh_host: Host, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host lab\n  HostName 127.0.0.1\n  Port {ssh_host.port}\n  User me\n  IdentityFile {ssh_host.identity_file}\n"
    )
    short = dataclasses.replace(ssh_host, address="lab", port=None, user=None, identity_file=None)
    assert answer(short, str(config)) == "hello"


def test_a_jump_host_is_gone_through_once_its_own_key_is_known(ssh_host: Host, tmp_path: Path) -> None:
    assert ssh_host.host_key
    # The server is its own bastion here.
    through = dataclasses.replace(ssh_host, jump=f"me@127.0.0.1:{ssh_host.port}")
    config = tmp_path / "config"
    config.write_text(f"Host 127.0.0.1\n  IdentityFile {ssh_host.identity_file}\n")
    with pytest.raises(HostKeyMismatch, match=r"server \(jump host 127\.0\.0\.1\).*known_hosts has no key") as caught:
        answer(through, str(config))
    assert caught.value.host == "server"  # the one that is missing
    known_hosts(ssh_host, tmp_path, ssh_host.host_key)
    assert answer(through, str(config)) == "hello"


def test_a_jump_host_that_cannot_be_reached_is_named_and_the_host_behind_it_is_missing(ssh_host: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(HostUnreachable, match=rf"server \(jump host 127\.0\.0\.1\) \(127\.0\.0\.1:{port}\)") as caught:
        answer(dataclasses.replace(ssh_host, jump=f"me@127.0.0.1:{port}"))
    assert caught.value.host == "server"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("Port ssh", r"config: 'ssh' is no port of 127\.0\.0\.1; write a number"),
        ("ProxyJump gate:ssh", r"config: 'ssh' is no port of gate; write a number"),
        ("ProxyJump gate:99999", r"config: '99999' is no port of gate"),
        ("HostName a..b", r"a\.\.b:.*no host can have that name"),
        (f"HostName {64 * 'a'}", "no host can have that name"),
    ],
)
def test_what_no_host_has_in_the_ssh_configuration_is_named(
    ssh_host: Host, tmp_path: Path, option: str, said: str
) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host *\n  {option}\n")
    with pytest.raises(HostUnreachable, match=rf"host server .*{said}"):
        answer(dataclasses.replace(ssh_host, port=None), str(config))


def test_a_comment_in_another_encoding_does_no_harm(ssh_host: Host, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_bytes(b"# M\xfcller\nHost *\n  User me\n")
    assert answer(dataclasses.replace(ssh_host, user=None), str(config)) == "hello"


def test_a_user_who_is_not_let_in_is_told_which_keys_were_tried(ssh_host: Host) -> None:
    with pytest.raises(HostUnreachable, match=r"server .*user you is refused with any of the keys .*/id"):
        answer(dataclasses.replace(ssh_host, user="you"))
    with pytest.raises(HostUnreachable, match="none to offer; /lost: No such file or directory"):
        answer(dataclasses.replace(ssh_host, identity_file="/lost"))


def test_a_port_where_nobody_listens_is_named(ssh_host: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(HostUnreachable, match=rf"host server \(127\.0\.0\.1:{port}\) .*[Rr]efused"):
        answer(dataclasses.replace(ssh_host, port=port))


def test_a_name_that_does_not_exist_is_named(ssh_host: Host) -> None:
    with pytest.raises(HostUnreachable, match=r"no-such-host\.invalid"):
        answer(dataclasses.replace(ssh_host, address="no-such-host.invalid"))


def test_a_server_that_never_greets_costs_no_more_than_the_deadline(ssh_host: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        mute = dataclasses.replace(ssh_host, port=listener.getsockname()[1])
        remote = SshRemote(mute, Timeouts(connect=1, banner=1, authenticate=1), "/nonexistent")
        started = time.monotonic()
        with pytest.raises(HostUnreachable):
            remote.run(["true"], SOON)
        assert time.monotonic() - started < 10


def test_closing_waits_for_no_connection_that_is_still_being_made(ssh_host: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        mute = dataclasses.replace(ssh_host, port=listener.getsockname()[1])
        remote = SshRemote(mute, Timeouts(banner=10 * SOON), "/nonexistent")
        with ThreadPoolExecutor(1) as other:
            asking = other.submit(remote.run, ["true"], SOON)
            connection, _ = listener.accept()
            remote.close()
            with pytest.raises(HostUnreachable, match="closed while"):
                asking.result(SOON)
        connection.close()


def test_a_closed_remote_connects_anew(ssh_host: Host) -> None:
    remote = SshRemote(ssh_host, config_file="/nonexistent")
    for _ in range(2):
        assert remote.run(["echo", "hello"], SOON).stdout == "hello\n"
        remote.close()


def test_a_host_that_lets_its_output_drip_is_late_all_the_same(ssh_host: Host) -> None:
    remote = SshRemote(ssh_host, config_file="/nonexistent")
    channel = remote.open(["sh", "-c", "while :; do printf x; sleep 0.05; done"])
    with pytest.raises(CommandTimeout, match="a line from"):
        channel.read_line(0.5)
    with pytest.raises(CommandTimeout):
        channel.read_all(0.5)
    channel.close(wait_seconds=0.0)
    remote.close()


def transport_of(remote: SshRemote) -> paramiko.Transport:
    assert remote._connection is not None
    return remote._connection.result(SOON).transport


def test_a_lost_connection_is_told_and_made_anew(ssh_host: Host) -> None:
    remote = SshRemote(ssh_host, config_file="/nonexistent")
    channel = remote.open(["cat"])
    channel.send_line("one")
    assert channel.read_line(SOON) == "one"
    transport_of(remote).sock.close()
    with pytest.raises(HostUnreachable, match="server"):
        channel.read_line(SOON)
    with pytest.raises(HostUnreachable, match="server"):
        channel.send_line("two")
    channel.close()
    assert remote.run(["echo", "again"], SOON).stdout == "again\n"
    remote.close()


def test_a_connection_that_ends_under_a_line_that_is_sent_is_a_lost_host(ssh_host: Host) -> None:
    remote = SshRemote(ssh_host, config_file="/nonexistent")
    channel = remote.open(["cat"])
    # No more may be written, and nothing has told so to whoever reads.
    transport_of(remote).sock.shutdown(socket.SHUT_WR)
    with pytest.raises(HostUnreachable, match="server"):
        channel.send_line("one")
    remote.close()


def test_a_line_after_the_end_of_the_input_is_refused(ssh_host: Host) -> None:
    remote = SshRemote(ssh_host, config_file="/nonexistent")
    channel = remote.open(["sleep", "60"])
    channel.close_stdin()
    with pytest.raises(HostUnreachable, match="its input is closed"):
        channel.send_line("one")
    remote.close()


@pytest.mark.parametrize("use", [lambda remote: remote.open(["cat"]), lambda remote: remote.put(b"data", "file")])
def test_a_server_that_is_alive_and_stuck_costs_no_more_than_the_deadline(
    ssh_host: Host, tmp_path: Path, use: Callable[[Remote], object]
) -> None:
    remote = SshRemote(ssh_host, Timeouts(open_channel=0.5), "/nonexistent")
    assert remote.run(["echo", "well"], SOON).stdout == "well\n"
    stuck = tmp_path / "home" / "stuck"
    stuck.touch()
    with pytest.raises(HostUnreachable, match=r"no answer to a request within 0.5 s"):
        use(remote)
    stuck.unlink()
    assert remote.run(["echo", "again"], SOON).stdout == "again\n"
    remote.close()


@pytest.mark.parametrize("lack", ["no-sftp", "lost-sftp"])
def test_a_server_that_takes_no_files_is_told_what_it_lacks_and_stays_connected(
    ssh_host: Host, tmp_path: Path, lack: str
) -> None:
    remote = SshRemote(ssh_host, config_file="/nonexistent")
    (tmp_path / "home" / lack).touch()
    with pytest.raises(CommandFailed, match=r"host server: .*Subsystem sftp internal-sftp"):
        remote.put(b"data", "file")
    before = transport_of(remote)
    assert remote.run(["echo", "well"], SOON).stdout == "well\n"
    assert transport_of(remote) is before
    remote.close()


# --- Pipes ------------------------------------------------------------------------------------------------------------


def test_a_command_that_reads_nothing_takes_a_line_no_longer_than_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "SEND_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(local, "CLOSE_SECONDS", 0.1)
    remote = LocalRemote("here", tmp_path)
    channel = remote.open(["sleep", "60"])
    with pytest.raises(HostUnreachable, match=r"host here .*takes no more input"):
        channel.send_line("x" * 1_000_000)
    remote.close()


def test_a_channel_closes_under_a_line_that_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SEND_TIMEOUT_SECONDS", 10 * SOON)
    monkeypatch.setattr(local, "CLOSE_SECONDS", 0.1)
    remote = LocalRemote("here", tmp_path)
    channel = remote.open(["sh", "-c", "head -n 1; exec sleep 60"])
    with ThreadPoolExecutor(1) as other:
        sending = other.submit(channel.send_line, "x\n" * 500_000)
        assert channel.read_line(SOON) == "x"  # what else is sent stays in the pipe
        channel.close()
        with pytest.raises(HostUnreachable, match="the channel is closed"):
            sending.result(SOON)


# --- The ssh program --------------------------------------------------------------------------------------------------


def openssh(host: Host, keys: Path | None = None) -> str:
    remote = OpenSshRemote(host, keys, config_file="/dev/null")
    try:
        return remote.run(["echo", "hello"], SOON).stdout.strip()
    finally:
        remote.close()


def test_ssh_is_told_to_forward_nothing_and_to_ask_for_nothing() -> None:
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


def test_a_jump_host_that_is_not_believed_is_told_from_the_host(
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
