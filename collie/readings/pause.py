"""For what share of time a host sent pause: over a window, and from sample to sample. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from collie.counters.catalog import Catalog, Role, Unit
from collie.counters.series import rates
from collie.readings.recording import SAME_MOMENT_SECONDS, Placed
from collie.readings.samples import snapshot


def pause_ratio(catalog: Catalog, counters: Mapping[str, float | None], role: Role) -> float | None:
    """Return the largest share of time over the priorities, from microseconds per second or percent.

    At most 1: a NIC tells in steps for how long it asked, which may reach beyond the window.
    """
    scale = {Unit.MICROSECONDS: 1e-6, Unit.PERCENT: 1e-2}
    ratios = [
        value * scale[counter.unit]
        for counter in catalog.of_role(role)
        if counter.unit in scale and (value := counters[counter.name]) is not None
    ]
    return min(1.0, max(ratios)) if ratios else None


class SentPause:
    """Pause that a host sent, as each of its samples tells it: what safety limits are held against.

    What a driver refreshes once a second has no rate between two samples of 250 ms, but storms are to be stopped there,
    too. So what such a counter advances by at a refresh is spread over as long a time from then on: the sum over the
    samples is what was sent. Each refresh tells of the time since the one before; one that comes within the first
    period of a run may tell of the run before, and is left out.

    Args:
        catalog: counters of the hosts' driver.
    """

    def __init__(self, catalog: Catalog) -> None:
        pausing = catalog.of_role(Role.TX_PAUSE)
        self._refresh_seconds = max((counter.refresh_seconds for counter in pausing), default=0.0)
        self._catalog = replace(catalog, counters=tuple(replace(counter, refresh_seconds=0.0) for counter in pausing))

    def ratio(self, placed: Placed, index: int) -> float | None:
        """Return the share of time that the sample of this index, at least 1, tells of; None when it tells nothing."""
        first = index - 1 if not self._refresh_seconds else self._since(placed, index)
        if first is None:
            return None
        seconds = placed[index][0] - placed[first][0]
        moved = rates(self._catalog, [snapshot(sample, self._catalog) for _, sample in placed[first : index + 1]])
        sent = pause_ratio(self._catalog, moved, Role.TX_PAUSE)
        return None if sent is None else sent * min(1.0, seconds / (self._refresh_seconds or seconds))

    def _since(self, placed: Placed, index: int) -> int | None:
        """Return the sample from which on refreshes are to be counted; None while each may tell of the run before."""
        begun = self._refresh_seconds - SAME_MOMENT_SECONDS
        ended = placed[index][0] - begun
        known = [number for number in range(index) if placed[number][0] >= begun]
        return max((number for number in known if placed[number][0] <= ended), default=known[0] if known else None)
