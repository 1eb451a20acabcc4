"""Hosts without a search: checked, watched, told apart."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collie.campaign.safety import tightened
from collie.content.catalogs import discover_catalog, find_catalog
from collie.errors import UsageError
from collie.files import is_file_name
from collie.inventory.fingerprint import Fingerprint, HostDifference, compare
from collie.inventory.safety import SafetyLimits
from collie.store import fingerprints
from collie.store.directory import CampaignDirectory
from collie.wiring.inventories import open_inventory
from collie.workloads.units import format_count

if TYPE_CHECKING:
    from collie.hosts.findings import Finding
    from collie.hosts.watch import CounterRates


def watch(hosts: str, period_seconds: float, names: Sequence[str] = ()) -> Iterator[tuple[CounterRates, ...]]:
    """Yield how fast the counters of hosts of an inventory move.

    Args:
        hosts: the inventory.
        period_seconds: between readings.
        names: of the hosts to watch; all of the inventory when there are none.

    Raises:
        UsageError: the inventory has no host of that name.
        TestbedError: a host cannot be asked.
    """
    from collie.hosts.watch import watch as watch_hosts
    from collie.ssh.remote import SshRemote

    known = {host.name: host for host in open_inventory(hosts).hosts}
    if strangers := [name for name in names if name not in known]:
        raise UsageError(f"the inventory has no host {strangers[0]}; it has {', '.join(known)}")
    chosen = [known[name] for name in names] or list(known.values())
    return watch_hosts(chosen, SshRemote, find_catalog, period_seconds, discover=discover_catalog)


def check(hosts: str, limits: SafetyLimits, *, shared_port: bool, sends: bool) -> tuple[Finding, ...]:
    """Look at every host of an inventory for what is missing before it can measure, and at the data paths between them.

    Args:
        hosts: the inventory.
        limits: tighter ones than the inventory's.
        shared_port: send on ports that somebody else uses, too.
        sends: test data paths at all.

    Raises:
        UsageError: a limit is looser than the site allows.
    """
    from collie.hosts.check import check_hosts
    from collie.hosts.paths import CheckTraffic
    from collie.ssh.remote import SshRemote

    inventory = open_inventory(hosts)
    traffic = CheckTraffic(tightened(inventory.safety, limits), shared_port) if sends else None
    return check_hosts(inventory.hosts, SshRemote, catalog_for=find_catalog, pairs=inventory.pairs, traffic=traffic)


def take_fingerprints(hosts: str, names: Sequence[str] = ()) -> dict[str, Fingerprint]:
    """Take the fingerprints of hosts of an inventory: of all, or of those that are named.

    Raises:
        UsageError: the inventory has no such host.
        TestbedError: a host cannot be asked.
    """
    from collie.hosts.fingerprint import fingerprints as take
    from collie.hosts.testbed import SystemClock
    from collie.ssh.remote import SshRemote

    inventory = open_inventory(hosts)
    try:
        chosen = [inventory.host(name) for name in names] if names else inventory.hosts
    except KeyError as unknown:
        there = ", ".join(host.name for host in inventory.hosts)
        raise UsageError(f"the inventory has no host {unknown}; it has {there}") from None
    return take(chosen, SshRemote, SystemClock())


def fingerprints_named(name: str, hosts: str | None) -> dict[str, Fingerprint]:
    """Find fingerprints: of a file, of a campaign directory, or of a host of an inventory, as it is now.

    Raises:
        UsageError: it is none of these.
        StoreError: a file is damaged.
        TestbedError: the host cannot be asked.
    """
    path = Path(name)
    if is_file_name(path):
        kept = fingerprints.read(path)
        return {kept.host: kept.fingerprint}
    if os.path.isdir(path):
        found = fingerprints.load(CampaignDirectory(path).fingerprints)
        if not found:
            raise UsageError(f"{name} holds no fingerprints; is it a campaign directory?")
        return found
    if hosts is None:
        raise UsageError(f"{name!r} is no fingerprint file and no campaign; a host's name needs --hosts FILE")
    return take_fingerprints(hosts, [name])


def diff(a: str, b: str, hosts: str | None) -> tuple[HostDifference, ...]:
    """Compare what two names of `fingerprints_named` stand for.

    Raises:
        UsageError: nobody can say which host is to be compared with which.
        CollieError: as `fingerprints_named`.
    """
    left, right = fingerprints_named(a, hosts), fingerprints_named(b, hosts)
    if len(left) == 1 and len(right) == 1:
        (first, one), (second, other) = *left.items(), *right.items()
        names = (first, second) if first != second else (a, b)
        return compare({names[0]: one}, {names[1]: other})
    if 1 in (len(left), len(right)) and (shared := set(left) & set(right)):
        # One host against a campaign: against what that very host was then.
        left, right = ({name: each[name] for name in shared} for each in (left, right))
    if len(left) != len(right):
        raise UsageError(
            f"{a} has {format_count(len(left), 'host')} ({', '.join(left)}), {b} {len(right)} ({', '.join(right)}); "
            "name one host or one fingerprint file on each side"
        )
    return compare(left, right)
