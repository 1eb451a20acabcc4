"""Chooses, fingerprints and compares hosts without a search."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from collie.app.adapters import Adapters
from collie.app.inventories import open_inventory
from collie.errors import UsageError
from collie.files import is_file_name
from collie.inventory.fingerprint import Fingerprint, HostDifference, compare
from collie.inventory.hosts import Host
from collie.workloads.units import format_count


def chosen_hosts(adapters: Adapters, hosts: str, names: Sequence[str] = ()) -> tuple[Host, ...]:
    """Return the named hosts of an inventory, or all hosts if `names` is empty."""
    known = {host.name: host for host in open_inventory(adapters, hosts).hosts}
    if strangers := [name for name in names if name not in known]:
        raise UsageError(f"the inventory has no host {strangers[0]}; it has {', '.join(known)}")
    return tuple(known[name] for name in names) or tuple(known.values())


def take_fingerprints(adapters: Adapters, hosts: str, names: Sequence[str] = ()) -> Mapping[str, Fingerprint]:
    """Take the fingerprints of hosts (`chosen_hosts`)."""
    return adapters.testbeds.fingerprints(chosen_hosts(adapters, hosts, names))


def fingerprints_named(adapters: Adapters, name: str, hosts: str | None) -> Mapping[str, Fingerprint]:
    """Find fingerprints: of a file, of a campaign directory, or of a host of an inventory now."""
    path = Path(name)
    if is_file_name(path):
        return adapters.records.fingerprint_file(path)
    if os.path.isdir(path):
        found = adapters.records.fingerprints(path)
        if not found:
            raise UsageError(f"{name} holds no fingerprints; is it a campaign directory?")
        return found
    if hosts is None:
        raise UsageError(f"{name!r} is no fingerprint file and no campaign; a host's name needs --hosts FILE")
    return take_fingerprints(adapters, hosts, [name])


def diff(adapters: Adapters, a: str, b: str, hosts: str | None) -> tuple[HostDifference, ...]:
    """Compare the fingerprints of two names (`fingerprints_named`)."""
    left, right = fingerprints_named(adapters, a, hosts), fingerprints_named(adapters, b, hosts)
    if len(left) == 1 and len(right) == 1:
        (first, one), (second, other) = *left.items(), *right.items()
        names = (first, second) if first != second else (a, b)
        return compare({names[0]: one}, {names[1]: other})
    if 1 in (len(left), len(right)) and (shared := set(left) & set(right)):
        # A host is compared with itself at the time of the campaign.
        left, right = ({name: each[name] for name in shared} for each in (left, right))
    if len(left) != len(right):
        raise UsageError(
            f"{a} has {format_count(len(left), 'host')} ({', '.join(left)}), {b} {len(right)} ({', '.join(right)}); "
            "name one host or one fingerprint file on each side"
        )
    return compare(left, right)
