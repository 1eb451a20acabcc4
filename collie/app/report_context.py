"""Facts of a campaign's report that its record does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collie.inventory.fingerprint import Fingerprint, HostDifference
from collie.workloads.pruning import Drop
from collie.workloads.space import Space


@dataclass(frozen=True, slots=True)
class ReportContext:
    """Facts of a campaign's report that its record does not hold.

    Attributes:
        place: the campaign directory, as the reader would write it on a command line.
        space: of the search. It gives plain values and siblings. None compares with Collie's defaults.
        wall_seconds: duration of the search on the reader's clock, if known.
        dropped: parts of the space that the testbed cannot do.
        fingerprints: of the testbed by host, host A first, at the end of the campaign, empty without a record of them.
        changes: of the testbed while the campaign was resumed, as the operator accepted them.
        search: words of the command that begins the same search or gate again, empty if unknown.
    """

    place: str = "CAMPAIGN"
    space: Space | None = None
    wall_seconds: float | None = None
    dropped: tuple[Drop, ...] = ()
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    changes: tuple[HostDifference, ...] = ()
    search: tuple[str, ...] = ()
