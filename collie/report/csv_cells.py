"""Cells of CSV files."""

from __future__ import annotations

from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which a formula begins (OWASP, CSV injection)."""


def csv_cell(value: Any) -> Any:
    """Return a value as a cell: lists with spaces between their items, and text that a spreadsheet does not run."""
    match value:
        case bool():
            return str(value).lower()
        case list() | tuple():
            return " ".join(map(str, value))
        case str() if value.startswith(_FORMULA):
            return f"'{value}"
    return value
