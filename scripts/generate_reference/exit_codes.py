"""Exit codes, and the situations that end a command, from the exceptions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from collie import errors
from collie.cli.main import EXIT_CODES


def exit_code_blocks() -> Iterator[str]:
    """Yield the page, block by block."""
    yield "The same for every command."
    flat = re.sub(r"\n {5,}(?=\S)", " ", EXIT_CODES)
    rows = re.findall(r"^ +(\d+) +(.*)$", flat, re.MULTILINE)
    yield "\n".join(["| code | meaning |", "|---|---|", *(f"| {code} | {meaning} |" for code, meaning in rows)])
    yield "## Situations that end a command"
    yield "Each is one message on standard error that says what is wrong, where, and what to do."
    shared = (kind for kind in _descendants(errors.CollieError) if kind.__module__ == errors.__name__)
    kinds = sorted(shared, key=lambda kind: (kind.exit_code, kind.__name__))
    rows = [(kind.__name__, str(kind.exit_code), _first_line(kind)) for kind in kinds]
    yield "\n".join(
        ["| situation | code | meaning |", "|---|---|---|", *(f"| `{n}` | {c} | {t} |" for n, c, t in rows)]
    )


def _descendants(kind: type[errors.CollieError]) -> Iterator[type[errors.CollieError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _descendants(below)


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").split("\n", 1)[0]
