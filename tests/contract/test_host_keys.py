"""Host keys: pinned, known and refused."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path

import paramiko
import pytest

from collie.errors import HostKeyMismatch, HostUnreachable
from collie.inventory.hosts import Host
from collie.ssh.connection import Timeouts
from collie.ssh.remote import SshRemote
from collie.ssh.trust import fingerprint
from collie.testing.remote_suite import SOON
from tests.support.remotes import answer, known_hosts, own_fingerprint, without_key


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


def test_an_unknown_host_is_refused_and_its_fingerprint_offered(ssh_host: Host) -> None:
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


def test_a_refused_login_names_the_keys_that_were_tried(ssh_host: Host) -> None:
    with pytest.raises(HostUnreachable, match=r"server .*user you is refused with any of the keys .*/id"):
        answer(dataclasses.replace(ssh_host, user="you"))
    with pytest.raises(HostUnreachable, match="none to offer; /lost: No such file or directory"):
        answer(dataclasses.replace(ssh_host, identity_file="/lost"))
