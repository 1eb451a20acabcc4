"""Connections to remote hosts: deadlines, loss and closing."""

from __future__ import annotations

import dataclasses
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko
import pytest

from collie.errors import CommandFailed, CommandTimeout, HostUnreachable
from collie.inventory.hosts import Host
from collie.ports import Remote
from collie.ssh import local
from collie.ssh.connection import Timeouts
from collie.ssh.openssh import OpenSshRemote
from collie.ssh.remote import SshRemote
from collie.testing.remote_suite import SOON, RemoteSuite
from tests.support.local_remote import LocalRemote
from tests.support.remotes import answer


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


def test_a_port_without_a_listener_is_named(ssh_host: Host) -> None:
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


def test_a_lost_connection_is_reported_and_made_anew(ssh_host: Host) -> None:
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
def test_a_server_without_file_transfer_is_named_and_stays_connected(ssh_host: Host, tmp_path: Path, lack: str) -> None:
    remote = SshRemote(ssh_host, config_file="/nonexistent")
    (tmp_path / "home" / lack).touch()
    with pytest.raises(CommandFailed, match=r"host server: .*Subsystem sftp internal-sftp"):
        remote.put(b"data", "file")
    before = transport_of(remote)
    assert remote.run(["echo", "well"], SOON).stdout == "well\n"
    assert transport_of(remote) is before
    remote.close()


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


def test_the_file_of_a_pinned_key_is_written_once(
    ssh_host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ssh that is starting can be reading it while the next one begins."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    remote = OpenSshRemote(ssh_host, config_file="/dev/null")
    remote.run(["true"], SOON)
    (file,) = tmp_path.rglob("known_hosts")
    written = file.stat().st_mtime_ns
    remote.run(["true"], SOON)
    assert file.stat().st_mtime_ns == written
    remote.close()
    assert not file.exists()
