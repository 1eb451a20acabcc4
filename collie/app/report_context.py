"""The context of a campaign's report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collie.inventory.fingerprint import Fingerprint, HostDifference
from collie.workloads.pruning import Drop
from collie.workloads.space import Space


@dataclass(frozen=True, slots=True)
class ReportContext:
    """Facts for a campaign's report that the record lacks.

    Attributes:
        place: the campaign directory, as the reader would type it.
        space: for plain values and siblings. None compares with Collie's defaults.
        dropped: parts of the space that the testbed cannot run.
        fingerprints: at the end of the campaign, host A first.
        changes: of the testbed, as the operator accepted them.
        search: the command that begins the same campaign.
    """

    place: str = "CAMPAIGN"
    space: Space | None = None
    wall_seconds: float | None = None
    dropped: tuple[Drop, ...] = ()
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    changes: tuple[HostDifference, ...] = ()
    search: tuple[str, ...] = ()
