"""Testbeds: the simulated one, real hosts, the lab; what is kept of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
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
from collie.wiring.inventories import first_pairs, is_lab, open_inventory
from collie.workloads.space import Space

if TYPE_CHECKING:
    from collie.inventory.hosts import Pair
    from collie.readings.policy import WindowPolicy

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
        reviver=LabReviver() if choice.hosts is not None and is_lab(choice.hosts) else None,
        verify=choice.verify,
        victim=choice.victim,
    )


def require_idle_ports(testbed: Testbed, *, shared_port: bool) -> None:
    """Refuse a testbed whose ports somebody else uses, unless told otherwise; warn of what forbids nothing.

    Raises:
        PortShared: somebody else uses a port.
        TestbedError: a host cannot be asked.
    """
    for use in require_unshared(testbed.foreign_uses(), shared_port=shared_port):
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
