"""Pause as a share of time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from collie.counters.catalog import Catalog, Role, Unit
from collie.readings.recording import SAME_MOMENT_SECONDS, Timeline, samples_of
from collie.readings.samples import counter_rates


def pause_ratio(catalog: Catalog, counters: Mapping[str, float | None], role: Role) -> float | None:
    """Return the largest share over the priorities. It is cut to 1, because a NIC's steps can exceed the window."""
    scale = {Unit.MICROSECONDS: 1e-6, Unit.PERCENT: 1e-2}
    ratios = [
        value * scale[counter.unit]
        for counter in catalog.of_role(role)
        if counter.unit in scale and (value := counters[counter.name]) is not None
    ]
    return min(1.0, max(ratios)) if ratios else None


class SentPause:
    """Pause that a host sent, per sample.

    A counter that refreshes once a second has no rate between two samples of 250 ms. So each refresh is spread over the
    refresh period after it. A refresh in the first period may include the previous run, and is ignored.
    """

    def __init__(self, catalog: Catalog) -> None:
        pausing = catalog.of_role(Role.TX_PAUSE)
        self._refresh_seconds = max((counter.refresh_seconds for counter in pausing), default=0.0)
        self._catalog = replace(catalog, counters=tuple(replace(counter, refresh_seconds=0.0) for counter in pausing))

    def ratio(self, timeline: Timeline, index: int) -> float | None:
        """Return the share of time for the sample at `index`, which is 1 or more. None where no refresh covers it."""
        first = index - 1 if not self._refresh_seconds else self._since(timeline, index)
        if first is None:
            return None
        seconds = timeline[index][0] - timeline[first][0]
        moved = counter_rates(samples_of(timeline[first : index + 1]), self._catalog)
        sent = pause_ratio(self._catalog, moved, Role.TX_PAUSE)
        return None if sent is None else sent * min(1.0, seconds / (self._refresh_seconds or seconds))

    def _since(self, timeline: Timeline, index: int) -> int | None:
        """Return the index of the first sample whose refreshes count, if any."""
        begun = self._refresh_seconds - SAME_MOMENT_SECONDS
        ended = timeline[index][0] - begun
        known = [number for number in range(index) if timeline[number][0] >= begun]
        return max((number for number in known if timeline[number][0] <= ended), default=known[0] if known else None)
