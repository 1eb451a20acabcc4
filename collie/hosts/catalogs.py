"""The catalog of a port: its driver's, or one made from the counters of its device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce

from collie.counters.catalog import Catalog
from collie.counters.discovery import Names, discovered
from collie.errors import TestbedError
from collie.hosts.facts import RdmaPort
from collie.hosts.session import HostSession
from collie.ports import Clock
from collie.readings.samples import names_in

CatalogFor = Callable[[str], Catalog | None]
"""Maps a driver, such as `rxe` or `mlx5_core`, to its catalog. None when there is none."""
Discover = Callable[[str, Names], Catalog]

FIRST_SAMPLE_SECONDS = 5.0
_LOOK_SECONDS = 0.05

SessionPort = tuple[HostSession, RdmaPort]


def catalog_of(
    ports: Iterable[SessionPort], catalog_for: CatalogFor, clock: Clock, discover: Discover = discovered
) -> Catalog:
    """Return the catalog of hosts with one driver. Without one, `discover` makes it from their counters.

    Raises:
        TestbedError: the hosts have different drivers, or one cannot be asked.
    """
    ports = tuple(ports)
    drivers = sorted({port.driver for _, port in ports})
    if len(drivers) > 1:
        names = ",".join(session.host.name for session, _ in ports)
        raise TestbedError(f"hosts {names} have different drivers: {', '.join(drivers)}")
    found = catalog_for(drivers[0]) or discover(drivers[0], _union(exposed_names(*port, clock) for port in ports))
    port = ports[0][1]
    return found.on_link(port.link_layer, port.rate_bps)


def exposed_names(session: HostSession, port: RdmaPort, clock: Clock) -> dict[str, set[str]]:
    """Return the names of a device's counters by source, from one sample without traffic.

    Raises:
        TestbedError: no sample arrived.
    """
    client = session.client()
    client.forget_samples()
    client.request("sampling", on=True, device=port.device, port=port.port)
    late = clock.monotonic() + FIRST_SAMPLE_SECONDS
    try:
        while not (samples := client.drain_samples()):
            if clock.monotonic() > late:
                raise TestbedError(f"host {session.host.name}: no counters came within {FIRST_SAMPLE_SECONDS:g} s")
            clock.sleep(_LOOK_SECONDS)
    finally:
        client.request("sampling", on=False)
    return names_in(samples)


def _union(all_names: Iterable[Mapping[str, set[str]]]) -> dict[str, set[str]]:
    def add(one: dict[str, set[str]], other: Mapping[str, set[str]]) -> dict[str, set[str]]:
        return {source: one.get(source, set()) | other.get(source, set()) for source in one.keys() | other.keys()}

    return reduce(add, all_names, {})
