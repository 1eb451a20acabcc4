"""Programs of this machine."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import subprocess
import threading
import time
from typing import IO, cast

from collie.errors import CommandTimeout, HostUnreachable
from collie.ssh.lines import LineBuffer, Tail
from collie.ssh.timeouts import CLOSE_SECONDS, SEND_TIMEOUT_SECONDS, SLICE_SECONDS

MAX_WAITING_LINES = 16
"""With more waiting lines the command waits for a reader."""


class LocalChannel:
    """`Channel` over the pipes of a subprocess. Lines to a command that has ended are dropped."""

    def __init__(self, process: subprocess.Popen[bytes], host: str, command: str) -> None:
        self.process = process
        self._host = host
        self._command = command
        self._tail = Tail()
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_WAITING_LINES)
        self._damage = ""
        self._closed = False
        self._sending = threading.Lock()
        assert None not in (process.stdin, process.stdout, process.stderr), "all three are pipes"
        self._stdin = cast("IO[bytes]", process.stdin)
        os.set_blocking(self._stdin.fileno(), False)  # a write takes only what the pipe has room for
        self._room = select.poll()
        self._room.register(self._stdin.fileno(), select.POLLOUT)
        self._readers = [
            threading.Thread(target=self._read_lines, args=(cast("IO[bytes]", process.stdout),), daemon=True),
            threading.Thread(target=self._read_tail, args=(cast("IO[bytes]", process.stderr),), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def send_line(self, line: str) -> None:
        """Write a line to standard input."""
        data = memoryview(f"{line}\n".encode())
        deadline = time.monotonic() + SEND_TIMEOUT_SECONDS
        with self._sending, contextlib.suppress(BrokenPipeError):
            while data:
                if self._closed:
                    raise HostUnreachable(self._host, "local", "the channel is closed")
                if time.monotonic() >= deadline:
                    raise HostUnreachable(self._host, "local", "it takes no more input")
                if self._room.poll(SLICE_SECONDS * 1000):
                    data = data[os.write(self._stdin.fileno(), data) :]

    def read_line(self, timeout_seconds: float) -> str | None:
        """Return the next line of output, or None at its end."""
        try:
            line = self._lines.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            raise CommandTimeout(self._host, f"a line from `{self._command}`", timeout_seconds) from None
        if line is None:
            self._put(None)  # keeps the end of the output for the next call
            if self._damage:
                raise HostUnreachable(self._host, "local", self._damage)
        return line

    def stderr_tail(self) -> str:
        """Return the last lines of standard error."""
        if not self._readers[0].is_alive():  # its output has ended, so the rest of its errors arrives soon
            self._readers[1].join(CLOSE_SECONDS)
        return self._tail.text()

    def close(self) -> None:
        """End standard input. End the command if it goes on after a moment."""
        self._closed = True  # a blocked sender sees it and releases the lock
        with self._sending, contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(CLOSE_SECONDS)
        end(self.process)
        for reader in self._readers:
            reader.join(CLOSE_SECONDS)

    def _read_lines(self, stream: IO[bytes]) -> None:
        buffer = LineBuffer()
        with stream:
            try:
                while data := os.read(stream.fileno(), 65536):
                    buffer.feed(data)
                    while (line := buffer.pop()) is not None:
                        self._put(line)
            except ValueError as error:  # a line without an end
                self._damage = str(error)
        if rest := buffer.rest():
            self._put(rest)
        self._put(None)

    def _put(self, line: str | None) -> None:
        """Queue a line. Without a reader the command waits until the channel closes."""
        while not self._closed:
            with contextlib.suppress(queue.Full):
                self._lines.put(line, timeout=SLICE_SECONDS)
                return
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(line)

    def _read_tail(self, stream: IO[bytes]) -> None:
        with stream:
            while data := os.read(stream.fileno(), 65536):
                self._tail.feed(data)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it started."""
    for number, patience_seconds in ((signal.SIGTERM, 0.5), (signal.SIGKILL, 1.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + patience_seconds
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if process.poll() is not None:
            break
