"""One reading of a host beside those of its peers, as places in percent of the width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collie.report.figures.scale import Scale, engineering

_MARGIN = 0.04
_RATIO_FOR_A_LOGARITHM = 1000.0


@dataclass(frozen=True, slots=True)
class PeerStrip:
    """The healthy range, the peers, and the host. `first` and `last` label the ends of the axis."""

    low: float
    high: float
    peers: tuple[float, ...]
    here: float
    first: str
    last: str
    words: str


def peer_strip(host: str, value: float, peers: Sequence[float], low: float, high: float, unit: str) -> PeerStrip:
    """Draw a host's reading, those of its peers, and the healthy range from `low` to `high`."""
    ends = min(value, low, *peers), max(value, high, *peers)
    logarithmic = ends[0] > 0 and ends[1] > _RATIO_FOR_A_LOGARITHM * ends[0]
    if ends[0] == ends[1]:
        ends = ends[0], ends[1] + 1.0
    scale = Scale(*ends, 100 * _MARGIN, 100 * (1 - _MARGIN), logarithmic)
    spread = f"{len(peers)} peers from {engineering(min(peers))} to {engineering(max(peers))}" if peers else "no peer"
    return PeerStrip(
        scale.place(low),
        scale.place(high),
        tuple(map(scale.place, peers)),
        scale.place(value),
        f"{engineering(ends[0])} {unit}",
        f"{engineering(ends[1])} {unit}",
        f"{host} {engineering(value)} {unit}; {spread}; healthy {engineering(low)} to {engineering(high)}",
    )
