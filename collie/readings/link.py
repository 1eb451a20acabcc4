"""Link changes during a run, which void it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collie.counters.catalog import Catalog
from collie.counters.series import rates
from collie.readings.samples import AgentSample, snapshot

LINK_DOWN = "link_down"
"""Canonical name of counters of link-down events."""

_NAMES = {
    "state": "the port's state",
    "rate": "the port's rate",
    "netdev_state": "the network device's state",
    "netdev_speed_mbps": "the network device's speed in Mbit/s",
    "carrier_changes": "the count of carrier changes",
    "pci_speed": "the PCIe speed",
    "pci_width": "the PCIe width",
}


def link_change(role: str, samples: Sequence[AgentSample], catalog: Catalog) -> str | None:
    """Describe the changes of a host's link over a run, start-up included. None without a known change."""
    if len(samples) < 2:
        return None
    changes = [*_moved(samples, catalog), *_differences(samples[0], samples[-1])]
    return f"the link changed during the run: host {role}: {', '.join(changes)}" if changes else None


def _moved(samples: Sequence[AgentSample], catalog: Catalog) -> Iterator[str]:
    counters = tuple(counter for counter in catalog.counters if counter.canonical == LINK_DOWN)
    moved = rates(Catalog(catalog.driver, counters), [snapshot(sample, catalog) for sample in samples])
    yield from (f"{name} counted that it went down" for name, rate in moved.items() if rate)


def _differences(first: AgentSample, last: AgentSample) -> Iterator[str]:
    for key, name in _NAMES.items():
        before, after = first.link.get(key), last.link.get(key)
        if None not in (before, after) and before != after:
            yield f"{name} was {before} and became {after}"
