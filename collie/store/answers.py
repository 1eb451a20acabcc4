"""`gate.json`: the answer of a gate. A resumed gate decides again and writes it again."""

from __future__ import annotations

import json
from pathlib import Path

from collie.campaign.gate.answer import GateAnswer
from collie.files import write_whole
from collie.plain import CODEC
from collie.store.directory import writing
from collie.store.objects import read_object

SCHEMA_VERSION = 1


def write_answer(path: Path, answer: GateAnswer) -> None:
    """Write the answer, in place of an earlier one. Raises `StoreUnwritable`."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **CODEC.write(answer)}, ensure_ascii=False, allow_nan=False)
    with writing(path):
        write_whole(path, [text, "\n"])


def read_answer(path: Path) -> GateAnswer | None:
    """Return the answer. None if there is no file. Raises `StoreError` for a file that this Collie cannot read."""
    return read_object(path, GateAnswer, SCHEMA_VERSION, f"collie gate --resume {path.parent} writes it again")
