"""A simulated fleet: groups of hosts of one subsystem, some with a fault."""

from __future__ import annotations

from collections.abc import Mapping

from collie.campaign.fleet import OpenGroup
from collie.campaign.hardships import Hardships
from collie.counters.catalog import Catalog
from collie.fleet.fault import Fault
from collie.ports import Testbed
from collie.simulator.faults import faulty, tuned
from collie.simulator.hardships import show_rates
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed


def group_opener(
    subsystem: SubsystemFile,
    settings: Mapping[str, str],
    faults: Mapping[str, Fault],
    catalog: Catalog,
    *,
    seed: int,
    noise: float,
    hardships: Hardships,
) -> OpenGroup:
    """Return the function that opens two hosts of a fleet as a testbed.

    `settings` apply to every host, in addition to the settings of a fleet operator (`tuned`).

    Raises:
        UsageError: the subsystem cannot have such a fault, or has no such setting, or no mechanism has this name.
    """
    show_rates(hardships.flaky)  # a wrong name is refused before the first group
    plain = tuned(subsystem).with_settings(settings)
    unlike = {fault: faulty(plain, fault) for fault in set(faults.values())}

    def open_group(group: tuple[str, ...]) -> Testbed:
        a, b = (unlike[faults[host]] if host in faults else plain for host in group)
        return SimulatedTestbed(a, catalog, seed=seed, noise=noise, hardships=hardships, peer=b)

    return open_group
