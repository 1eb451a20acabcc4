"""One verified, authenticated connection to a host, through its jump hosts."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import paramiko
from paramiko.agent import AgentKey
from paramiko.ssh_exception import IncompatiblePeer

from collie.errors import HostKeyMismatch, HostUnreachable
from collie.ssh.route import Hop
from collie.ssh.ssh_agent import SshAgent

# Its threads log whatever ends a connection, with tracebacks; what matters of it comes as an exception.
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)

KEEPALIVE_SECONDS = 2.0
DEAD_AFTER_MILLISECONDS = 10000
"""Unacknowledged data, such as a keepalive, for this long ends the connection: the host is gone."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Deadlines of the steps of a connection, in seconds.

    Attributes:
        connect, banner, authenticate, open_channel: of the server.
        agent: of the SSH agent's list of keys. One that waits for its user, for another connection, answers nobody.
        sign: of its signature; a hardware key waits for a touch.
    """

    connect: float = 8.0
    banner: float = 15.0
    authenticate: float = 15.0
    open_channel: float = 10.0
    agent: float = 10.0
    sign: float = 60.0


class Connection:
    """A chain of SSH clients, the last of which is the host's."""

    def __init__(self, clients: Sequence[paramiko.SSHClient]) -> None:
        self._clients = tuple(clients)
        transport = self._clients[-1].get_transport()
        assert transport is not None, "a connection is built from connected clients"
        self._transport = transport

    @property
    def transport(self) -> paramiko.Transport:
        """The transport to the host itself; one that has ended, once the connection is closed."""
        return self._transport

    @property
    def is_alive(self) -> bool:
        """Whether the host could still be there, as far as TCP knows."""
        return self.transport.is_active()

    def close(self) -> None:
        """Close all hops, the host's first."""
        for client in reversed(self._clients):
            client.close()


def connect(hops: Sequence[Hop], timeouts: Timeouts) -> Connection:
    """Connect hop by hop.

    Raises:
        HostUnreachable: no connection, no authentication, or not in time. The text names the hop, `host` is the last.
        HostKeyMismatch: a hop presents an unexpected key; likewise.
    """
    clients: list[paramiko.SSHClient] = []
    try:
        for hop in hops:
            clients.append(_connect_hop(hop, clients[-1] if clients else None, timeouts))
    except BaseException as error:
        for client in reversed(clients):
            client.close()
        if isinstance(error, HostUnreachable | HostKeyMismatch):
            error.host = hops[-1].label  # whichever hop it is about, this is the host of the inventory that is missing
        raise
    return Connection(clients)


def _connect_hop(hop: Hop, through: paramiko.SSHClient | None, timeouts: Timeouts) -> paramiko.SSHClient:
    mismatch: HostKeyMismatch | None = None
    incompatible = ""
    for algorithms in hop.trust.attempts:
        try:
            return _attempt(hop, through, timeouts, algorithms)
        except HostKeyMismatch as error:
            mismatch = error
        except IncompatiblePeer as error:
            incompatible = str(error)
        except _Hung as error:
            raise _unreachable(hop, str(error)) from error
        except paramiko.SSHException as error:
            raise _unreachable(hop, _words(hop, error, timeouts)) from error
        except TimeoutError as error:
            raise _unreachable(hop, f"no answer within {timeouts.connect:g} s") from error
        except (OSError, EOFError) as error:
            raise _unreachable(hop, getattr(error, "strerror", None) or str(error) or "connection closed") from error
    if mismatch is not None:
        raise mismatch
    expected = " or ".join(hop.trust.fingerprints)
    message = f"it has no key of the type that {hop.trust.source} expects ({expected}): {incompatible}"
    raise HostKeyMismatch(hop.label, hop.trust.address, message)


