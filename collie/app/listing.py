"""The campaigns below a folder, and the last one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from collie.app.adapters import Adapters
from collie.app.status import BASELINE_FOLDER, CampaignStatus, status
from collie.errors import CollieError
from collie.ports import CAMPAIGN_FILE

_DEEPEST = 4
"""Levels of folders below the first one. Campaigns lie in `campaigns/`, or in a folder for a project."""


@dataclass(frozen=True)
class Listed:
    """A campaign with its status, or with the `error` that its record gives."""

    directory: Path
    status: CampaignStatus | None
    error: str = ""


def campaigns_below(folder: Path) -> Iterator[Path]:
    """Yield the directories of campaigns, in the order of their names. Hidden folders are left out."""
    for place, folders, files in os.walk(folder):
        here = Path(place)
        if CAMPAIGN_FILE in files:
            yield here
        deep = len(here.relative_to(folder).parts) >= _DEEPEST
        folders[:] = (
            [] if CAMPAIGN_FILE in files or deep else sorted(each for each in folders if not each.startswith("."))
        )


def list_campaigns(adapters: Adapters, folder: Path) -> list[Listed]:
    """Return the campaigns below a folder, the one that began first first, and those that cannot be read last."""
    listed = [_listed(adapters, directory) for directory in campaigns_below(folder)]
    return sorted(listed, key=lambda each: (each.status is None, each.status.header.started if each.status else ""))


def last_campaign(folder: Path) -> Path | None:
    """Return the search below a folder that recorded a run last, or None if there is none. A gate is no search."""
    searches = (each for each in campaigns_below(folder) if not (each / BASELINE_FOLDER).is_dir())
    return max(searches, key=_recorded_at, default=None)


def _listed(adapters: Adapters, directory: Path) -> Listed:
    try:
        return Listed(directory, status(adapters, directory))
    except CollieError as error:
        return Listed(directory, None, str(error))


def _recorded_at(directory: Path) -> float:
    # SQLite writes a run to the log beside the record first.
    times = [0.0]
    for name in (CAMPAIGN_FILE, f"{CAMPAIGN_FILE}-wal"):
        with suppress(OSError):  # no such file, or no permission
            times.append((directory / name).stat().st_mtime)
    return max(times)
