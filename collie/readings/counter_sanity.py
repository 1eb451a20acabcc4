"""Checks of counters against themselves and against the traffic that ran, and of the link. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from collie.counters.catalog import Catalog, Counter, Role
from collie.counters.series import resets
from collie.detect.measurement import HostMeasurement
from collie.readings.samples import AgentSample, counter_rates, snapshot
from collie.workloads.plan import flows
from collie.workloads.workload import Workload

_RECEIVED = frozenset({"rx_bytes", "rx_packets"})
_SENT = frozenset({"tx_bytes", "tx_packets"})
_MAX_NAMED = 3

LINK_DOWN = "link_down"
"""Canonical name of the counter of link failures."""

_LINK_READINGS = {
    "state": "the port's state",
    "rate": "the port's rate",
    "netdev_state": "the network device's state",
    "netdev_speed_mbps": "the network device's speed in Mbit/s",
    "carrier_changes": "the count of carrier changes",
    "pci_speed": "the PCIe speed",
    "pci_width": "the PCIe width",
}


@dataclass(frozen=True, slots=True)
class StalledCounter:
    """A counter that stood still while traffic ran. If it had counted before, it `voids` the run."""

    counter: Counter
    text: str
    voids: bool


def stalled_counters(
    host: HostMeasurement,
    delivered: Mapping[str, float],
    workload: Workload,
    catalog: Catalog,
    samples: Sequence[AgentSample],
    machines: Mapping[str, str],
) -> tuple[StalledCounter, ...]:
    """Return a host's RDMA counters that stood still while traffic ran. `delivered` holds bits/s by sink."""
    moving = _moved_by_traffic(host.host, delivered, workload, machines)
    found = []
    for counter in catalog.counters:
        if counter.canonical in moving and host.counters.get(counter.name) == 0:
            source, name = counter.key
            reading = samples[-1].counters[source][name]
            text = f"{counter.name} stood at {reading} while traffic ran; "
            text += "it has stopped counting" if reading else "the driver does not count it"
            found.append(StalledCounter(counter, text, voids=bool(reading)))
    return tuple(found)


def _moved_by_traffic(
    role: str, delivered: Mapping[str, float], workload: Workload, machines: Mapping[str, str]
) -> frozenset[str]:
    """Return the canonical names of counters that must move. In a NIC, loopback may bypass them, even across ports."""
    moved: frozenset[str] = frozenset()
    for flow in flows(workload):
        on_one_host = flow.is_loopback or flow.is_across_ports(machines)
        if not on_one_host and delivered.get(flow.sink, 0.0) > 0:
            if role == flow.sink:
                moved |= _RECEIVED
            elif role == flow.source:
                moved |= _SENT
    return moved


def void_reasons(samples: Sequence[AgentSample], catalog: Catalog) -> Iterator[str]:
    """Yield the counters that were reset, appeared or disappeared."""
    if names := resets(catalog, [snapshot(sample, catalog) for sample in samples]):
        yield f"{_listed(names)} went backwards: the device or its driver was reset"
    changed = {key for before, after in pairwise(samples) for key in _changed(before, after)}
    known = [counter for counter in catalog.counters if counter.key in changed]
    if pausing := [counter.name for counter in known if counter.role in {Role.TX_PAUSE, Role.RX_PAUSE}]:
        yield f"the PFC state changed: {_listed(pausing)} came or went"
    elif known:
        yield f"the driver changed its set of counters: {_listed([counter.name for counter in known])} came or went"


def _changed(before: AgentSample, after: AgentSample) -> Iterator[tuple[str, str]]:
    for source in before.counters.keys() & after.counters.keys():
        first, second = before.counters[source], after.counters[source]
        if first and second:  # an unreadable source does not show which counters it has
            yield from ((source, name) for name in first.keys() ^ second.keys())


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def link_change(role: str, samples: Sequence[AgentSample], catalog: Catalog) -> str | None:
    """Describe the changes of a host's link since its first sample, if any."""
    if len(samples) < 2:
        return None
    down = tuple(counter for counter in catalog.counters if counter.canonical == LINK_DOWN)
    moved = counter_rates(samples, replace(catalog, counters=down))
    changes = [f"{name} counted that it went down" for name, rate in moved.items() if rate]
    for key, name in _LINK_READINGS.items():
        before, after = samples[0].link.get(key), samples[-1].link.get(key)
        if None not in (before, after) and before != after:
            changes.append(f"{name} was {before} and became {after}")
    return f"the link changed during the run: host {role}: {', '.join(changes)}" if changes else None
