"""Remote hosts for tests of connections."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path

from collie.inventory.hosts import Host
from collie.ssh.connection import Timeouts
from collie.ssh.remote import SshRemote
from collie.ssh.trust import fingerprint
from collie.testing.remote_suite import SOON


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
