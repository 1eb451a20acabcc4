"""Lines of a command's output."""

from __future__ import annotations

from collections import deque

from collie.untrusted import sanitized

KEPT_STDERR_LINES = 50
MAX_OUTPUT_BYTES = 16 << 20
"""Limit of the output of a command that runs to its end."""
LONGEST_LINE_BYTES = 16 << 20
"""An endpoint of 20,000 queue pairs has less than 1 MB."""


class LineBuffer:
    """Splits received bytes into whole lines."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._lines: deque[str] = deque()

    def feed(self, data: bytes) -> None:
        """Add received data. Raises `ValueError` when a line grows too long."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._lines.append((self._partial + piece).decode("utf-8", errors="replace"))
            self._partial.clear()
        self._partial += rest
        if len(self._partial) > LONGEST_LINE_BYTES:
            raise ValueError(f"a line of more than {LONGEST_LINE_BYTES >> 20} MiB")

    def pop(self) -> str | None:
        """Return the next whole line, if any."""
        return self._lines.popleft() if self._lines else None

    def rest(self) -> str | None:
        """Return the text after the last line break, once."""
        text = self._partial.decode("utf-8", errors="replace")
        self._partial.clear()
        return text or None


class Tail:
    """The last lines of a stream."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_STDERR_LINES)
        self._partial = b""

    def feed(self, data: bytes) -> None:
        """Add received data."""
        *whole, rest = (self._partial + data).split(b"\n")
        self._lines.extend(line.decode("utf-8", errors="replace") for line in whole)
        self._partial = rest[-4096:]

    def text(self) -> str:
        """Return the last lines, with the unfinished one."""
        partial = self._partial.decode("utf-8", errors="replace")
        lines = [*self._lines, partial] if partial else self._lines
        return sanitized("\n".join(line.removesuffix("\r") for line in lines))  # ssh ends lines as a terminal does
