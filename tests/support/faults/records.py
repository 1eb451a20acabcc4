"""What campaigns leave on disk, read behind Collie's back, and in what two of them differ.

Two records of one seed on the simulator are equal, but for the fields that say when: `UNLIKE` and nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

UNLIKE: Mapping[str, tuple[str, ...]] = {
    "header": ("started",),
    "fingerprint/*.json": ("taken",),
    "standard output": ("wall_seconds",),
}
"""Fields that differ between two runs of one campaign: the time of day, and how long a process took."""

ABOUT_PROCESSES = ("campaign.lock", "status.json", "report.html", "log")
"""Files that tell of the process that wrote them, or are written again from the record: not compared."""

_TABLES = {
    "runs": "SELECT run, * FROM runs ORDER BY run",
    "anomalies": "SELECT position, * FROM anomalies ORDER BY position",
    "calibration": "SELECT 1, calibration FROM campaign",
}


@dataclass(frozen=True)
class Snapshot:
    """Everything in a campaign's folder that an uninterrupted one would have, too; campaigns within it likewise.

    Attributes:
        parts: what there is, by name: tables and their rows by number, files and their bytes.
    """

    parts: Mapping[str, Any]


def snapshot(campaign: Path, printed: str) -> Snapshot:
    """Read a campaign that has ended.

    Args:
        campaign: its folder.
        printed: its result, as `--format json` printed it.
    """
    parts: dict[str, Any] = {"standard output": _without("standard output", json.loads(printed))}
    for database in sorted(campaign.rglob("campaign.sqlite")):
        folder = database.parent
        prefix = f"{folder.relative_to(campaign)}/" if folder != campaign else ""
        parts |= {prefix + name: value for name, value in {**_tables(folder), **dict(_files(folder))}.items()}
    return Snapshot(parts)


def differences(whole: Snapshot, other: Snapshot) -> list[str]:
    """Name the parts in which two snapshots differ; of a table, the first row."""
    found = []
    for name in sorted({*whole.parts, *other.parts}):
        a, b = whole.parts.get(name), other.parts.get(name)
        if a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            where = next(key for key in (*a, *b) if a.get(key) != b.get(key))
            found.append(f"{name} {where}: {a.get(where)!s:.200} and {b.get(where)!s:.200}")
        else:
            found.append(f"{name}: {a!s:.200} and {b!s:.200}")
    return found


def rows(campaign: Path, table: str = "runs") -> dict[int, tuple[Any, ...]]:
    """Return what a table holds, by number, also while somebody writes; nothing where there is no campaign.

    Raises:
        sqlite3.DatabaseError: it cannot be read.
    """
    if not (campaign / "campaign.sqlite").exists():
        return {}
    if os.access(campaign, os.W_OK):
        return _rows(campaign, table)
    with TemporaryDirectory() as place:  # SQLite wants to write beside what it reads
        copy = Path(place)
        for path in campaign.glob("campaign.sqlite*"):
            shutil.copyfile(path, copy / path.name)
        return _rows(copy, table)


def _rows(folder: Path, table: str) -> dict[int, tuple[Any, ...]]:
    uri = f"{(folder / 'campaign.sqlite').absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
        return {row[0]: row[1:] for row in connection.execute(_TABLES[table])}


def _tables(folder: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(folder / "campaign.sqlite")) as connection:
        header = json.loads(connection.execute("SELECT header FROM campaign").fetchone()[0])
        tables = {name: {row[0]: row[1:] for row in connection.execute(query)} for name, query in _TABLES.items()}
    return {"header": _without("header", header), **tables}


def _files(folder: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        nested = any((parent / "campaign.sqlite").exists() for parent in path.parents if folder in parent.parents)
        database = name.startswith("campaign.sqlite")
        if path.is_dir() or nested or database or name.split("/")[0] in ABOUT_PROCESSES:
            continue
        if name.startswith("fingerprint/"):
            yield name, _without("fingerprint/*.json", json.loads(path.read_text()))
        else:
            yield name, path.read_bytes()


def _without(part: str, value: Mapping[str, Any]) -> dict[str, Any]:
    assert all(name in value for name in UNLIKE[part]), f"{part} has no {UNLIKE[part]}"
    return {name: item for name, item in value.items() if name not in UNLIKE[part]}
