"""Rates of the counters of hosts without a run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

from collie.clock import SystemClock
from collie.counters.catalog import Catalog, discovered
from collie.counters.unusual import CounterBaseline
from collie.hosts.catalogs import CatalogFor, Discover, catalog_of
from collie.hosts.host_info import rdma_port
from collie.hosts.session import Archive, HostSession
from collie.inventory.hosts import Host
from collie.ports import Remote
from collie.readings.samples import AgentSample, counter_rates

_REFRESHES = 4
"""Refreshes in the window of a slow counter. Windows of short periods overlap."""


@dataclass(frozen=True, slots=True)
class CounterRates:
    """Rates of one host's counters. None means unknown.

    Attributes:
        rates: advance per second, or mean of a gauge.
        unusual: deviation from earlier rates, 0 to `unusual.MOST`.
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
    discover: Discover = discovered,
    archive: Archive | None = None,
) -> Generator[tuple[CounterRates, ...], None, None]:
    """Yield a reading of every host each period. Raises `TestbedError` for a host without an agent."""
    clock, archive = SystemClock(), archive or Archive.agent()
    sessions = [HostSession(host, connect(host), archive, clock) for host in hosts]
    try:
        watched = [_Watched(session, catalog_for, discover, period_seconds) for session in sessions]
        while True:
            clock.sleep(period_seconds)
            readings = tuple(reading for one in watched if (reading := one.read()) is not None)
            if readings:
                yield readings
    finally:
        for session in sessions:
            session.close()


class _Watched:
    def __init__(
        self, session: HostSession, catalog_for: CatalogFor, discover: Discover, period_seconds: float
    ) -> None:
        self._session = session
        self._period = period_seconds
        self._catalog = catalog_of([(session, rdma_port(session.host, session.info))], catalog_for, discover)
        self._quick = replace(self._catalog, counters=tuple(c for c in self._catalog.counters if not c.refresh_seconds))
        self._slow = replace(self._catalog, counters=tuple(c for c in self._catalog.counters if c.refresh_seconds))
        self._kept_seconds = _REFRESHES * max((c.refresh_seconds for c in self._slow.counters), default=0.0)
        self._baseline = CounterBaseline(self._catalog)
        self._samples: list[AgentSample] = []
        self._begin()

    def read(self) -> CounterRates | None:
        """Return the rates since the last call. None with fewer than two samples."""
        if self._session.client() is not self._client:  # a restarted agent sends no samples yet
            self._begin()
        fresh = self._client.drain_samples()
        since = self._samples[-1:]
        self._samples += fresh
        newest = self._samples[-1].clock if self._samples else 0.0
        self._samples = [sample for sample in self._samples if newest - sample.clock <= self._kept_seconds]
        recent = [*since, *fresh]
        if len(recent) < 2:
            return None
        known = counter_rates(recent, self._quick) | counter_rates(self._samples, self._slow)
        in_order = {counter.name: known[counter.name] for counter in self._catalog.counters}
        return CounterRates(self._session.host.name, in_order, self._baseline.judge(in_order), self._catalog)

    def _begin(self) -> None:
        # Two samples per period, so that each period has a rate.
        self._client = self._session.client()
        self._samples = []
        host = self._session.host
        period = self._period / 2
        self._client.request("sampling", on=True, device=host.device, port=host.ib_port, period_seconds=period)
