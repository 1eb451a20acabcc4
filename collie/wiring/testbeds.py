"""Testbeds: the simulated one, real hosts, the lab; what is kept of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from collie.campaign.choice import TestbedChoice
from collie.campaign.lanes import Lane
from collie.campaign.safety import require_unshared
from collie.content.catalogs import discover_catalog, find_catalog, load_catalog
from collie.content.subsystems import load_subsystem
from collie.counters.catalog import Catalog
from collie.detect.bounds import Calibration
from collie.errors import UsageError
from collie.inventory.fingerprint import Fingerprint, compare
from collie.ports import Testbed
from collie.scheduler.local import LocalPairs
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed
from collie.store import calibrations
from collie.workloads.space import Space

if TYPE_CHECKING:
    from collie.hosts.policy import WindowPolicy
    from collie.inventory.hosts import Inventory, Pair

LAB = "lab"
logger = logging.getLogger(__name__)


def subsystem_of(choice: TestbedChoice) -> SubsystemFile:
    """Load a simulated subsystem and change its settings.

    Raises:
        ContentError: the file is wrong.
        UsageError: no such setting, or no such value.
    """
    subsystem = load_subsystem(choice.subsystem, SubsystemFile)
    return subsystem.with_settings(choice.settings) if choice.settings else subsystem


def open_testbed(
    choice: TestbedChoice, seed: int, pairs: int = 1, *, scheduler: str | None = None, absent_ok: bool = False
) -> Testbed:
    """Open the testbed that a user chose; of more than one pair of hosts, a `LocalPairs`.

    Args:
        choice: what the user said.
        seed: of simulated noise.
        pairs: of hosts.
        scheduler: address of the dask scheduler whose workers drive them; None for this process.
        absent_ok: go on without pairs that do not answer, as long as one does.

    Raises:
        ContentError: a subsystem or inventory file is wrong.
        TestbedError: the hosts cannot be used.
    """
    opens = _openers(choice, seed, pairs)
    if scheduler is not None:
        from collie.scheduler.distributed import DistributedPairs

        return DistributedPairs(scheduler, opens, absent_ok=absent_ok)
    if len(opens) == 1:
        return next(iter(opens.values()))()
    return LocalPairs({name: opener() for name, opener in opens.items()}, absent_ok=absent_ok)


def _openers(choice: TestbedChoice, seed: int, pairs: int) -> dict[str, Callable[[], Testbed]]:
    """Return for each pair, by name, what opens its testbed; a worker on another machine needs no file of this one."""
    if choice.hosts is None:
        if choice.verify:
            raise UsageError("--verify compares payload, and the simulator carries none; add --hosts FILE")
        if choice.victim:
            raise UsageError("--victim runs beside the workload, and the simulator runs one alone; add --hosts FILE")
        simulated = partial(
            SimulatedTestbed, subsystem_of(choice), load_catalog("simulated"), seed=seed, noise=choice.noise
        )
        return {f"{simulated().info.name}-{number}": simulated for number in range(1, pairs + 1)}
    if choice.settings:
        raise UsageError("--set changes a simulated subsystem; Collie never changes settings of real hosts")
    chosen = first_pairs(open_inventory(choice.hosts), pairs)
    return {pair.name: partial(hosts_testbed, choice, pair) for pair in chosen}


def lanes_of(testbed: Testbed) -> tuple[Lane, ...]:
    """Return the lanes of a testbed of several pairs; none of a single one."""
    return testbed.lanes if isinstance(testbed, LocalPairs) else ()


def absent_of(testbed: Testbed) -> Mapping[str, str]:
    """Return which pairs of a testbed do not answer, with the reason."""
    return testbed.absent if isinstance(testbed, LocalPairs) else {}


def hosts_testbed(choice: TestbedChoice, pair: Pair, policy: WindowPolicy | None = None) -> Testbed:
    """Open the testbed of hosts that measure together; those of the lab are started again where they lock up."""
    from collie.hosts.testbed import HostsTestbed
    from collie.lab.reviver import LabReviver
    from collie.ssh.remote import SshRemote

    return HostsTestbed(
        pair,
        connect=SshRemote,
        catalog_for=find_catalog,
        discover=discover_catalog,
        policy=policy,
        reviver=LabReviver() if choice.hosts is not None and _is_lab(choice.hosts) else None,
        verify=choice.verify,
        victim=choice.victim,
    )


def first_pair(inventory: Inventory) -> Pair:
    """Return the pair that measures.

    Raises:
        UsageError: the inventory forms none.
    """
    return first_pairs(inventory, 1)[0]


def first_pairs(inventory: Inventory, count: int) -> tuple[Pair, ...]:
    """Return the pairs that measure side by side.

    Raises:
        UsageError: the inventory forms fewer; or a host is in two of them, be it with two devices, as what crosses its
            PCIe and its memory for one is missing to the other; or only some are loopback across ports.
    """
    if not inventory.pairs:
        raise UsageError("the inventory names no pair of hosts; add one under `pairs:`")
    if len(inventory.pairs) < count:
        raise UsageError(f"--pairs {count}: the inventory names {len(inventory.pairs)}; add more under `pairs:`")
    chosen = inventory.pairs[:count]
    for host, uses in Counter(host for pair in chosen for host in {party.machine for party in pair.hosts}).items():
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


def open_inventory(hosts: str) -> Inventory:
    """Load an inventory file; `lab` is the one that `collie lab up` wrote.

    Raises:
        InventoryError: the file is wrong.
        LabError: no lab is up.
    """
    from collie.content.inventory import load_inventory

    return load_inventory(lab_inventory() if _is_lab(hosts) else Path(hosts))


def _is_lab(hosts: str) -> bool:
    return hosts.lower() == LAB and not Path(hosts).exists()


def lab_inventory() -> Path:
    """Return the inventory of the lab.

    Raises:
        LabError: no lab is up.
    """
    from collie.errors import LabError
    from collie.lab.lab import status

    inventory = status().inventory
    if inventory is None:
        raise LabError("no lab is up; start one with `collie lab up`")
    return inventory


def look_around(testbed: Testbed, *, shared_port: bool) -> None:
    """Refuse a testbed whose ports somebody else uses, unless told otherwise; warn of what forbids nothing.

    Raises:
        PortShared: somebody else uses a port.
        TestbedError: a host cannot be asked.
    """
    for use in require_unshared(testbed.other_uses(), shared_port=shared_port):
        logger.warning("%s", use)


def unlike(then: Mapping[str, Fingerprint], testbed: Testbed) -> bool:
    """Whether results of hosts as they were must not be compared with those of a testbed without a word about it."""
    return any(found.changes_results for found in compare(then, testbed.info.fingerprints))


def kept_calibration(choice: TestbedChoice, testbed: Testbed, space: Space) -> Calibration | None:
    """Return what `collie hosts calibrate` has kept of these very hosts; it ran alone, and says nothing of a victim."""
    if choice.is_simulated or choice.victim:
        return None
    return calibrations.load(calibration_name(testbed, space))


def calibration_name(testbed: Testbed, space: Space) -> str:
    """Return under which name the calibration of a testbed is kept: it is of these hosts as they are now."""
    return calibrations.name_of(testbed.info.name, testbed.info.fingerprints, space.whole.base)


def catalog_of(choice: TestbedChoice) -> Catalog:
    """Return the counters of a testbed's NIC.

    Raises:
        TestbedError: the hosts cannot be asked.
    """
    if choice.is_simulated:
        return load_catalog("simulated")
    testbed = open_testbed(choice, 0)
    try:
        return testbed.info.catalog
    finally:
        testbed.close()
