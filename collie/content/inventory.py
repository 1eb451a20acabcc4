"""Hosts files in YAML."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from collie.content.document import read_document
from collie.content.locate import display_path
from collie.content.model import validate
from collie.errors import ContentError, InventoryError, Problems
from collie.inventory.file import InventoryFile
from collie.inventory.hosts import Host, Inventory, Pair


def load_inventory(path: Path | str) -> Inventory:
    """Read a hosts file. A relative `identity_file` starts at the file's directory.

    Raises:
        InventoryError: with every problem of the file.
    """
    file = Path(os.path.expanduser(path))
    problems = Problems()
    try:
        document = read_document(file, display_path(file))
        model = validate(document, InventoryFile, problems)
        if model is not None:
            problems.extend(document.problem(message, *location) for location, message in model.contradictions())
    except ContentError as failure:
        raise InventoryError(failure.problems) from None
    if model is None or problems:
        raise InventoryError(problems)
    return _beside(model.inventory(), file.resolve().parent)


def _beside(inventory: Inventory, directory: Path) -> Inventory:
    hosts = {host.name: _with_key_beside(host, directory) for host in inventory.hosts}
    groups = ([hosts[host.name] for host in pair.hosts] for pair in inventory.pairs)
    pairs = tuple(Pair(a, b, tuple(others)) for a, b, *others in groups)
    return dataclasses.replace(inventory, hosts=tuple(hosts.values()), pairs=pairs)


def _with_key_beside(host: Host, directory: Path) -> Host:
    if host.identity_file is None:
        return host
    return dataclasses.replace(host, identity_file=str(directory / os.path.expanduser(host.identity_file)))
