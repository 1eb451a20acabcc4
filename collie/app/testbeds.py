"""Opens testbeds, and checks them before the first run."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from collie.app.adapters import Adapters, OpenTestbed, ParallelPairs
from collie.app.inventories import first_pairs, open_inventory
from collie.campaign.choice import TestbedChoice
from collie.campaign.lanes import Lane
from collie.campaign.safety import require_unshared
from collie.counters.catalog import Catalog
from collie.detect.bounds import Calibration
from collie.errors import UsageError
from collie.inventory.fingerprint import Fingerprint, compare
from collie.ports import Testbed
from collie.readings.victim import victim
from collie.workloads.space import Space
from collie.workloads.units import format_rate

logger = logging.getLogger(__name__)

_LARGEST_MTU = 4096


def open_testbed(
    adapters: Adapters,
    choice: TestbedChoice,
    seed: int,
    pairs: int = 1,
    *,
    scheduler: str | None = None,
    absent_ok: bool = False,
) -> Testbed:
    """Open the testbed of a choice. Several pairs of hosts become one testbed, a `ParallelPairs`.

    The workers of a dask scheduler drive the pairs. Without a scheduler, this process does. `absent_ok` permits pairs
    that do not answer, as long as one pair does.
    """
    opens = openers(adapters, choice, seed, pairs)
    if scheduler is not None:
        return adapters.testbeds.on_workers(scheduler, opens, absent_ok)
    if len(opens) == 1:
        return next(iter(opens.values()))()
    return adapters.testbeds.several({name: opener() for name, opener in opens.items()}, absent_ok)


def lacks_subsystem(recorded: TestbedChoice) -> bool:
    """Whether the subsystem of a recorded testbed is a file that has moved. Records have absolute paths."""
    path = recorded.subsystem
    return recorded.is_simulated and os.path.isabs(path) and not os.path.lexists(path)


def require_subsystem(recorded: TestbedChoice) -> None:
    """Refuse a recorded testbed whose subsystem is a file that has moved."""
    if lacks_subsystem(recorded):
        raise UsageError(
            f"{recorded.subsystem}: no such file; the campaign began on this subsystem. If the file has moved, give "
            "its path with --subsystem FILE"
        )


def openers(adapters: Adapters, choice: TestbedChoice, seed: int, pairs: int) -> dict[str, OpenTestbed]:
    """Return the opener of each pair's testbed, by name. Openers need no file, so other machines can use them."""
    if choice.hosts is None:
        if choice.verify:
            raise UsageError("--verify compares payload, and the simulator carries none; add --hosts FILE")
        simulated = adapters.testbeds.simulated(choice, seed)
        return {f"{simulated().info.name}-{number}": simulated for number in range(1, pairs + 1)}
    if choice.settings:
        raise UsageError("--set changes a simulated subsystem; Collie never changes settings of real hosts")
    chosen = first_pairs(open_inventory(adapters, choice.hosts), pairs)
    return {pair.name: adapters.testbeds.on_hosts(choice, pair, None) for pair in chosen}


def lanes_of(testbed: Testbed) -> tuple[Lane, ...]:
    """Return the lanes of several pairs. A single pair has none."""
    return testbed.lanes if isinstance(testbed, ParallelPairs) else ()


def require_idle_ports(testbed: Testbed, *, shared_port: bool) -> None:
    """Refuse a testbed with a port in other use, unless `shared_port`. Warn of uses that do not forbid a run.

    Raises:
        PortShared: a port is in other use.
    """
    for use in require_unshared(testbed.foreign_uses(), shared_port=shared_port):
        logger.warning("%s", use)


def require_possible_victim(testbed: Testbed, choice: TestbedChoice) -> None:
    """Raise `UsageError` if no port of a testbed carries the load of the victim."""
    carried_bps = testbed.specification(victim(_LARGEST_MTU, remote=True)).bps
    if choice.victim_bps > carried_bps:
        load, carried = format_rate(choice.victim_bps), format_rate(carried_bps)
        raise UsageError(f"--victim-load {load} is more than a port carries: {carried} of payload")


def unlike(then: Mapping[str, Fingerprint], testbed: Testbed) -> bool:
    """Whether hosts differ from a testbed in a field that changes results."""
    return any(found.changes_results for found in compare(then, testbed.info.fingerprints))


def known_elsewhere(adapters: Adapters, known: str | None, testbed: Testbed | None) -> bool | None:
    """Whether known anomalies are those of another testbed: published ones, or those of hosts unlike these.

    Without a testbed, the hosts are not contacted. Then None means that their fingerprints decide.
    """
    if known is None:
        return False
    if not os.path.isdir(known):
        return True
    then = adapters.records.fingerprints(Path(known))
    if not then:
        return False
    return None if testbed is None else unlike(then, testbed)


def kept_calibration(adapters: Adapters, choice: TestbedChoice, testbed: Testbed, space: Space) -> Calibration | None:
    """Return the recorded calibration of these hosts. It does not apply to runs beside a victim."""
    if choice.is_simulated or choice.victim:
        return None
    return adapters.records.calibration(calibration_name(adapters, testbed, space))


def calibration_name(adapters: Adapters, testbed: Testbed, space: Space) -> str:
    """Return the name of the calibration of these hosts in their present state."""
    return adapters.records.calibration_name(testbed.info.name, testbed.info.fingerprints, space.whole.base)


def catalog_of(adapters: Adapters, choice: TestbedChoice) -> Catalog:
    """Return the counters of a testbed's NIC."""
    if choice.is_simulated:
        return adapters.content.catalog("simulated")
    with closing(open_testbed(adapters, choice, 0)) as testbed:
        return testbed.info.catalog


def recorded_catalog(adapters: Adapters, choice: TestbedChoice, hardware: Mapping[str, Fingerprint]) -> Catalog | None:
    """Return the counters of a campaign on record, or None if its hosts have no driver with a catalog in common."""
    if choice.is_simulated:
        return adapters.content.catalog("simulated")
    drivers = {str(fingerprint.fields.get("nic.driver")) for fingerprint in hardware.values()}
    return adapters.content.find_catalog(drivers.pop()) if len(drivers) == 1 else None
