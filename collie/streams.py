"""Standard output and error streams that survive when their reader leaves early, as with `| head` or a closed pager.

A command without a reader continues silently, writes its files, and keeps its exit code.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Descriptor(io.FileIO):
    """A descriptor of this process. It drops output once its reader has left, or its disk is full."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self.unread = False

    def write(self, data: ReadableBuffer, /) -> int:
        if not self.unread:
            try:
                return super().write(data)
            except OSError as error:
                self.unread = True  # report an error once, and not again at Python's final flush
                if not isinstance(error, BrokenPipeError):
                    raise
        return memoryview(data).nbytes


def outlive_readers() -> None:
    """Replace both streams by ones that survive their readers."""
    sys.stdout, sys.stderr = (_outliving(stream) for stream in (sys.stdout, sys.stderr))


def _outliving(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed at start
        return open(os.devnull, "w", encoding="utf-8")
    if stream.isatty():  # the end of the terminal ends this process
        return stream
    try:
        number = stream.fileno()
    except OSError:  # a stream in memory, when Python code calls `main`
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(number)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=bool(stream.line_buffering),
    )


def is_unread(stream: TextIO) -> bool:
    """Whether writing to a stream has shown that its reader has left."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return isinstance(raw, _Descriptor) and raw.unread
