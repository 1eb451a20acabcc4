"""`status.json`: the last status of the process that runs a campaign. The campaign's record does not need it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from collie.campaign.progress import Heartbeat
from collie.errors import StoreError
from collie.files import read_bytes, write_whole
from collie.plain import typed
from collie.store.directory import MAX_BYTES
from collie.untrusted import read_json

SCHEMA_VERSION = 1


def write_heartbeat(path: Path, heartbeat: Heartbeat) -> None:
    """Write the status, in place of the last one. Raises `OSError`."""
    write_whole(path, [json.dumps({"schema_version": SCHEMA_VERSION, **asdict(heartbeat)}, allow_nan=False), "\n"])


def read_heartbeat(path: Path) -> Heartbeat | None:
    """Return the last status. None if there is no file. Raises `StoreError` for a file that this Collie cannot read."""
    try:
        return _heartbeat(read_json(read_bytes(path, MAX_BYTES, follow=False).decode()))
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = error.strerror
    except ValueError as error:
        problem = str(error)
    raise StoreError(f"{path} cannot be read: {problem}; a resumed campaign writes it again")


def _heartbeat(raw: Any) -> Heartbeat:
    raw = typed(Mapping[str, Any], raw)
    if raw.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"it has schema {raw.get('schema_version')!s:.40}, and this Collie reads {SCHEMA_VERSION}")
    fields = {key: value for key, value in raw.items() if key != "schema_version"}
    heartbeat = cast("Heartbeat", typed(Heartbeat, fields))
    _ = heartbeat.updated_at  # raises ValueError if the text is no time
    return heartbeat