def _attempt(
    hop: Hop, through: paramiko.SSHClient | None, timeouts: Timeouts, algorithms: Sequence[str]
) -> paramiko.SSHClient:
    def transport(sock: Any, **options: Any) -> paramiko.Transport:
        made = _Transport(sock, **options)
        made.timeouts = timeouts
        security = made.get_security_options()
        security.key_types = [name for name in algorithms if name in security.key_types]
        made.set_keepalive(int(KEEPALIVE_SECONDS))
        return made

    client = paramiko.SSHClient()
    agent = SshAgent(timeouts.agent, timeouts.sign)
    client._agent = agent  # type: ignore[attr-defined]  # else it takes its own, and waits for that without end
    verify = _Verify(hop)
    client.set_missing_host_key_policy(verify)
    sock = _socket(hop, through, timeouts)
    try:
        client.connect(
            hop.address,
            hop.port,
            hop.user,
            key_filename=cast(
                "str", [file for file in hop.identity_files if Path(file).is_file()]
            ),  # takes a list, too
            sock=sock,
            timeout=timeouts.banner,
            banner_timeout=timeouts.banner,
            auth_timeout=timeouts.authenticate,
            channel_timeout=timeouts.open_channel,
            transport_factory=transport,
        )
    except BaseException as error:
        client.close()
        sock.close()
        if agent.fault:
            raise _unreachable(hop, agent.fault) from error
        if verify.passed and isinstance(error, paramiko.SSHException):
            # Of a refused key in one format paramiko may report that it is not in another one.
            raise error if isinstance(error, paramiko.AuthenticationException) else _Refused() from error
        raise
    return client


class _Transport(paramiko.Transport):
    """Has patience with a key of the SSH agent, whose user may have to be there for it.

    Attributes:
        timeouts: of the connection.
    """

    timeouts = Timeouts()

    def auth_publickey(self, username: str, key: paramiko.PKey, event: threading.Event | None = None) -> list[str]:
        signing = self.timeouts.sign if isinstance(key, AgentKey) else 0.0
        self.auth_timeout = self.timeouts.authenticate + signing
        try:
            return super().auth_publickey(username, key, event)
        except paramiko.AuthenticationException as error:
            if str(error) != "Authentication timeout.":
                raise
            raise _Hung(self.auth_timeout) from error


class _Hung(Exception):
    """The server has not answered to a key. No `SSHException`, after which paramiko would try the next key."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer to a key within {seconds:g} s: its log-in hangs, or the host is very busy")


class _Refused(paramiko.AuthenticationException):
    """The server let nobody in."""


def _socket(hop: Hop, through: paramiko.SSHClient | None, timeouts: Timeouts) -> Any:
    if through is not None:
        transport = through.get_transport()
        assert transport is not None, "jump hosts are connected"
        target = (hop.address, hop.port)
        return transport.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=timeouts.connect)
    try:
        sock = socket.create_connection((hop.address, hop.port), timeouts.connect)
    except UnicodeError as error:  # of the codec that writes names as DNS has them
        raise _unreachable(hop, f"no host can have that name: {error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_MILLISECONDS)
    return sock


class _Verify(paramiko.MissingHostKeyPolicy):
    """Asks the trust of a hop about every key: the client itself is given no keys, so all of them are "missing"."""

    def __init__(self, hop: Hop) -> None:
        self._hop = hop
        self.passed = False

    def missing_host_key(self, _client: paramiko.SSHClient, _hostname: str, key: paramiko.PKey) -> None:
        self._hop.trust.verify(key)
        self.passed = True


def _words(hop: Hop, error: paramiko.SSHException, timeouts: Timeouts) -> str:
    if str(error) == "No existing session":  # how paramiko words that the key exchange did not end in time
        return f"no SSH session within {timeouts.banner:g} s"
    missing = [file for file in hop.identity_files if not Path(file).is_file()]
    offered = [file for file in hop.identity_files if file not in missing]
    if isinstance(error, paramiko.PasswordRequiredException):
        return f"the private key {', '.join(offered)} has a passphrase; add it to the SSH agent: ssh-add {offered[-1]}"
    if isinstance(error, paramiko.AuthenticationException):
        tried = f"{', '.join(offered)} and those of the SSH agent" if offered else "the SSH agent's and ~/.ssh/id_*"
        lost = f"; {', '.join(missing)} does not exist" if missing else ""
        return f"user {hop.user} is not let in with any of the keys {tried}{lost}"
    return str(error)


def _unreachable(hop: Hop, reason: str) -> HostUnreachable:
    return HostUnreachable(hop.label, f"{hop.address}:{hop.port}", reason)
