"""Foreign use of a port: its traffic and queue pairs while no run is under way."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from collie.counters.catalog import Catalog, Counter, CounterKind, Unit
from collie.hosts.host_info import RdmaPort
from collie.hosts.session import HostSession
from collie.hosts.timing import DEFAULT_TIMING
from collie.ports import ForeignUse
from collie.readings.samples import AgentSample, counter_rates
from collie.workloads.units import format_count

_WINDOW_REFRESHES = 3
"""A port is watched for this many refreshes of its slowest counter, or longer. A rate needs two."""
_PERIOD_SECONDS = 0.25
BACKGROUND_PACKETS = 100.0
"""Packets/s. Idle storage connections send a few, and a workload sends thousands."""

_OF_NETWORK_DEVICES = frozenset({"netdev", "ethtool"})
_CARRIES = frozenset({"RTR", "RTS", "SQD"})
_MANAGEMENT = frozenset({"SMI", "GSI"})


def foreign_uses(session: HostSession, port: RdmaPort, catalog: Catalog) -> tuple[ForeignUse, ...]:
    """Watch one port for a second, or as long as its counters need."""
    client = session.client_under_way()
    client.forget_samples()
    session.request("sampling", on=True, device=port.device, port=port.port, period_seconds=_PERIOD_SECONDS)
    session.clock.sleep(idle_seconds(catalog, session.timing.idle_seconds) + _PERIOD_SECONDS)
    session.request("sampling", on=False)
    samples = client.drain_samples()
    pairs = session.request("resources", device=port.device)["qps"]
    found = (*packet_activity(samples, catalog), *queue_pair_owners(pairs))
    return tuple(ForeignUse(session.host.name, port.device, detail, forbids) for detail, forbids in found)


def idle_seconds(catalog: Catalog, least_seconds: float = DEFAULT_TIMING.idle_seconds) -> float:
    """Return how long a port is watched."""
    refresh_seconds = max((counter.refresh_seconds for counter in _counting(catalog)), default=0.0)
    return max(least_seconds, _WINDOW_REFRESHES * refresh_seconds)


def packet_activity(samples: Sequence[AgentSample], catalog: Catalog) -> Iterator[tuple[str, bool]]:
    """Yield the activity of an idle port, and whether it forbids a start."""
    found = counter_rates(samples, replace(catalog, counters=_counting(catalog)))
    known = {name: rate for name, rate in found.items() if rate is not None}
    if not known:
        yield "no counter shows whether other RDMA traffic moves", False
    for name, rate in known.items():
        if rate > BACKGROUND_PACKETS:
            yield f"{name} advances by {rate:,.0f} packets/s without our traffic", True


def _counting(catalog: Catalog) -> tuple[Counter, ...]:
    """Return the counters of RDMA packets. Those of network devices are left out: they count traffic to the agent."""
    packets = (c for c in catalog.counters if c.kind is CounterKind.PERFORMANCE and c.unit is Unit.PACKETS)
    return tuple(counter for counter in packets if counter.source not in _OF_NETWORK_DEVICES)


def queue_pair_owners(pairs: Sequence[Mapping[str, Any]] | None) -> Iterator[tuple[str, bool]]:
    """Yield the owners of queue pairs that can carry traffic, and whether each forbids a start."""
    if pairs is None:
        yield "the kernel does not list queue pairs, so those of other processes are unknown", False
        return
    live = [pair for pair in pairs if pair["state"] in _CARRIES and pair["type"] not in _MANAGEMENT]
    for (pid, comm), count in Tally((pair["pid"], pair["comm"]) for pair in live).items():
        many = format_count(count, "queue pair")
        if pid is None and comm:
            # Storage mounts and the like are mostly silent, and no user can end them.
            yield f"the kernel's {comm} has {many} ready to carry traffic", False
        else:
            yield f"{comm or 'an unknown process'} (pid {pid or 'unknown'}) has {many} ready to carry traffic", True
