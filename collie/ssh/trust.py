"""Trusted host keys: the inventory's, otherwise `known_hosts`. An unknown key is never accepted."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from collie.errors import HostKeyMismatch
from collie.files import read_bytes

SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
MAX_BYTES = 16 << 20  # a hundred thousand hosts
_REVOKED = "@revoked"

_RSA = ("rsa-sha2-512", "rsa-sha2-256")
_ANY_TYPE = (("ssh-ed25519",), ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"), _RSA)


def fingerprint(blob: bytes) -> str:
    """Return the fingerprint of a public key, as OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """The keys that a host may present. An unknown host has no fingerprints.

    Attributes:
        attempts: signature algorithms to offer, one tuple per connection. The offer decides which key a server shows,
            so a pinned fingerprint of unknown type may take several connections.
    """

    host: str
    address: str
    fingerprints: tuple[str, ...]
    attempts: tuple[tuple[str, ...], ...]
    source: str

    def verify(self, key: paramiko.PKey) -> None:
        """Raise `HostKeyMismatch` unless a presented key is trusted."""
        presented = fingerprint(key.asbytes())
        if presented in self.fingerprints:
            return
        if self.fingerprints:
            expected = " or ".join(self.fingerprints)
            fault = (
                f"it presents {key.get_name()} {presented}, but {self.source} expects {expected}. Either another "
                f"machine answers there, or this one was installed anew: find out which, then change {self.source}"
            )
        else:
            fault = (
                f"{self.source} has no key for it. It presents {key.get_name()} {presented}; compare that with "
                "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host itself, then give it as "
                f"`host_key_fingerprint: {presented}` in the hosts file"
            )
        raise HostKeyMismatch(self.host, self.address, fault)


def pinned(host: str, address: str, host_key: str | None, host_key_fingerprint: str | None) -> TrustedKeys | None:
    """Return the keys that the inventory pins, if any."""
    if host_key:
        key_type, blob = host_key.split()
        expected = fingerprint(base64.b64decode(blob))
        return TrustedKeys(host, address, (expected,), (_algorithms(key_type),), "host_key in the hosts file")
    if host_key_fingerprint:
        return TrustedKeys(host, address, (host_key_fingerprint,), _ANY_TYPE, "host_key_fingerprint in the hosts file")
    return None


def from_known_hosts(host: str, address: str, port: int, files: Sequence[str], alias: str | None = None) -> TrustedKeys:
    """Return the keys in OpenSSH's files. Unreadable files and lines are ignored.

    Like OpenSSH, it looks an `alias` (`HostKeyAlias`) up without the port.
    """
    keys: dict[str, str] = {}
    revoked: set[str] = set()
    name = alias or (address if port == 22 else f"[{address}]:{port}")
    for file in [*files, SYSTEM_KNOWN_HOSTS]:
        for marker, key in _listed(file, name):
            if marker == _REVOKED:
                revoked.add(fingerprint(key.asbytes()))
            elif not marker:  # the key of a `@cert-authority` line is not a host key
                keys[fingerprint(key.asbytes())] = key.get_name()
    keys = {print_: key_type for print_, key_type in keys.items() if print_ not in revoked}
    algorithms = tuple(algorithm for key_type in dict.fromkeys(keys.values()) for algorithm in _algorithms(key_type))
    everything = tuple(chain.from_iterable(_ANY_TYPE))
    source = files[0] if files else SYSTEM_KNOWN_HOSTS
    return TrustedKeys(host, f"{address}:{port}", tuple(keys), (algorithms or everything,), source)


def _listed(file: str, name: str) -> Iterator[tuple[str, paramiko.PKey]]:
    """Yield marker and key of each line about a host or a revoked key. Paramiko rejects a file for one bad line."""
    try:
        lines = read_bytes(os.path.expanduser(file), MAX_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        marker, rest = line.split(maxsplit=1) if line.startswith("@") and len(line.split()) > 1 else ("", line.strip())
        store = paramiko.HostKeys()
        try:
            if (entry := HostKeyEntry.from_line(rest)) is None:
                continue
            for known in entry.hostnames:
                store.add(known, entry.key.get_name(), entry.key)
            # A revoked key is trusted nowhere: its line may name hosts by a pattern, see sshd(8).
            if marker == _REVOKED or store.lookup(name):
                yield marker, entry.key
        except (paramiko.SSHException, InvalidHostKey, AssertionError, IndexError, ValueError):
            continue


def _algorithms(key_type: str) -> tuple[str, ...]:
    return _RSA if key_type == "ssh-rsa" else (key_type,)
