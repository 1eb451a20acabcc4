"""A host over SSH."""

from __future__ import annotations

import contextlib
import errno
import posixpath
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from typing import TypeVar

import paramiko

from collie.errors import CommandFailed, CommandTimeout, HostUnreachable
from collie.inventory.hosts import Host
from collie.ports import Completed
from collie.ssh.channel import CONNECTION_ERRORS, SshChannel
from collie.ssh.connection import SshConnection, Timeouts, connect
from collie.ssh.route import USER_CONFIG, route
from collie.ssh.timeouts import GRACE_SECONDS, TIMED_OUT, with_timeout

T = TypeVar("T")

FILE_TIMEOUT_SECONDS = 30.0


class SshRemote:
    """`Remote` over SSH. It connects when first used, and again when the connection is lost.

    Commands run under the host's `timeout`, in the user's home directory.
    """

    def __init__(self, host: Host, timeouts: Timeouts | None = None, config_file: str = USER_CONFIG) -> None:
        self.name = host.name
        self._host = host
        self._timeouts = timeouts or Timeouts()
        self._config_file = config_file
        self._lock = threading.Lock()
        self._connection: Future[SshConnection] | None = None

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        """Run a command to its end."""
        started = time.monotonic()
        channel = self.open(with_timeout(argv, timeout_seconds))
        try:
            channel.close_stdin()
            deadline = started + timeout_seconds + GRACE_SECONDS
            stdout = channel.read_all(deadline - time.monotonic())
            status = channel.status(max(0.0, deadline - time.monotonic()))
        except CommandTimeout:
            raise CommandTimeout(self.name, shlex.join(argv), timeout_seconds) from None
        finally:
            channel.close(wait_seconds=0.0)
        if status in TIMED_OUT and time.monotonic() - started >= timeout_seconds:
            raise CommandTimeout(self.name, shlex.join(argv), timeout_seconds)
        return Completed(status, stdout, channel.stderr_tail())

    def put(self, data: bytes, path: str) -> None:
        """Write a file atomically."""

        def write(transport: paramiko.Transport) -> None:
            channel = transport.open_session(timeout=self._timeouts.open_channel)
            channel.settimeout(FILE_TIMEOUT_SECONDS)
            with (
                contextlib.closing(self._sftp(channel)) as sftp,
                _closed_after(channel, FILE_TIMEOUT_SECONDS) as late,
            ):
                try:
                    _write(sftp, data, path)
                except CONNECTION_ERRORS as error:
                    if late.is_set() or isinstance(error, TimeoutError):
                        raise CommandTimeout(self.name, f"writing {path}", FILE_TIMEOUT_SECONDS) from error
                    if not isinstance(error, OSError) or error.errno in (errno.EPIPE, errno.ECONNRESET):
                        raise
                    raise CommandFailed(self.name, ["write", path], 1, str(error)) from error

        self._reached(write)

    def open(self, argv: Sequence[str]) -> SshChannel:
        """Start a command."""

        def start(transport: paramiko.Transport) -> SshChannel:
            session = transport.open_session(timeout=self._timeouts.open_channel)
            session.settimeout(self._timeouts.open_channel)
            with _closed_after(session, self._timeouts.open_channel):
                session.exec_command(shlex.join(argv))
            return SshChannel(session, self._host, shlex.join(argv))

        return self._reached(start)

    def close(self) -> None:
        """Close the connection. Callers stop waiting for a connection that is still being made."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None and not connection.cancel() and connection.exception() is None:
            connection.result().close()

    def _sftp(self, channel: paramiko.Channel) -> paramiko.SFTPClient:
        try:
            with _closed_after(channel, self._timeouts.open_channel):
                channel.invoke_subsystem("sftp")
            return paramiko.SFTPClient(channel)
        except paramiko.SSHException as error:
            # The server refuses SFTP, or lacks the program for it. Neither ends the connection.
            if not (str(error) == "Channel closed." or channel.eof_received) or not channel.get_transport().is_active():
                raise
            words = "its SSH server takes no files; add `Subsystem sftp internal-sftp` to its sshd_config"
            raise CommandFailed(self.name, ["sftp"], 1, words) from error

    def _reached(self, work: Callable[[paramiko.Transport], T]) -> T:
        connection = self._connect()
        try:
            return work(connection.transport)
        except CONNECTION_ERRORS as error:
            if connection.transport.is_active() and isinstance(error, TimeoutError):
                raise CommandTimeout(self.name, "opening a channel", self._timeouts.open_channel) from error
            connection.close()
            raise HostUnreachable(self.name, self._host.address, f"connection lost: {error}") from error

    def _connect(self) -> SshConnection:
        with self._lock:
            if self._connection is None or _has_ended(self._connection):
                self._connection = _in_background(
                    f"connect to {self.name}", lambda: connect(route(self._host, self._config_file), self._timeouts)
                )
            connection = self._connection
        try:
            return connection.result()
        except CancelledError:
            raise HostUnreachable(self.name, self._host.address, "closed while it was being connected to") from None


def _in_background(name: str, make: Callable[[], SshConnection]) -> Future[SshConnection]:
    """Make a connection in a thread, so that a caller can stop waiting. If cancelled, it is closed once made."""
    made: Future[SshConnection] = Future()

    def run() -> None:
        try:
            connection = make()
        except BaseException as error:
            if made.set_running_or_notify_cancel():
                made.set_exception(error)
        else:
            if made.set_running_or_notify_cancel():
                made.set_result(connection)
            else:
                connection.close()

    threading.Thread(target=run, name=name, daemon=True).start()
    return made


def _has_ended(connection: Future[SshConnection]) -> bool:
    """Whether a connection failed or is lost, and is closed now."""
    if not connection.done():
        return False
    if connection.exception() is None:
        if connection.result().transport.is_active():
            return False
        connection.result().close()
    return True


@contextlib.contextmanager
def _closed_after(channel: paramiko.Channel, seconds: float) -> Iterator[threading.Event]:
    """Close a channel after a time, because paramiko waits forever. Yield an event that is set at that time."""
    late = threading.Event()

    def close() -> None:
        late.set()
        # Closing wakes the caller, which may close the connection first.
        with contextlib.suppress(*CONNECTION_ERRORS):
            channel.close()

    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield late
    except paramiko.SSHException as error:
        if late.is_set():
            raise paramiko.SSHException(f"no answer to a request within {seconds:g} s") from error
        raise
    finally:
        timer.cancel()


def _write(sftp: paramiko.SFTPClient, data: bytes, path: str) -> None:
    _make_directories(sftp, posixpath.dirname(path))
    temporary = f"{path}.{secrets.token_hex(4)}"
    try:
        with sftp.open(temporary, "wx") as file:
            file.chmod(0o600)
            file.set_pipelined(True)
            file.write(data)
        sftp.posix_rename(temporary, path)
    except BaseException:
        with contextlib.suppress(*CONNECTION_ERRORS):
            sftp.remove(temporary)
        raise


def _make_directories(sftp: paramiko.SFTPClient, directory: str) -> None:
    if not directory or directory == "/":
        return
    try:
        sftp.stat(directory)
    except FileNotFoundError:
        _make_directories(sftp, posixpath.dirname(directory))
        with contextlib.suppress(OSError):  # another process has made it, or writing the file will fail
            sftp.mkdir(directory, 0o700)
