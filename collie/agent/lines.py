"""JSON lines over file descriptors, without blocking."""

from __future__ import annotations

import errno
import json
import os
import select
import time
from typing import Any, List

READ_BYTES = 1 << 16
# The endpoints of 16 flows with 20,000 queue pairs each are shorter.
LONGEST_LINE_BYTES = 16 << 20


def encode(message: Any) -> bytes:
    """Return one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Lines:
    """Lines from and to descriptors, which can be the same."""

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = source, sink
        self._in = bytearray()
        self._out = bytearray()
        self.closed = False
        os.set_blocking(source, False)
        os.set_blocking(sink, False)

    @property
    def backlog(self) -> int:
        """Bytes not yet written."""
        return len(self._out)

    def receive(self) -> List[bytes]:
        """Return the complete lines. Set ``closed`` at the end of the input."""
        while True:
            try:
                data = os.read(self.source, READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.closed = True
                break
            self._in += data
            if len(self._in) > LONGEST_LINE_BYTES and self._in.find(b"\n", -len(data)) < 0:
                self._in.clear()
                self.closed = True
                break
            if len(data) < READ_BYTES:
                break
        if b"\n" not in self._in:
            return []
        *lines, rest = bytes(self._in).split(b"\n")
        self._in = bytearray(rest)
        return [line for line in lines if line.strip()]

    def send(self, message: Any) -> None:
        """Queue one line, then flush."""
        self._out += encode(message)
        self.flush()

    def flush(self) -> None:
        """Write as much as possible. Set ``closed`` if the reader is gone."""
        while self._out:
            try:
                written = os.write(self.sink, self._out)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.EIO, errno.EBADF):
                    raise
                self.closed = True
                self._out.clear()
                return
            del self._out[:written]

    def finish(self, seconds: float) -> None:
        """Write the rest, for at most ``seconds``."""
        ends_at = time.monotonic() + seconds
        poller = select.poll()
        poller.register(self.sink, select.POLLOUT)
        while self._out and time.monotonic() < ends_at:
            poller.poll(max(0.0, ends_at - time.monotonic()) * 1000)
            self.flush()
