"""The catalog of a port: its driver's, or one made from the counters of its device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from collie.counters.catalog import Catalog, Names, discovered
from collie.errors import TestbedError
from collie.hosts.host_info import RdmaPort
from collie.hosts.session import HostSession
from collie.readings.samples import AgentSample, names_in

CatalogFor = Callable[[str], Catalog | None]
"""Maps a driver, such as `rxe` or `mlx5_core`, to its catalog."""
Discover = Callable[[str, Names], Catalog]

_FIRST_SAMPLE_SECONDS = 5.0
_LOOK_SECONDS = 0.05

SessionPort = tuple[HostSession, RdmaPort]


def catalog_of(ports: Iterable[SessionPort], catalog_for: CatalogFor, discover: Discover = discovered) -> Catalog:
    """Return the catalog of hosts with one driver. If the driver has none, `discover` makes it from their counters.

    Raises:
        TestbedError: the drivers differ, or an agent cannot be asked.
    """
    ports = tuple(ports)
    drivers = sorted({port.driver for _, port in ports})
    if len(drivers) > 1:
        names = ",".join(session.host.name for session, _ in ports)
        raise TestbedError(f"hosts {names} have different drivers: {', '.join(drivers)}")
    found = catalog_for(drivers[0])
    if found is None:
        samples = chain.from_iterable(first_samples(*port) for port in ports)
        found = discover(drivers[0], names_in(samples))
    port = ports[0][1]
    return found.on_link(port.link_layer, port.rate_bps)


def first_samples(session: HostSession, port: RdmaPort) -> tuple[AgentSample, ...]:
    """Return at least one sample of a port without traffic."""
    client, clock = session.client(), session.clock
    client.forget_samples()
    client.request("sampling", on=True, device=port.device, port=port.port)
    late = clock.monotonic() + _FIRST_SAMPLE_SECONDS
    try:
        while not (samples := client.drain_samples()):
            if clock.monotonic() > late:
                raise TestbedError(f"host {session.host.name}: no counters came within {_FIRST_SAMPLE_SECONDS:g} s")
            clock.sleep(_LOOK_SECONDS)
    finally:
        client.request("sampling", on=False)
    return samples
