"""Which of the user's keys a server is offered, and in which order.

Every key that is offered tells a server who asks, and is one of the few attempts that it allows. So a server is offered
what its own configuration says, as OpenSSH does:

1. the private keys that are named for it; the agent is not even asked when one of them is accepted,
2. the keys of the SSH agent; with `IdentitiesOnly` those alone whose public part a file of (1) or (3) has,
3. when no key is named for it: the default ones, `~/.ssh/id_*`.
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
"""Of a key file."""
_CONTAINER = b"openssh-key-v1\0"
_PUBLIC = (b"ssh-", b"ecdsa-", b"sk-")


@dataclass(frozen=True, slots=True)
class Identities:
    """What a configuration says of the keys for one server.

    Attributes:
        named: private key files; None when it names none, and empty when it says that there are none.
        only: whether the agent's keys count only when a file stands for them.
        agent: socket of the SSH agent; empty for none.
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
    """The keys for one server, one after another.

    Attributes:
        tried: sources of the keys that were offered, for messages.
        locked: files that could not be read without their passphrase.
        unread: files that are there or named, and why each of them gave no key.
    """

    identities: Identities
    agent: SshAgent
    tried: list[str] = field(default_factory=list)
    locked: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    _offered: set[bytes] = field(default_factory=set)

    def __iter__(self) -> Iterator[paramiko.PKey]:
        """Yield the keys, each once; what a later one costs is not paid before it is asked for.

        Raises:
            AgentFault: the agent does not answer.
        """
        if self.identities.named is not None:
            yield from self._of_files(self.identities.named)
        yield from self._of_agent()
        if self.identities.named is None:
            yield from self._of_files(self.identities.files)

    def _of_agent(self) -> Iterator[paramiko.PKey]:
        parts = (file + part for file in self.identities.files for part in ("", "-cert"))
        named = set(map(public_part, parts)) if self.identities.only else None
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
            if is_locked(data):
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
        """Say that no key was accepted, and what may help."""
        unlocked = [file for file in self.locked if public_part(file) not in self._offered]
        if unlocked:
            return f"the private key {unlocked[-1]} has a passphrase; add it to the SSH agent: ssh-add {unlocked[-1]}"
        tried = (
            f"with any of the keys {', '.join(self.tried)}"
            if self.tried
            else "without a key, and there is none to offer"
        )
        return "; ".join([f"user {user} is not let in {tried}", *self.unread])


def _loaded(path: str) -> paramiko.PKey | None:
    """Return the private key of a file, with its certificate; None when it is none that can be used."""
    try:
        return paramiko.PKey.from_path(path)
    except (OSError, ValueError, TypeError, paramiko.SSHException, paramiko.pkey.UnknownKeyType):
        return None


def public_part(path: str) -> bytes | None:
    """Return the public key that belongs to a private key file, from the file beside it or from itself.

    Also a file with nothing but the public key is one, for a private key that the agent alone has.
    """
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
            held.get_int()  # the number of keys, which is one
            return held.get_binary()
    key = _loaded(path)
    return key.asbytes() if key is not None else None


def is_locked(data: bytes) -> bool:
    """Whether a private key has a passphrase."""
    held = _container(data)
    return held.get_binary() != b"none" if held is not None else b"ENCRYPTED" in data


def _container(data: bytes) -> paramiko.Message | None:
    """Return what a private key file of OpenSSH's own format holds; its public key is never encrypted."""
    lines = data.strip().splitlines()
    if not lines or lines[0] != b"-----BEGIN OPENSSH PRIVATE KEY-----":
        return None
    try:
        held = base64.b64decode(b"".join(line for line in lines if not line.startswith(b"-----")))
    except binascii.Error:
        return None
    return paramiko.Message(held[len(_CONTAINER) :]) if held.startswith(_CONTAINER) else None
