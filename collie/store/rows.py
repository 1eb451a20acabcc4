"""Rows of a record that somebody else may have made, taken in bounded bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any


def bytes_of(row: Sequence[Any]) -> int:
    """Return at most how many bytes the texts and blobs of a row take in its file."""
    return sum(len(value) for value in row if isinstance(value, str | bytes))


@dataclass(frozen=True, slots=True)
class Page:
    """How much is read at once.

    Attributes:
        rows, bytes: no further row is read when there are that many.
    """

    rows: int
    bytes: int

    def of(self, found: sqlite3.Cursor) -> list[Any]:
        """Return the first rows of an answer."""
        rows: list[Any] = []
        size = 0
        with closing(found):
            for row in found:
                rows.append(row)
                size += bytes_of(row)
                if len(rows) >= self.rows or size >= self.bytes:
                    break
        return rows


class Sequel:
    """Rows of a table one after another, the first column their number.

    The pages of a hostile file may lead back, or share what rows hold: a file of kilobytes would have rows without end,
    or gigabytes of them. A row that is not after the last one, or more bytes than the file has, ends that.

    Args:
        size: tells the bytes of the file, which may be growing.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._known = self._bytes = 0
        self._last: int | None = None

    def take(self, row: Sequence[Any]) -> None:
        """Look at the next row.

        Raises:
            ValueError: it is none that a campaign could hold.
        """
        if self._last is not None and row[0] <= self._last:
            raise ValueError("its rows are in no order")
        self._last = row[0]
        self._bytes += bytes_of(row)
        if self._bytes > self._known:
            self._known = self._size()
        if self._bytes > self._known:
            raise ValueError("its rows hold more than the file")
