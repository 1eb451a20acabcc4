"""`status.json`: what the process that runs a campaign last said of itself, so that others can tell whether it lives.

It is about a process, not about the campaign: the record does not need it, and nothing is lost with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from collie.campaign.progress import CampaignProgress
from collie.errors import StoreError
from collie.plain import typed
from collie.store.directory import read_some, write_whole
from collie.untrusted import read_json

PERIOD_SECONDS = 3.0
SCHEMA_VERSION = 1


class ProcessState(StrEnum):
    """What a process says of its campaign."""

    RUNNING = "running"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    """By the user; it can be resumed."""
    FAILED = "failed"
    """An error ended it; it can be resumed."""


@dataclass(frozen=True)
class Heartbeat:
    """The last words of a process.

    Attributes:
        state: what it was doing.
        machine, pid: where it runs.
        began, updated: RFC 3339, UTC: when the process began with the campaign, and when it said this.
        standing: how the campaign stood.
        ended_by: what ended it, `budget` or another; None while it runs or if nothing did.
        error: what went wrong, if it failed.
    """

    state: ProcessState
    machine: str
    pid: int
    began: str
    updated: str
    standing: CampaignProgress = field(default_factory=CampaignProgress)
    ended_by: str | None = None
    error: str | None = None

    @property
    def updated_at(self) -> datetime:
        """When the process said this.

        Raises:
            ValueError: `updated` is no time of day with its offset from UTC.
        """
        moment = datetime.fromisoformat(self.updated)
        if moment.tzinfo is None:
            raise ValueError(f"{self.updated!s:.40} says nothing of its time zone")
        return moment


def write_heartbeat(path: Path, heartbeat: Heartbeat) -> None:
    """Replace what was said before.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(path, [json.dumps({"schema_version": SCHEMA_VERSION, **asdict(heartbeat)}, allow_nan=False), "\n"])


def read_heartbeat(path: Path) -> Heartbeat | None:
    """Return what was said last; None when nobody said anything, as before a Collie that does.

    Raises:
        StoreError: it is no status of this Collie.
    """
    try:
        return _heartbeat(read_json(read_some(path)))
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = error.strerror
    except ValueError as error:
        problem = str(error)
    raise StoreError(f"{path} cannot be read: {problem}; it is written again when the campaign goes on")


def _heartbeat(raw: Any) -> Heartbeat:
    raw = typed(Mapping[str, Any], raw)
    if raw.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"schema {raw.get('schema_version')!s:.40}, where this Collie knows {SCHEMA_VERSION}")
    said = {key: value for key, value in raw.items() if key != "schema_version"}
    heartbeat = cast("Heartbeat", typed(Heartbeat, said))
    _ = heartbeat.updated_at
    return heartbeat
