"""Search for content files: a user's overlay, then the copy in the wheel, then the checkout."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from collie.errors import ContentError, Problem

OVERLAY_VARIABLE = "COLLIE_CONTENT"
"""Environment variable with the default overlay."""

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


def content_roots(overlay: Path | None = None) -> tuple[Path, ...]:
    """Return the directories that hold `workloads`, `search` and `counters`, in search order.

    Args:
        overlay: a user's directory of the same layout, by default from `COLLIE_CONTENT`.

    Raises:
        ContentError: the directory does not exist.
    """
    named = overlay or (Path(os.environ[OVERLAY_VARIABLE]) if os.environ.get(OVERLAY_VARIABLE) else None)
    if named is not None and not os.path.isdir(named):
        raise ContentError([Problem(str(named), 0, f"no such directory; {OVERLAY_VARIABLE} names one with content")])
    own = (_PACKAGE / "_content", _PACKAGE.parent, _PACKAGE / "simulator")
    return (named, *own) if named else own


def available(kind: ContentKind, overlay: Path | None = None) -> dict[str, Path]:
    """Return the files of one kind by sorted name. Earlier roots hide names of later ones."""
    files: dict[str, Path] = {}
    for root in content_roots(overlay):
        for name, path in _files(kind, root / _FOLDERS[kind]):
            files.setdefault(name, path)
    return dict(sorted(files.items()))


def _files(kind: ContentKind, folder: Path) -> Iterator[tuple[str, Path]]:
    if kind is ContentKind.CATALOG:
        catalogs = (driver / "catalog.yaml" for driver in folder.glob("*"))
        yield from ((path.parent.name, path) for path in catalogs if os.path.lexists(path))
    else:
        yield from ((path.stem, path) for path in folder.glob("*.yaml"))


def find(kind: ContentKind, name_or_path: str, overlay: Path | None = None) -> Path:
    """Find one content file.

    Args:
        kind: of the file.
        name_or_path: a name such as `nsdi22`, or a path: with a slash or the suffix .yaml or .yml.
        overlay: as `content_roots`.

    Raises:
        ContentError: it does not exist. The message lists the names.
    """
    if os.sep in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(os.path.expanduser(name_or_path))
        if os.path.lexists(path):  # its reader reports that it is no regular file
            return path
        raise ContentError(
            [
                Problem(
                    name_or_path,
                    0,
                    f"no such file; give the path of a file with {_article(kind)} {kind}, or the name of one",
                )
            ]
        )
    files = available(kind, overlay)
    if name_or_path in files:
        return files[name_or_path]
    close = difflib.get_close_matches(name_or_path, files, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    known = ", ".join(files) or "none"
    raise ContentError([Problem(name_or_path, 0, f"no {kind} has this name; {hint}known: {known}")])


def _article(kind: ContentKind) -> str:
    return "an" if kind[0] in "aeiou" else "a"


def display_path(path: Path) -> str:
    """Return a path for messages, relative to the working directory if that is shorter."""
    try:
        return str(Path(os.path.abspath(path)).relative_to(Path.cwd()))  # keeps a link's name instead of its target's
    except ValueError:
        return str(path)
