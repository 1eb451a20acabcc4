"""Bounded reading of rows from an untrusted record."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any


def bytes_of(row: Sequence[Any]) -> int:
    """Return an upper bound of the bytes that a row's texts and blobs take in its file."""
    return sum(len(value) for value in row if isinstance(value, str | bytes))


@dataclass(frozen=True, slots=True)
class Page:
    """Limits of one read.

    Attributes:
        rows, bytes: reading stops when either is reached.
    """

    rows: int
    bytes: int

    def of(self, found: sqlite3.Cursor) -> list[Any]:
        """Return the first rows of a result."""
        rows: list[Any] = []
        size = 0
        with closing(found):
            for row in found:
                rows.append(row)
                size += bytes_of(row)
                if len(rows) >= self.rows or size >= self.bytes:
                    break
        return rows


class RowSequence:
    """Successive rows of a table whose first column is their number.

    The pages of a hostile file can form a cycle or share the content of rows, and yield endless rows or gigabytes.
    Reading stops at a row that does not follow the last one, and after more bytes than the file, which can grow, has.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._known = self._bytes = 0
        self._last: int | None = None

    def take(self, row: Sequence[Any]) -> None:
        """Check the next row.

        Raises:
            ValueError: no campaign can contain it.
        """
        if self._last is not None and row[0] <= self._last:
            raise ValueError("its rows are in no order")
        self._last = row[0]
        self._bytes += bytes_of(row)
        if self._bytes > self._known:
            self._known = self._size()
        if self._bytes > self._known:
            raise ValueError("its rows hold more than the file")
