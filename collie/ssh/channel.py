"""A command that runs on a host over SSH."""

from __future__ import annotations

import contextlib
import threading
import time

import paramiko

from collie.errors import CommandTimeout, HostUnreachable
from collie.inventory.hosts import Host
from collie.ssh.lines import MAX_OUTPUT_BYTES, LineBuffer, Tail

CHUNK_BYTES = 65536
SEND_TIMEOUT_SECONDS = 10.0
CLOSE_SECONDS = 2.0
SLICE_SECONDS = 0.2

# Paramiko's errors when a connection ends during use. Reading raises them too, as it widens the SSH window.
CONNECTION_ERRORS = (OSError, EOFError, paramiko.SSHException)


class _Wait:
    """A deadline in `seconds`, after which `late` is raised."""

    def __init__(self, seconds: float, late: CommandTimeout) -> None:
        self._deadline = time.monotonic() + seconds
        self._late = late
        self._tries = 0

    def go_on(self) -> None:
        """Raise when time is up. The first call never does, so data that is already there can be read."""
        self._tries += 1
        if self._tries > 1 and time.monotonic() >= self._deadline:
            raise self._late


class SshChannel:
    """`Channel` over a session of paramiko. One thread may read while others send.

    A line sent to a command that has ended is dropped. Reading shows how it ended.
    """

    def __init__(self, session: paramiko.Channel, host: Host, command: str) -> None:
        self._session = session
        self._host = host
        self._command = command
        self._lines = LineBuffer()
        self._tail = Tail()
        self._sending = threading.Lock()
        # A channel has one timeout for both directions, so each waits in slices until its deadline.
        session.settimeout(SLICE_SECONDS)
        self._collector = threading.Thread(target=self._collect, name=f"stderr of {host.name}", daemon=True)
        self._collector.start()

    def send_line(self, line: str) -> None:
        """Write one line to the command's standard input."""
        data = f"{line}\n".encode()
        deadline = time.monotonic() + SEND_TIMEOUT_SECONDS
        with self._sending:
            while data:
                try:
                    sent = self._session.send(data)
                    if not sent:
                        raise OSError("its input is closed")
                    data = data[sent:]
                except CONNECTION_ERRORS as error:
                    if isinstance(error, TimeoutError) and time.monotonic() < deadline:
                        continue
                    if self._ended():
                        return
                    late = isinstance(error, TimeoutError)
                    raise self._lost("it takes no more input" if late else str(error)) from error

    def read_line(self, timeout_seconds: float) -> str | None:
        """Return the next line of standard output, or None at its end."""
        what = f"a line from `{self._command}`"
        wait = _Wait(timeout_seconds, CommandTimeout(self._host.name, what, timeout_seconds))
        while (line := self._lines.pop()) is None:
            data = self._received(wait)
            if not data:
                return self._lines.rest()
            try:
                self._lines.feed(data)
            except ValueError as error:
                raise self._lost(str(error)) from error
        return line

    def read_all(self, timeout_seconds: float) -> str:
        """Return the rest of standard output.

        Raises:
            CommandTimeout: it did not end in time.
            HostUnreachable: the connection is lost.
        """
        wait = _Wait(timeout_seconds, CommandTimeout(self._host.name, f"`{self._command}`", timeout_seconds))
        parts: list[bytes] = []
        size = 0
        while data := self._received(wait):
            parts.append(data)
            size += len(data)
            if size > MAX_OUTPUT_BYTES:
                raise self._lost(f"`{self._command}` printed more than {MAX_OUTPUT_BYTES >> 20} MiB")
        return b"".join(parts).decode(errors="replace")

    def _received(self, wait: _Wait) -> bytes:
        while True:
            wait.go_on()
            try:
                data = self._session.recv(CHUNK_BYTES)
            except TimeoutError:
                continue
            except CONNECTION_ERRORS as error:
                raise self._lost(str(error)) from error
            if not data and not self._ended():
                raise self._lost()
            return data

    def status(self, timeout_seconds: float) -> int:
        """Return the exit status.

        Raises:
            CommandTimeout: the command did not end in time.
            HostUnreachable: the connection is lost.
        """
        if not self._session.status_event.wait(timeout_seconds):
            raise CommandTimeout(self._host.name, f"`{self._command}`", timeout_seconds)
        if not self._ended():
            raise self._lost()
        return self._session.recv_exit_status()

    def stderr_tail(self) -> str:
        """Return the last lines of standard error."""
        if self._ended():
            self._collector.join(CLOSE_SECONDS)
        return self._tail.text()

    def close_stdin(self) -> None:
        """End the command's standard input."""
        with contextlib.suppress(*CONNECTION_ERRORS):
            self._session.shutdown_write()

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """Close standard input and wait briefly for the command to end."""
        self.close_stdin()
        self._session.status_event.wait(wait_seconds)
        with contextlib.suppress(*CONNECTION_ERRORS):
            self._session.close()

    def _collect(self) -> None:
        while True:
            try:
                data = self._session.recv_stderr(CHUNK_BYTES)
            except TimeoutError:
                continue
            except CONNECTION_ERRORS:
                return
            if not data:
                return
            self._tail.feed(data)

    def _ended(self) -> bool:
        """Whether the command ended, rather than the connection."""
        return bool(self._session.eof_received) or self._session.exit_status >= 0

    def _lost(self, reason: str = "") -> HostUnreachable:
        return HostUnreachable(self._host.name, self._host.address, reason or "connection lost")
