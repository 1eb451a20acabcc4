"""What limits a simulated run."""

from __future__ import annotations

from collie.simulator.costs import ARRIVAL, STEADY
from collie.simulator.model import SteadyState

_BUSY = 0.99


def bottleneck(state: SteadyState) -> str:
    """Return the busiest resource of one point in words. If none is busy, return what limits the sender."""
    busy = []
    for role, load in (("source", state.source), ("sink", state.sink)):
        host = "ab"[(role == "sink") != bool(state.traffic.is_read)]
        named = [*zip(STEADY, load.steady, strict=True), *zip(ARRIVAL, load.arrival, strict=True)]
        named += [("PCIe upstream", load.upstream), ("loopback path", load.loopback)]
        if load.kept < 1:
            named.append(("receives that come too late", 1.0 / load.kept))
        busy += [(value, f"{name} of host {host}") for name, value in named]
    value, name = max(busy)
    if value > _BUSY:
        return name
    if state.forth.limit >= state.traffic.offered * _BUSY:
        return "offered load"
    return "WQE fetches" if state.forth.limit >= state.costs.fetch_limit * _BUSY else "window"
