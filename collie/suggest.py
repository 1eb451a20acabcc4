"""The name that a mistyped one was probably meant to be. Standard library only: bundles carry this module."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs only in case or in leading zeros, else the closest one, else None.

    A typing error rarely hits the first letter, so a name with another first letter must be closer, or have the typed
    one as a word.
    """
    names = {_bare(other): other for other in known}
    typed = _bare(name)
    close = difflib.get_close_matches(typed, names, n=1, cutoff=0.75)
    alike = close or difflib.get_close_matches(typed, [each for each in names if each[:1] == typed[:1]], n=1)
    alike = alike or [each for each in names if typed in re.split("[-_]", each)]
    return names[alike[0]] if alike else None


def _bare(name: str) -> str:
    return re.sub(r"(?<![0-9])0+(?=[0-9])", "", name.casefold())


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'qps'?`, or an empty text if no name is close."""
    meant = nearest(name, known)
    return f"; did you mean {meant!r}?" if meant is not None else ""
