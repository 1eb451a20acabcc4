"""A table whose last column is text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

NARROWEST = 24
"""Columns below which text is not wrapped."""
_INDENT = "    "


def table_with_text(rows: Sequence[Sequence[str]], width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table. The first row has the heads, and each row has its text last.

    With the `width` of a terminal, the text is wrapped between words: beside the figures, or below them where the
    figures leave too little room.
    """
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    left = sum(widths) + 2 * len(widths)
    beside = width is None or width - left >= NARROWEST
    for *cells, text in rows:
        gap = "  " if beside else " "
        figures = gap.join(cell.ljust(size) for cell, size in zip(cells, widths, strict=True))
        indent = " " * left if beside else _INDENT
        parts = [text] if width is None else wrap(text, max(NARROWEST, width - len(indent)))
        if beside:
            yield f"{figures}{gap}{parts.pop(0) if parts else ''}".rstrip()
        else:
            yield figures.rstrip()
        yield from (f"{indent}{part}" for part in parts)
