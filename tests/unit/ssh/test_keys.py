"""A private key file that gives no key is named with the reason, when no key was accepted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from collie.ssh.keys import Identities, Offer
from collie.ssh.ssh_agent import SshAgent

NO_KEY = "user me is refused without a key, and there is none to offer"


def refused(identities: Identities) -> str:
    """What is said after all keys were offered in vain."""
    offer = Offer(identities, SshAgent("", 1.0, 1.0))
    list(offer)
    return offer.refused("me")


def pkcs8(file: Path) -> None:
    key = Ed25519PrivateKey.generate()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def garbage(file: Path) -> None:
    file.write_bytes(b"\0" * 100)


def unreadable(file: Path) -> None:
    file.touch(0)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (pkcs8, "it is no private key that Collie can read (ssh-keygen -p -f {file} rewrites it)"),
        (garbage, "it is no private key that Collie can read (ssh-keygen -p -f {file} rewrites it)"),
        (Path.mkdir, "it is a directory, not a regular file"),
        (os.mkfifo, "it is a FIFO, not a regular file"),
        (lambda file: None, "No such file or directory"),
        pytest.param(
            unreadable, "Permission denied", marks=pytest.mark.skipif(os.geteuid() == 0, reason="root reads all")
        ),
    ],
)
def test_a_named_key_that_cannot_be_used_is_reported_with_the_reason(
    tmp_path: Path, make: Callable[[Path], None], why: str
) -> None:
    file = tmp_path / "id"
    make(file)
    assert refused(Identities(named=(str(file),))) == f"{NO_KEY}; {file}: {why.format(file=file)}"


def test_each_unusable_key_is_reported_beside_those_that_were_offered(tmp_path: Path) -> None:
    good, odd = tmp_path / "good", tmp_path / "odd key"
    paramiko.ECDSAKey.generate().write_private_key_file(str(good))
    garbage(odd)
    assert refused(Identities(named=(str(odd), str(good), "/lost"))) == (
        f"user me is refused with any of the keys {good}; {odd}: it is no private key that Collie can read "
        f"(ssh-keygen -p -f '{odd}' rewrites it); /lost: No such file or directory"
    )


def test_of_the_default_keys_only_the_present_ones_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert refused(Identities()) == NO_KEY
    (tmp_path / ".ssh").mkdir()
    pkcs8(tmp_path / ".ssh" / "id_ed25519")
    assert refused(Identities()).startswith(f"{NO_KEY}; {tmp_path}/.ssh/id_ed25519: it is no private key")


def test_a_public_key_that_stands_for_one_of_the_agent_is_no_bad_private_key(tmp_path: Path) -> None:
    key = paramiko.ECDSAKey.generate()
    (tmp_path / "id").write_text(f"{key.get_name()} {key.get_base64()} me@here\n")
    assert refused(Identities(named=(str(tmp_path / "id"),))) == NO_KEY
