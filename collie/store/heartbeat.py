"""`status.json`: the last status of the process that runs a campaign. The campaign's record does not need it."""

from __future__ import annotations

import json
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path

from collie.campaign.progress import Heartbeat
from collie.files import write_whole
from collie.store.objects import read_object

SCHEMA_VERSION = 1


def write_heartbeat(path: Path, heartbeat: Heartbeat) -> None:
    """Write the status, in place of the last one. Raises `OSError`."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(heartbeat)}, allow_nan=False)
    write_whole(path, [text, "\n"], survives=False)


def read_heartbeat(path: Path) -> Heartbeat | None:
    """Return the last status. None if there is no file. Raises `StoreError` for a file that this Collie cannot read."""
    sound_time = attrgetter("updated_at")  # raises ValueError if the text is no time
    return read_object(path, Heartbeat, SCHEMA_VERSION, "a resumed campaign writes it again", sound_time)
