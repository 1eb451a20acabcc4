"""Which keys a known_hosts file states, whatever else is in it."""

from __future__ import annotations

from pathlib import Path

import paramiko
import pytest

from collie.ssh import trust

HOST, OTHER = (paramiko.ECDSAKey.generate() for _ in range(2))


def line(names: str, key: paramiko.PKey) -> str:
    return f"{names} {key.get_name()} {key.get_base64()}"


def stated(directory: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> set[str]:
    """What is believed of server-1 on port 22."""
    monkeypatch.setattr(trust, "SYSTEM_KNOWN_HOSTS", str(directory / "none"))
    file = directory / "known_hosts"
    file.write_bytes("\n".join(lines).encode("latin-1"))
    return set(trust.from_known_hosts("server-1", "server-1", 22, [str(file)]).fingerprints)


@pytest.mark.parametrize(
    "beside",
    [
        "@cert-authority *.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN8",
        "server-1 ssh-rsa AAAAB3Nza",
        "|1|cut ssh-rsa AAAAB3NzaC1yc2E=",
        "server-1 ssh-new-kind AAAA",
        "# a comment, \xff\xfe",
        "",
        "@revoked",
    ],
)
def test_a_line_that_is_no_key_of_a_host_takes_nothing_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    hashed = line(paramiko.HostKeys.hash_host("server-1"), HOST)
    found = stated(tmp_path, monkeypatch, beside, hashed, line("elsewhere", OTHER))
    assert found == {trust.fingerprint(HOST.asbytes())}


def test_every_key_that_is_listed_for_a_host_is_believed_but_for_revoked_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {trust.fingerprint(key.asbytes()) for key in (HOST, OTHER)}
    assert stated(tmp_path, monkeypatch, line("server-1,10.0.0.1", HOST), line("server-1", OTHER)) == both
    lines = (line("server-1", HOST), line("server-1", OTHER), f"@revoked {line('server-1', OTHER)}")
    assert stated(tmp_path, monkeypatch, *lines) == {trust.fingerprint(HOST.asbytes())}


@pytest.mark.parametrize("pattern", ["*", "server-?", "*.example.com,server-1"])
def test_a_revoked_key_is_believed_nowhere_whichever_pattern_names_its_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    assert stated(tmp_path, monkeypatch, line("server-1", HOST), f"@revoked {line(pattern, HOST)}") == set()


def test_the_key_of_a_certificate_authority_is_no_key_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stated(tmp_path, monkeypatch, f"@cert-authority {line('server-1', HOST)}") == set()
