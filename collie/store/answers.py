"""`gate.json`: the answer of a gate. A resumed gate decides again and writes it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from collie.campaign.gate.answer import GateAnswer
from collie.errors import StoreError
from collie.files import read_bytes, write_whole
from collie.plain import CODEC, typed
from collie.store.directory import MAX_BYTES, writing
from collie.untrusted import read_json

SCHEMA_VERSION = 1


def write_answer(path: Path, answer: GateAnswer) -> None:
    """Write the answer, in place of an earlier one. Raises `StoreUnwritable`."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **CODEC.write(answer)}, ensure_ascii=False, allow_nan=False)
    with writing(path):
        write_whole(path, [text, "\n"])


def read_answer(path: Path) -> GateAnswer | None:
    """Return the answer. None if there is no file. Raises `StoreError` for a file that this Collie cannot read."""
    try:
        return _answer(read_json(read_bytes(path, MAX_BYTES, follow=False).decode()))
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = error.strerror
    except ValueError as error:
        problem = str(error)
    raise StoreError(f"{path} cannot be read: {problem}; collie gate --resume {path.parent} writes it again")


def _answer(raw: Any) -> GateAnswer:
    raw = typed(Mapping[str, Any], raw)
    if raw.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"it has schema {raw.get('schema_version')!s:.40}, and this Collie reads {SCHEMA_VERSION}")
    fields = {key: value for key, value in raw.items() if key != "schema_version"}
    return cast("GateAnswer", typed(GateAnswer, fields))
