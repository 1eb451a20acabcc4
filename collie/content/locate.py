"""Finds content files: first in the overlay named by `COLLIE_CONTENT`, then in the wheel, then in the checkout."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from collie.errors import ContentError, Problem
from collie.suggest import nearest

OVERLAY_VARIABLE = "COLLIE_CONTENT"

_PACKAGE = Path(__file__).resolve().parent.parent


class ContentKind(StrEnum):
    """Kinds of content. The value is the word for such a file in messages."""

    SPACE = "space"
    ANOMALY = "anomaly"
    APPLICATION = "application"
    RECIPE = "recipe"
    CATALOG = "catalog"
    SUBSYSTEM = "subsystem"


_FOLDERS = {
    ContentKind.SPACE: "workloads/spaces",
    ContentKind.ANOMALY: "workloads/anomalies",
    ContentKind.APPLICATION: "workloads/applications",
    ContentKind.RECIPE: "search/recipes",
    ContentKind.CATALOG: "counters",
    ContentKind.SUBSYSTEM: "subsystems",
}


def content_roots() -> tuple[Path, ...]:
    """Return the directories that hold `workloads`, `search` and `counters`, in search order."""
    own = (_PACKAGE / "_content", _PACKAGE.parent, _PACKAGE / "simulator")
    named = os.environ.get(OVERLAY_VARIABLE)
    if not named:
        return own
    overlay = Path(named)
    if not os.path.isdir(overlay):
        raise ContentError([Problem(str(overlay), 0, f"no such directory; {OVERLAY_VARIABLE} names one with content")])
    return (overlay, *own)


def available(kind: ContentKind) -> dict[str, Path]:
    """Return the files of one kind by sorted name. Earlier roots hide names of later ones."""
    files: dict[str, Path] = {}
    for root in content_roots():
        for name, path in _files(kind, root / _FOLDERS[kind]):
            files.setdefault(name, path)
    return dict(sorted(files.items()))


def _files(kind: ContentKind, folder: Path) -> Iterator[tuple[str, Path]]:
    if kind is ContentKind.CATALOG:
        catalogs = (driver / "catalog.yaml" for driver in folder.glob("*"))
        yield from ((path.parent.name, path) for path in catalogs if os.path.lexists(path))
    else:
        yield from ((path.stem, path) for path in folder.glob("*.yaml"))


def find(kind: ContentKind, name_or_path: str) -> Path:
    """Find a file by its name or its path. A path has a slash or the suffix .yaml or .yml."""
    if os.sep in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(os.path.expanduser(name_or_path))
        if os.path.lexists(path):  # its reader reports that it is no regular file
            return path
        article = "an" if kind[0] in "aeiou" else "a"
        message = f"no such file; give the path of a file with {article} {kind}, or the name of one"
        raise ContentError([Problem(name_or_path, 0, message)])
    files = available(kind)
    if name_or_path in files:
        return files[name_or_path]
    meant = nearest(name_or_path, files)
    if meant is not None and meant.casefold() == name_or_path.casefold():
        return files[meant]
    hint = f"did you mean {meant!r}? " if meant is not None else ""
    known = ", ".join(files) or "none"
    raise ContentError([Problem(name_or_path, 0, f"no {kind} has this name; {hint}known: {known}")])


def display_path(path: Path) -> str:
    """Return a path for messages, relative to the working directory if possible."""
    try:
        return str(Path(os.path.abspath(path)).relative_to(Path.cwd()))  # keeps a link's name instead of its target's
    except ValueError:
        return str(path)
