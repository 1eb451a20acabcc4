"""Link changes during a run, which void it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collie.counters.catalog import Catalog
from collie.readings.samples import AgentSample, counter_rates

LINK_DOWN = "link_down"
"""Canonical name of a counter."""

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
    """Describe the changes of a host's link since its first sample, if any."""
    if len(samples) < 2:
        return None
    down = tuple(counter for counter in catalog.counters if counter.canonical == LINK_DOWN)
    moved = counter_rates(samples, replace(catalog, counters=down))
    changes = [f"{name} counted that it went down" for name, rate in moved.items() if rate]
    for key, name in _NAMES.items():
        before, after = samples[0].link.get(key), samples[-1].link.get(key)
        if None not in (before, after) and before != after:
            changes.append(f"{name} was {before} and became {after}")
    return f"the link changed during the run: host {role}: {', '.join(changes)}" if changes else None
