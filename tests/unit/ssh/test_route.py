"""Which hops lead to a host, by what `~/.ssh/config` says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from collie.errors import HostUnreachable
from collie.inventory.hosts import Host
from collie.ssh.route import route
from collie.ssh.trust import fingerprint

HOST = Host("server-1", "mgmt-1", "192.0.2.1", "mlx5_0", user="root")
THROUGH = replace(HOST, jump="them@elsewhere")


def hops(directory: Path, config: str, host: Host = HOST) -> list[str]:
    """`user@address:port` of each hop."""
    file = directory / "config"
    file.write_text(config)
    return [f"{hop.user}@{hop.address}:{hop.port}" for hop in route(host, str(file))]


def test_a_user_without_a_name_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_007)  # as a container may be told to run as anybody
    with pytest.raises(HostUnreachable, match="user 4000000007 of this machine has no name; set USER"):
        hops(tmp_path, "")
    monkeypatch.setenv("USER", "somebody")
    assert hops(tmp_path, "", replace(HOST, user=None)) == ["somebody@mgmt-1:22"]


@pytest.mark.parametrize(
    ("jump", "through"),
    [
        ("me@bastion:2222", ["me@bastion:2222"]),
        ("ssh://me@bastion:2222", ["me@bastion:2222"]),
        ("ssh://me@bastion/", ["me@bastion:22"]),
        ("me@[2001:db8::1]:2222", ["me@2001:db8::1:2222"]),
        ("me@first, you@second:23", ["me@first:22", "you@second:23"]),
        ("none", []),
    ],
)
def test_a_proxy_jump_is_read_as_openssh_reads_it(tmp_path: Path, jump: str, through: list[str]) -> None:
    assert hops(tmp_path, f"Host mgmt-1\n  ProxyJump {jump}\n  Port 24\n") == [*through, "root@mgmt-1:24"]


def test_the_hosts_file_wins_over_the_configuration(tmp_path: Path) -> None:
    config = "Host mgmt-1\n  ProxyJump me@bastion\n  User admin\n"
    assert hops(tmp_path, config, THROUGH) == ["them@elsewhere:22", "root@mgmt-1:22"]


def test_a_jump_host_has_its_own_section(tmp_path: Path) -> None:
    config = "Host mgmt-1\n  ProxyJump gate\nHost gate\n  HostName bastion.example.com\n  User me\n  Port 2222\n"
    assert hops(tmp_path, config) == ["me@bastion.example.com:2222", "root@mgmt-1:22"]


@pytest.mark.parametrize(
    ("options", "listed"),
    [
        ("Port 22", "mgmt-1"),
        ("Port 2222", "[mgmt-1]:2222"),
        ("Port 22\n  HostKeyAlias rack-7", "rack-7"),
        ("Port 2222\n  HostKeyAlias rack-7", "rack-7"),
    ],
)
def test_a_key_is_looked_up_by_the_name_that_openssh_stores(tmp_path: Path, options: str, listed: str) -> None:
    key, known_hosts, config = paramiko.ECDSAKey.generate(), tmp_path / "known_hosts", tmp_path / "config"
    known_hosts.write_text(f"{listed} {key.get_name()} {key.get_base64()}\n")
    config.write_text(f"Host mgmt-1\n  UserKnownHostsFile {known_hosts}\n  {options}\n")
    (hop,) = route(HOST, str(config))
    assert hop.trust.fingerprints == (fingerprint(key.asbytes()),)
    assert hop.trust.address == f"mgmt-1:{hop.port}"


def test_a_proxy_command_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(HostUnreachable, match="has a ProxyCommand for it; use ProxyJump instead"):
        hops(tmp_path, "Host mgmt-1\n  ProxyCommand nc %h %p\n")


def test_a_configuration_that_leads_nowhere_is_no_fault_of_collie(tmp_path: Path) -> None:
    config = "CanonicalizeHostname yes\nCanonicalDomains invalid\nCanonicalizeFallbackLocal no\n"
    with pytest.raises(HostUnreachable, match="cannot be followed"):
        hops(tmp_path, config)
