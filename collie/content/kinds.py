"""Recognises the kind of a file by its keys, so that a file of another kind gets one line and not one for each key."""

from __future__ import annotations

from collections.abc import Mapping

from collie.content.document import Document
from collie.content.locate import ContentKind
from collie.errors import ContentError
from collie.workloads.workload import FIELD_NAMES

INVENTORY, WORKLOAD = "hosts file", "workload"

_KEYS: Mapping[str, frozenset[str]] = {
    INVENTORY: frozenset({"hosts"}),
    ContentKind.SPACE: frozenset({"dimensions"}),
    ContentKind.ANOMALY: frozenset({"trigger", "conditions"}),
    ContentKind.RECIPE: frozenset({"strategy"}),
    ContentKind.CATALOG: frozenset({"counters"}),
    ContentKind.SUBSYSTEM: frozenset({"based_on", "pcie", "wire", "witnesses"}),
    ContentKind.APPLICATION: frozenset({"traffic", "common", "keep"}),
    WORKLOAD: frozenset(FIELD_NAMES),
}
"""Keys of which each tells the kind. The order matters: `memory` and `loopback` are parts of a subsystem, too."""

_TAKEN_BY: Mapping[str, str] = {
    INVENTORY: "--hosts {}",
    ContentKind.SPACE: "--space {}",
    ContentKind.ANOMALY: "collie reproduce {}",
    ContentKind.RECIPE: "--recipe {}",
    ContentKind.CATALOG: "collie counters list",
    ContentKind.SUBSYSTEM: "--subsystem {}",
    ContentKind.APPLICATION: "collie check {}",
    WORKLOAD: "collie measure {}",
}


def kind_of(document: Document) -> str | None:
    """Return the kind that a file's keys tell, or None."""
    return next((kind for kind, keys in _KEYS.items() if keys & document.data.keys()), None)


def require_kind(document: Document, kind: str) -> None:
    """Refuse a file of another kind. A file whose keys tell nothing passes, as its reader names what is missing."""
    found = kind_of(document)
    # The fields of a workload are too many, and too common as words, to tell one from a subsystem.
    is_it = kind != WORKLOAD and _KEYS[kind] & document.data.keys()
    if found in {None, kind} or is_it:
        return
    taken_by = _TAKEN_BY[found].format(document.path)
    raise ContentError([document.problem(f"this is {_one(found)}, not {_one(kind)}; `{taken_by}` takes it")])


def _one(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
