"""From an inventory entry and `~/.ssh/config` to the hops to a host."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko

from collie.errors import HostUnreachable, TestbedError
from collie.files import read_bytes
from collie.inventory.hosts import Host
from collie.ssh.keys import Identities
from collie.ssh.trust import MAX_BYTES, TrustedKeys, from_known_hosts, pinned

USER_CONFIG = "~/.ssh/config"
USER_KNOWN_HOSTS = "~/.ssh/known_hosts"
SOCKET_VARIABLE = "SSH_AUTH_SOCK"
_TOKENS: Mapping[str, Callable[[], str]] = {
    "d": lambda: os.path.expanduser("~"),
    "i": lambda: str(os.getuid()),
    "u": getpass.getuser,
    "%": lambda: "%",
}
"""See ssh_config(5)."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One SSH server on the way. `label` names it in messages."""

    label: str
    address: str
    port: int
    user: str
    identities: Identities
    trust: TrustedKeys


def route(host: Host, config_file: str = USER_CONFIG) -> tuple[Hop, ...]:
    """Return the hops to a host, the host last. The inventory takes precedence over the configuration file.

    Raises:
        HostUnreachable: the configuration file cannot be followed.
        TestbedError: the configuration file cannot be read.
    """
    try:
        getpass.getuser()  # paramiko's configuration always needs the user's name
    except (KeyError, OSError, ImportError):
        words = f"user {os.getuid()} of this machine has no name; set USER to one"
        raise HostUnreachable(host.name, host.address, words) from None
    try:
        return _route(host, config_file, _load(host, config_file))
    except (paramiko.SSHException, ImportError) as error:  # from canonical names, or `Match exec` without its package
        raise HostUnreachable(host.name, host.address, f"{config_file} cannot be followed: {error}") from error


def _route(host: Host, config_file: str, config: paramiko.SSHConfig) -> tuple[Hop, ...]:
    options = config.lookup(host.address)
    jump = host.jump or options.get("proxyjump") or ""
    if "proxycommand" in options and not jump:
        raise HostUnreachable(
            host.name, host.address, f"{config_file} has a ProxyCommand for it; use ProxyJump instead"
        )
    try:
        jumps = [_jump(host, text, config) for text in jump.split(",") if jump.lower() != "none" and text.strip()]
        return (*jumps, _hop(host, host.name, config))
    except _NoPort as error:
        raise HostUnreachable(host.name, host.address, f"{config_file}: {error}") from None


class _NoPort(ValueError):
    """The configuration file has an invalid port."""


def _port(text: str, address: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise _NoPort(f"{text!r} is no port of {address}; write a number from 1 to 65535")
    return int(text)


def _load(host: Host, config_file: str) -> paramiko.SSHConfig:
    path = Path(os.path.expanduser(config_file))
    try:
        # OpenSSH reads bytes, so a comment in another encoding is no reason to refuse the file.
        text = read_bytes(path, MAX_BYTES).decode(errors="replace")
    except FileNotFoundError:
        text = ""
    except OSError as error:  # a local error, which a retry does not help
        raise TestbedError(f"host {host.name}: {config_file} cannot be read: {error.strerror}") from error
    try:
        return paramiko.SSHConfig.from_text(text)
    except paramiko.SSHException as error:
        raise HostUnreachable(host.name, host.address, f"{config_file} cannot be read: {error}") from error


def _jump(target: Host, text: str, config: paramiko.SSHConfig) -> Hop:
    # OpenSSH takes a URI as well.
    user, _, place = text.strip().removeprefix("ssh://").rstrip("/").rpartition("@")
    if place.startswith("["):
        address, _, port = place[1:].partition("]")
        port = port.lstrip(":")
    else:
        address, _, port = place.partition(":")
    jump = Host(
        name=f"{target.name} (jump host {address})",
        address=address,
        data_address="",
        device="",
        port=_port(port, address) if port else None,
        user=user or None,
    )
    return _hop(jump, jump.name, config)


def _hop(host: Host, label: str, config: paramiko.SSHConfig) -> Hop:
    options = config.lookup(host.address)
    address = str(options.get("hostname", host.address))
    port = host.port or _port(str(options.get("port", 22)), host.address)
    known_hosts = str(options.get("userknownhostsfile", USER_KNOWN_HOSTS)).split()
    return Hop(
        label,
        address,
        port,
        host.user or str(options.get("user", "")) or getpass.getuser(),
        _identities(host, options),
        pinned(label, f"{address}:{port}", host.host_key, host.host_key_fingerprint)
        or from_known_hosts(label, address, port, known_hosts, options.get("hostkeyalias")),
    )


def _identities(host: Host, options: Mapping[str, Any]) -> Identities:
    if str(options.get("pubkeyauthentication", "yes")).lower() == "no":
        return Identities(named=())
    listed = [host.identity_file] if host.identity_file else options.get("identityfile", [])
    named = tuple(os.path.expanduser(file) for file in listed if file.lower() != "none")
    only = str(options.get("identitiesonly", "no")).lower() in ("yes", "true")
    return Identities(
        named if listed else None, only, _agent_socket(str(options.get("identityagent", SOCKET_VARIABLE)))
    )


def _agent_socket(text: str) -> str:
    if text.lower() == "none":
        return ""
    if text == SOCKET_VARIABLE or text.startswith("$"):
        return os.environ.get(text.removeprefix("$").strip("{}"), "")
    return re.sub("%([diu%])", lambda token: _TOKENS[token[1]](), os.path.expanduser(text))
