"""Hosts files in YAML."""

from __future__ import annotations

import os
from pathlib import Path

from collie.content.document import read_document
from collie.content.kinds import INVENTORY, require_kind
from collie.content.model import validate
from collie.errors import ContentError, InventoryError, Problems
from collie.inventory.file import HostEntry, InventoryFile
from collie.inventory.hosts import Inventory


def load_inventory(path: Path | str) -> Inventory:
    """Read a hosts file. A relative `identity_file` starts at its directory. Raises `InventoryError`."""
    file = Path(os.path.expanduser(path))
    problems = Problems()
    try:
        document = read_document(file)
        require_kind(document, INVENTORY)
        model = validate(document, InventoryFile, problems)
        if model is not None:
            problems.extend(document.problem(message, *location) for location, message in model.contradictions())
    except ContentError as failure:
        raise InventoryError(failure.problems) from None
    if model is None or problems:
        raise InventoryError(problems)
    hosts = {name: _with_key_beside(entry, file.resolve().parent) for name, entry in model.hosts.items()}
    return model.model_copy(update={"hosts": hosts}).inventory()


def _with_key_beside(entry: HostEntry, directory: Path) -> HostEntry:
    if entry.identity_file is None:
        return entry
    return entry.model_copy(update={"identity_file": str(directory / os.path.expanduser(entry.identity_file))})
