"""The keys that a server is offered, and their order.

Each offered key reveals the user to a server and uses one of its few attempts. The order is OpenSSH's:

1. private keys named for the server. The agent is not asked when one of them is accepted,
2. keys of the SSH agent. With `IdentitiesOnly`, only those whose public part is in a file of (1) or (3),
3. the default keys, `~/.ssh/id_*`, when none is named.
"""

from __future__ import annotations

import base64
import binascii
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import paramiko

from collie import files
from collie.ssh.ssh_agent import SshAgent

DEFAULT_FILES = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")
MAX_BYTES = 1 << 20
_CONTAINER = b"openssh-key-v1\0"
_PUBLIC = (b"ssh-", b"ecdsa-", b"sk-")


@dataclass(frozen=True, slots=True)
class Identities:
    """The configuration of keys for one server.

    Attributes:
        named: private key files. None when the configuration names none, empty when it disables keys.
        only: `IdentitiesOnly`.
        agent: socket of the SSH agent. Empty without an agent.
    """

    named: tuple[str, ...] | None = None
    only: bool = False
    agent: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Private key files, named or default ones."""
        return tuple(map(os.path.expanduser, DEFAULT_FILES)) if self.named is None else self.named


@dataclass
class Offer:
    """The keys for one server. For messages it records where offered keys came from, and locked or unusable files."""

    identities: Identities
    agent: SshAgent
    tried: list[str] = field(default_factory=list)
    locked: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    _offered: set[bytes] = field(default_factory=set)

    def __iter__(self) -> Iterator[paramiko.PKey]:
        """Yield each key once. The agent is not asked before its turn."""
        if self.identities.named is not None:
            yield from self._of_files(self.identities.named)
        yield from self._of_agent()
        if self.identities.named is None:
            yield from self._of_files(self.identities.files)

    def _of_agent(self) -> Iterator[paramiko.PKey]:
        parts = (file + part for file in self.identities.files for part in ("", "-cert"))
        named = set(map(_public_part, parts)) if self.identities.only else None
        for key in self.agent.listed():
            if (named is None or key.blob in named) and self._is_new(key, "those of the SSH agent"):
                yield key

    def _of_files(self, paths: Sequence[str]) -> Iterator[paramiko.PKey]:
        for path in paths:
            try:
                data = files.read_bytes(path, MAX_BYTES)
            except OSError as error:
                if self.identities.named is not None or not isinstance(error, FileNotFoundError):
                    self.unread.append(f"{path}: {error.strerror}")
                continue
            if _is_locked(data):
                self.locked.append(path)
            elif (key := _loaded(path)) is None:
                if not data.startswith(_PUBLIC):
                    rewrite = f"ssh-keygen -p -f {shlex.quote(path)} rewrites it"
                    self.unread.append(f"{path}: it is no private key that Collie can read ({rewrite})")
            elif self._is_new(key, path):
                yield key

    def _is_new(self, key: paramiko.PKey, source: str) -> bool:
        if key.asbytes() in self._offered:
            return False
        self._offered.add(key.asbytes())
        if source not in self.tried:
            self.tried.append(source)
        return True

    def refused(self, user: str) -> str:
        """Return the reason why no key was accepted, and a remedy."""
        unlocked = [file for file in self.locked if _public_part(file) not in self._offered]
        if unlocked:
            return f"the private key {unlocked[-1]} has a passphrase; add it to the SSH agent: ssh-add {unlocked[-1]}"
        keys = (
            f"with any of the keys {', '.join(self.tried)}"
            if self.tried
            else "without a key, and there is none to offer"
        )
        return "; ".join([f"user {user} is refused {keys}", *self.unread])


def _loaded(path: str) -> paramiko.PKey | None:
    try:
        return paramiko.PKey.from_path(path)
    except (OSError, ValueError, TypeError, paramiko.SSHException, paramiko.pkey.UnknownKeyType):
        return None


def _public_part(path: str) -> bytes | None:
    """Return the public key of a file. The file may have no private key, because an agent may hold it."""
    for file in (f"{path}.pub", path):
        try:
            data = files.read_bytes(file, MAX_BYTES)
        except OSError:
            continue
        words = data.split(maxsplit=2)
        try:
            if len(words) > 1 and words[0].startswith(_PUBLIC):
                return base64.b64decode(words[1], validate=True)
        except binascii.Error:
            continue
        if (held := _container(data)) is not None:
            _cipher, _derivation, _options = (held.get_binary() for _ in range(3))
            held.get_int()  # number of keys: one
            return held.get_binary()
    key = _loaded(path)
    return key.asbytes() if key is not None else None


def _is_locked(data: bytes) -> bool:
    held = _container(data)
    return held.get_binary() != b"none" if held is not None else b"ENCRYPTED" in data


def _container(data: bytes) -> paramiko.Message | None:
    """Return the content of a private key in OpenSSH's format, whose public key is never encrypted."""
    lines = data.strip().splitlines()
    if not lines or lines[0] != b"-----BEGIN OPENSSH PRIVATE KEY-----":
        return None
    try:
        held = base64.b64decode(b"".join(line for line in lines if not line.startswith(b"-----")))
    except binascii.Error:
        return None
    return paramiko.Message(held[len(_CONTAINER) :]) if held.startswith(_CONTAINER) else None
