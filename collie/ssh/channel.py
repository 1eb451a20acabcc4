"""A command on a host, over SSH."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import paramiko

from collie.errors import CommandTimeout, HostUnreachable
from collie.inventory.hosts import Host
from collie.ssh.lines import MAX_OUTPUT_BYTES, LineBuffer, Tail
from collie.ssh.timeouts import CLOSE_SECONDS, SEND_TIMEOUT_SECONDS, SLICE_SECONDS

CHUNK_BYTES = 65536

# Paramiko's errors when a connection ends during use. Reading raises them, too, because it enlarges the SSH window.
CONNECTION_ERRORS = (OSError, EOFError, paramiko.SSHException)


class SshChannel:
    """`Channel` over paramiko. One thread may read while others send. Lines to a command that has ended are dropped."""

    def __init__(self, session: paramiko.Channel, host: Host, command: str) -> None:
        self._session = session
        self._host = host
        self._command = command
        self._lines = LineBuffer()
        self._tail = Tail()
        self._sending = threading.Lock()
        # A channel has one timeout for both directions, so each direction waits in slices until its own deadline.
        session.settimeout(SLICE_SECONDS)
        self._collector = threading.Thread(target=self._collect, name=f"stderr of {host.name}", daemon=True)
        self._collector.start()

    def send_line(self, line: str) -> None:
        """Write a line to standard input."""
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
        """Return the next line of output, or None at its end."""
        received = self._received(timeout_seconds, f"a line from `{self._command}`")
        while (line := self._lines.pop()) is None:
            data = next(received, b"")
            if not data:
                return self._lines.rest()
            try:
                self._lines.feed(data)
            except ValueError as error:
                raise self._lost(str(error)) from error
        return line

    def read_all(self, timeout_seconds: float) -> str:
        """Return the rest of the output."""
        output = bytearray()
        for data in self._received(timeout_seconds, f"`{self._command}`"):
            output += data
            if len(output) > MAX_OUTPUT_BYTES:
                raise self._lost(f"`{self._command}` printed more than {MAX_OUTPUT_BYTES >> 20} MiB")
        return output.decode(errors="replace")

    def _received(self, timeout_seconds: float, what: str) -> Iterator[bytes]:
        """Yield the output until its end. Data that has already arrived is read even after the deadline."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                data = self._session.recv(CHUNK_BYTES)
            except TimeoutError:
                pass
            except CONNECTION_ERRORS as error:
                raise self._lost(str(error)) from error
            else:
                if not data:
                    break
                yield data
            if time.monotonic() >= deadline:
                raise CommandTimeout(self._host.name, what, timeout_seconds)
        if not self._ended():
            raise self._lost()

    def status(self, timeout_seconds: float) -> int:
        """Return the exit status."""
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
        """End standard input."""
        with contextlib.suppress(*CONNECTION_ERRORS):
            self._session.shutdown_write()

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """End standard input. End the command if it goes on after a moment."""
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
        return bool(self._session.eof_received) or self._session.exit_status >= 0

    def _lost(self, reason: str = "") -> HostUnreachable:
        return HostUnreachable(self._host.name, self._host.address, reason or "connection lost")
