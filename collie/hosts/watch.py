"""Watching the counters of hosts without running any traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collie.counters.catalog import Catalog
from collie.counters.series import rates
from collie.hosts.facts import rdma_port
from collie.hosts.samples import AgentSample, snapshot
from collie.hosts.session import Archive, HostSession
from collie.hosts.testbed import SystemClock
from collie.inventory.hosts import Host
from collie.ports import Clock, Remote


@dataclass(frozen=True, slots=True)
class Reading:
    """How fast the counters of one host move.

    Attributes:
        host: its name.
        rates: by counter name, advance per second or mean of a gauge; None when unknown.
    """

    host: str
    rates: Mapping[str, float | None]


def watch(
    hosts: Sequence[Host],
    connect: Callable[[Host], Remote],
    catalog_for: Callable[[str], Catalog],
    period_seconds: float,
    clock: Clock | None = None,
) -> Iterator[tuple[Reading, ...]]:
    """Yield a reading of every host each period, until the caller stops asking.

    Raises:
        TestbedError: a host cannot be asked.
    """
    clock = clock or SystemClock()
    archive = Archive.agent()
    sessions = [HostSession(host, connect(host), archive, clock) for host in hosts]
    try:
        catalogs = [_begin(session, catalog_for, period_seconds) for session in sessions]
        watched = {session.host.name: session.client() for session in sessions}
        before: dict[str, AgentSample] = {}
        while True:
            clock.sleep(period_seconds)
            readings = []
            for session, catalog in zip(sessions, catalogs, strict=True):
                name = session.host.name
                if session.client() is not watched[name]:  # the agent was started again and samples nothing yet
                    _begin(session, catalog_for, period_seconds)
                    watched[name] = session.client()
                samples = [*([before[name]] if name in before else []), *session.client().drain_samples()]
                if len(samples) > 1:
                    before[name] = samples[-1]
                    readings.append(Reading(name, rates(catalog, [snapshot(sample, catalog) for sample in samples])))
            if readings:
                yield tuple(readings)
    finally:
        for session in sessions:
            session.close()


def _begin(session: HostSession, catalog_for: Callable[[str], Catalog], period_seconds: float) -> Catalog:
    port = rdma_port(session.host, session.facts)
    # Two samples per period: a period without a sample of its own would have no rate.
    session.request(
        "sampling",
        on=True,
        device=session.host.device,
        port=session.host.ib_port,
        period_seconds=period_seconds / 2,
    )
    return catalog_for(port.driver)
