"""Counter rates of hosts without a run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

from collie.clock import SystemClock
from collie.counters.catalog import Catalog
from collie.counters.discovery import discovered
from collie.counters.series import rates
from collie.counters.unusual import CounterBaseline
from collie.hosts.catalogs import CatalogFor, Discover, catalog_of
from collie.hosts.facts import rdma_port
from collie.hosts.session import Archive, HostSession
from collie.inventory.hosts import Host
from collie.ports import Clock, Remote
from collie.readings.samples import AgentSample, snapshot

_REFRESHES = 4
"""Slow counters are rated over so many refreshes. Consecutive windows share the last one."""


@dataclass(frozen=True, slots=True)
class CounterRates:
    """Rates of one host's counters.

    Attributes:
        rates: per counter, advance per second or mean of a gauge. None when unknown.
        unusual: per counter, deviation from earlier rates, 0 to `unusual.MOST`. None when unknown.
    """

    host: str
    rates: Mapping[str, float | None]
    unusual: Mapping[str, float | None]
    catalog: Catalog


def watch(
    hosts: Sequence[Host],
    connect: Callable[[Host], Remote],
    catalog_for: CatalogFor,
    period_seconds: float,
    clock: Clock | None = None,
    discover: Discover = discovered,
    archive: Archive | None = None,
) -> Generator[tuple[CounterRates, ...], None, None]:
    """Yield a reading of every host each period.

    Raises:
        TestbedError: a host cannot be asked.
    """
    clock = clock or SystemClock()
    archive = archive or Archive.agent()
    sessions = [HostSession(host, connect(host), archive, clock) for host in hosts]
    try:
        watched = [_Watched(session, catalog_for, discover, period_seconds, clock) for session in sessions]
        while True:
            clock.sleep(period_seconds)
            readings = tuple(reading for one in watched if (reading := one.look()) is not None)
            if readings:
                yield readings
    finally:
        for session in sessions:
            session.close()


class _Watched:
    """One host, and the samples for its rates."""

    def __init__(
        self, session: HostSession, catalog_for: CatalogFor, discover: Discover, period_seconds: float, clock: Clock
    ) -> None:
        self._session = session
        self._period = period_seconds
        self._catalog = catalog_of([(session, rdma_port(session.host, session.facts))], catalog_for, clock, discover)
        self._quick = replace(self._catalog, counters=tuple(c for c in self._catalog.counters if not c.refresh_seconds))
        self._slow = replace(self._catalog, counters=tuple(c for c in self._catalog.counters if c.refresh_seconds))
        slowest = max((counter.refresh_seconds for counter in self._slow.counters), default=0.0)
        self._kept_seconds = _REFRESHES * slowest
        self._usual = CounterBaseline(self._catalog)
        self._samples: list[AgentSample] = []
        self._begin()

    def look(self) -> CounterRates | None:
        """Return the rates since the last call. None with fewer than two samples."""
        if self._session.client() is not self._client:  # a restarted agent sends no samples yet
            self._begin()
        fresh = self._client.drain_samples()
        since = self._samples[-1:]
        self._samples += fresh
        newest = self._samples[-1].clock if self._samples else 0.0
        self._samples = [
            sample for sample in self._samples[:-1] if newest - sample.clock <= self._kept_seconds
        ] + self._samples[-1:]
        recent = [*since, *fresh]
        if len(recent) < 2:
            return None
        known = {**self._rates(self._quick, recent), **self._rates(self._slow, self._samples)}
        in_order = {counter.name: known[counter.name] for counter in self._catalog.counters}
        return CounterRates(self._session.host.name, in_order, self._usual.judge(in_order), self._catalog)

    @staticmethod
    def _rates(catalog: Catalog, samples: Sequence[AgentSample]) -> dict[str, float | None]:
        return rates(catalog, [snapshot(sample, catalog) for sample in samples])

    def _begin(self) -> None:
        # Two samples per period, so that each period has a rate.
        self._client = self._session.client()
        self._samples = []
        host = self._session.host
        self._client.request(
            "sampling", on=True, device=host.device, port=host.ib_port, period_seconds=self._period / 2
        )
