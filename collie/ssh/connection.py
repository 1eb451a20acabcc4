"""One verified, authenticated connection to a host, through jump hosts."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from collie.errors import HostKeyMismatch, HostUnreachable
from collie.ssh.channel import CONNECTION_ERRORS
from collie.ssh.keys import Offer
from collie.ssh.route import Hop
from collie.ssh.ssh_agent import AgentFault, AgentKey, SshAgent

# Paramiko's threads log lost connections with tracebacks. The same errors reach the caller as exceptions.
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)

KEEPALIVE_SECONDS = 2
DEAD_AFTER_MILLISECONDS = 10000
"""A host is gone when it has not acknowledged data, such as a keepalive, for this time."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Deadlines in seconds of the SSH server and of the SSH agent. A signature may wait for the touch of a key."""

    connect: float = 8.0
    banner: float = 15.0
    authenticate: float = 15.0
    open_channel: float = 10.0
    agent: float = 10.0
    sign: float = 60.0


class SshConnection:
    """A chain of transports to the host."""

    def __init__(self, transports: Sequence[paramiko.Transport]) -> None:
        self._transports = tuple(transports)

    @property
    def transport(self) -> paramiko.Transport:
        """The transport to the host. It is active while its TCP connection holds."""
        return self._transports[-1]

    def close(self) -> None:
        """Close all hops, the host's first."""
        for transport in reversed(self._transports):
            transport.close()


def connect(hops: Sequence[Hop], timeouts: Timeouts) -> SshConnection:
    """Connect hop by hop.

    Raises:
        HostUnreachable: a hop accepts no connection or no key, or is late. The text names it, `host` the last hop.
        HostKeyMismatch: a hop presents an unexpected host key. Text and `host` are as above.
    """
    transports: list[paramiko.Transport] = []
    try:
        for hop in hops:
            transports.append(_connect_hop(hop, transports[-1] if transports else None, timeouts))
    except BaseException as error:
        SshConnection(transports).close()
        if isinstance(error, HostUnreachable | HostKeyMismatch):
            error.host = hops[-1].label  # the inventory's host, whichever hop failed
        raise
    return SshConnection(transports)


def _connect_hop(hop: Hop, through: paramiko.Transport | None, timeouts: Timeouts) -> paramiko.Transport:
    mismatch: HostKeyMismatch | None = None
    incompatible = ""
    for algorithms in hop.trust.attempts:
        try:
            return _attempt(hop, through, timeouts, algorithms)
        except HostKeyMismatch as error:
            mismatch = error
        except IncompatiblePeer as error:
            incompatible = str(error)
        except CONNECTION_ERRORS as error:
            raise _unreachable(hop, _reason(error, timeouts)) from error
    if mismatch is not None:
        raise mismatch
    expected = " or ".join(hop.trust.fingerprints)
    message = f"it has no key of the type that {hop.trust.source} expects ({expected}): {incompatible}"
    raise HostKeyMismatch(hop.label, hop.trust.address, message)


def _attempt(
    hop: Hop, through: paramiko.Transport | None, timeouts: Timeouts, algorithms: Sequence[str]
) -> paramiko.Transport:
    with contextlib.ExitStack() as undone:
        sock = _socket(hop, through, timeouts)
        undone.callback(sock.close)
        transport = paramiko.Transport(sock)
        undone.callback(transport.close)
        transport.banner_timeout = timeouts.banner
        transport.channel_timeout = timeouts.open_channel
        security = transport.get_security_options()
        security.key_types = [name for name in algorithms if name in security.key_types]
        transport.set_keepalive(KEEPALIVE_SECONDS)
        transport.start_client(timeout=timeouts.banner)
        hop.trust.verify(transport.get_remote_server_key())
        _log_in(transport, hop, timeouts)
        undone.pop_all()
        return transport


def _log_in(transport: paramiko.Transport, hop: Hop, timeouts: Timeouts) -> None:
    agent = SshAgent(hop.identities.agent, timeouts.agent, timeouts.sign)
    offer = Offer(hop.identities, agent)
    with contextlib.closing(agent):
        for key in offer:
            # A user who must touch a hardware key may take longer than a server.
            transport.auth_timeout = timeouts.authenticate + (timeouts.sign if isinstance(key, AgentKey) else 0.0)
            try:
                if not transport.auth_publickey(hop.user, key):
                    return
            except AgentFault:
                raise
            except paramiko.SSHException as error:
                if str(error) == "Authentication timeout.":
                    why = "its log-in hangs, or the host is very busy"
                    raise _Refused(f"no answer to a key within {transport.auth_timeout:g} s: {why}") from error
            if not transport.is_active():  # servers hang up after a few keys
                break
    raise _Refused(offer.refused(hop.user))


class _Refused(paramiko.SSHException):
    """The server accepted no key."""


def _socket(hop: Hop, through: paramiko.Transport | None, timeouts: Timeouts) -> Any:
    if through is not None:
        target = (hop.address, hop.port)
        return through.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=timeouts.connect)
    try:
        sock = socket.create_connection((hop.address, hop.port), timeouts.connect)
    except UnicodeError as error:  # from the IDNA codec
        raise _unreachable(hop, f"no host can have that name: {error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_MILLISECONDS)
    return sock


def _reason(error: Exception, timeouts: Timeouts) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeouts.connect:g} s"
    if isinstance(error, OSError | EOFError):
        return str(getattr(error, "strerror", None) or error) or "connection closed"
    if str(error) == "No existing session":  # paramiko's text when a key exchange timed out
        return f"no SSH session within {timeouts.banner:g} s"
    return str(error)


def _unreachable(hop: Hop, reason: str) -> HostUnreachable:
    return HostUnreachable(hop.label, f"{hop.address}:{hop.port}", reason)
