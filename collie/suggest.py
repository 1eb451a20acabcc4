"""The name that a mistyped one was probably meant to be. Standard library only: bundles carry this module."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs only in upper and lower case, else the closest one, else None."""
    names = {other.casefold(): other for other in known}
    close = difflib.get_close_matches(name.casefold(), names, n=1)
    return names.get(name.casefold()) or (names[close[0]] if close else None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'qps'?`, or an empty text if no name is close."""
    meant = nearest(name, known)
    return f"; did you mean {meant!r}?" if meant is not None else ""
