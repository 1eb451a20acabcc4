"""Where content files are: a user's overlay first, then the copy in the wheel, then the checkout."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from collie.errors import ContentError, Problem

OVERLAY_VARIABLE = "COLLIE_CONTENT"
"""Environment variable that names the overlay when no argument does."""

_PACKAGE = Path(__file__).resolve().parent.parent


class ContentKind(StrEnum):
    """Kinds of content; the value is what messages call one such file."""

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
    """Return the directories that hold `workloads`, `search` and `counters`, first come first served.

    Args:
        overlay: a user's directory of the same layout; else the one that `COLLIE_CONTENT` names, if any.

    Raises:
        ContentError: there is no such directory.
    """
    named = overlay or (Path(os.environ[OVERLAY_VARIABLE]) if os.environ.get(OVERLAY_VARIABLE) else None)
    if named is not None and not os.path.isdir(named):
        raise ContentError([Problem(str(named), 0, f"no such directory; {OVERLAY_VARIABLE} names one with content")])
    own = (_PACKAGE / "_content", _PACKAGE.parent, _PACKAGE / "simulator")
    return (named, *own) if named else own


def available(kind: ContentKind, overlay: Path | None = None) -> dict[str, Path]:
    """Return the files of one kind by name, in order of name; an earlier root hides the same name in a later one."""
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
        kind: what it should be.
        name_or_path: a bare name such as `nsdi22`, or a path: anything with a slash or that ends in .yaml or .yml.
        overlay: as `content_roots`.

    Raises:
        ContentError: no such name or file; says what there is.
    """
    if os.sep in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(os.path.expanduser(name_or_path))
        if os.path.lexists(path):  # its reader says what is wrong with what is no file
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
    """Return a path as messages name it: relative to the working directory where that is shorter."""
    try:
        return str(Path(os.path.abspath(path)).relative_to(Path.cwd()))  # a link by its own name, not by its target's
    except ValueError:
        return str(path)
