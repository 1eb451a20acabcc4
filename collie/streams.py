"""Standard output and standard error, whose readers may leave before a command is done: `| head`, a closed pager.

Who does not read the answer has not changed it: the command goes on in silence, writes its files, and ends with the
exit code that it would have had.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Descriptor(io.FileIO):
    """A descriptor of this process.

    Attributes:
        unread: its reader has left, or its disk is full; what is written goes nowhere.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self.unread = False

    def write(self, data: ReadableBuffer, /) -> int:
        if not self.unread:
            try:
                return super().write(data)
            except OSError as error:
                self.unread = True  # an error is told once, and not again when Python flushes at its end
                if not isinstance(error, BrokenPipeError):
                    raise
        return memoryview(data).nbytes


def outlive_readers() -> None:
    """Replace both streams by ones that their readers may leave."""
    sys.stdout, sys.stderr = (_outliving(stream) for stream in (sys.stdout, sys.stderr))


def _outliving(stream: TextIO) -> TextIO:
    if stream is None or stream.isatty():  # closed from the beginning; a terminal that goes ends its processes
        return stream
    try:
        number = stream.fileno()
    except OSError:  # in memory, where somebody calls `main` from Python
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(number)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=bool(stream.line_buffering),
    )


def is_unread(stream: TextIO) -> bool:
    """Whether the reader of a stream has left, as far as writing to it has told."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return isinstance(raw, _Descriptor) and raw.unread
