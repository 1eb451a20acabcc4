"""Inventories of hosts, and the pairs of hosts that measure."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from collie.app.adapters import Adapters
from collie.errors import LabError, UsageError
from collie.inventory.hosts import Inventory, Pair

LAB = "lab"


def first_pair(inventory: Inventory) -> Pair:
    """Return the pair that measures."""
    return first_pairs(inventory, 1)[0]


def first_pairs(inventory: Inventory, count: int) -> tuple[Pair, ...]:
    """Return the pairs that measure side by side. They share no host. All or none are loopback across ports."""
    if not inventory.pairs:
        raise UsageError("the inventory names no pair of hosts; add one under `pairs:`")
    if len(inventory.pairs) < count:
        raise UsageError(f"--pairs {count}: the inventory names {len(inventory.pairs)}; add more under `pairs:`")
    chosen = inventory.pairs[:count]
    for host, uses in Counter(
        host for pair in chosen for host in {endpoint.machine for endpoint in pair.hosts}
    ).items():
        if uses > 1:
            raise UsageError(
                f"--pairs {count}: host {host} is in {uses} of these pairs, and can measure in one at a time, "
                "whichever its devices"
            )
    across = [pair.name for pair in chosen if pair.shared_hosts]
    if 0 < len(across) < count:
        raise UsageError(
            f"--pairs {count}: {across[0]} is loopback across the ports of one host, and not all of these pairs are; "
            "what one campaign measures has to be alike"
        )
    return chosen


def open_inventory(adapters: Adapters, hosts: str) -> Inventory:
    """Load an inventory file. `lab` stands for the file of `collie lab up`.

    Raises:
        LabError: no lab is up.
    """
    path = adapters.testbeds.lab_inventory() if is_lab(hosts) else Path(hosts)
    if path is None:
        raise LabError("no lab is up; start one with `collie lab up`")
    return adapters.content.inventory(path)


def is_lab(hosts: str) -> bool:
    """Whether `hosts` means the lab, and not a file of that name."""
    return hosts.lower() == LAB and not os.path.exists(hosts)
