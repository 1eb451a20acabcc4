"""Readings over time, their rates and their spread.

1. A missing reading stays None, never 0.
2. A gauge is averaged, never differenced.
3. A difference survives one wrap. Any other step back is a reset and gives no rate.
4. A counter that the driver refreshes once a second moves in steps. Its rate is measured from step to step, and needs
   two refreshes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from collie.counters.catalog import Catalog, Counter

_LARGEST_PLAUSIBLE_STEP = 0.5
"""Share of a counter's range. An apparent wrap with a larger advance between two samples was a reset."""
_MIN_REFRESHES = 2.0
_LATE_REFRESHES = 1.5
"""Refresh intervals. A moving counter changes at each refresh, so a counter constant for longer stood still."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Readings of a host by counter name, None if unreadable. `seconds` is its monotonic clock halfway through them."""

    seconds: float
    values: Mapping[str, int | float | None]


def difference(counter: Counter, before: float | None, after: float | None) -> float | None:
    """Return the advance of a counter in its unit.

    Return None if a reading is missing, or the counter was reset or is saturated.
    """
    if before is None or after is None or _is_reset(counter, before, after):
        return None
    if counter.saturates and after >= (1 << counter.width) - 1:
        return None
    advance = after - before
    return (advance + (1 << counter.width) if advance < 0 else advance) * counter.scale


def _is_reset(counter: Counter, before: float, after: float) -> bool:
    wraps_by = after - before + (1 << counter.width)
    return after < before and (counter.saturates or wraps_by > _LARGEST_PLAUSIBLE_STEP * (1 << counter.width))


def resets(catalog: Catalog, snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    """Return the counters that were reset, in the catalog's order."""
    return tuple(
        counter.name
        for counter in catalog.counters
        if not counter.gauge
        and any(
            before is not None and after is not None and _is_reset(counter, before, after)
            for before, after in pairwise(snapshot.values.get(counter.name) for snapshot in snapshots)
        )
    )


def rates(catalog: Catalog, snapshots: Sequence[Snapshot]) -> dict[str, float | None]:
    """Return each counter's rate over two or more snapshots, or the mean of a gauge.

    A rate is None if a reading is missing, the counter was reset, or the window is too short for its refresh.
    """
    return {counter.name: _rate(counter, snapshots) for counter in catalog.counters}


def rates_at(catalog: Catalog, snapshots: Sequence[Snapshot], index: int) -> dict[str, float | None]:
    """Return each counter's rate up to the snapshot `index`, at least 1.

    A slowly refreshed counter uses as many earlier snapshots as it needs, so its rate lags.
    """
    return {
        counter.name: _rate(counter, snapshots[_since(counter, snapshots, index) : index + 1])
        for counter in catalog.counters
    }


def _since(counter: Counter, snapshots: Sequence[Snapshot], index: int) -> int:
    """Return the index of the latest snapshot that is old enough for a rate, or of the first."""
    if counter.gauge or counter.refresh_seconds <= 0:
        return index - 1
    begin = snapshots[index].seconds - _MIN_REFRESHES * counter.refresh_seconds
    return max((number for number in range(index) if snapshots[number].seconds <= begin), default=0)


def _rate(counter: Counter, snapshots: Sequence[Snapshot]) -> float | None:
    readings = [snapshot.values.get(counter.name) for snapshot in snapshots]
    if counter.gauge:
        known = [reading for reading in readings if reading is not None]
        return counter.scale * sum(known) / len(known) if known and len(known) == len(readings) else None
    elapsed = snapshots[-1].seconds - snapshots[0].seconds if len(snapshots) > 1 else 0.0
    if elapsed <= 0:
        return None
    advances = []
    # Step by step, not first to last: a 32-bit counter at 200 M/s wraps every 21 s.
    for before, after in pairwise(readings):
        advance = difference(counter, before, after)
        if advance is None:
            return None
        advances.append(advance)
    if counter.refresh_seconds <= 0:
        return sum(advances) / elapsed
    return _stepped(counter.refresh_seconds, [snapshot.seconds for snapshot in snapshots], advances)


def _stepped(refresh: float, seconds: Sequence[float], advances: Sequence[float]) -> float | None:
    """Return the rate of a counter that moves once per refresh.

    The time of the advance at the first step is unknown, so the rate is taken from the first step to the last. A step
    counts as halfway between two samples.
    """
    if seconds[-1] - seconds[0] < _MIN_REFRESHES * refresh:
        return None
    steps = [index for index, advance in enumerate(advances) if advance]
    if not steps:
        return 0.0
    moments = [(before + after) / 2 for before, after in pairwise(seconds)]
    first, last = steps[0], steps[-1]
    begins_still = moments[first] - seconds[0] > _LATE_REFRESHES * refresh
    ends_still = seconds[-1] - moments[last] > _LATE_REFRESHES * refresh
    begin = seconds[0] if begins_still else moments[first]
    end = seconds[-1] if ends_still else moments[last]
    if end - begin < refresh / 2:  # a single step, at an unknown place in the window
        return sum(advances) / (seconds[-1] - seconds[0])
    counted = advances if begins_still else advances[first + 1 :]
    return sum(counted) / (end - begin)


def is_stable(values: Sequence[float], tolerance: float) -> bool:
    """Whether at least four values have a `variation` within the tolerance."""
    return len(values) >= 4 and variation(values) <= tolerance


def is_level(values: Sequence[float], tolerance: float, typical: float) -> bool:
    """Whether the mean of a long, unstable window is as certain as that of a stable one with `typical` samples.

    `tolerance` limits the `variation` of the stable window, and the difference between the means of both halves.
    """
    half = len(values) // 2
    if half < 4 or variation(values) > tolerance * math.sqrt(len(values) / typical):
        return False
    early, late = sum(values[:half]) / half, sum(values[-half:]) / half
    return abs(late - early) <= tolerance * (early + late) / 2


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation: 0 for zeros only, infinite for a mean of 0."""
    mean = sum(values) / len(values)
    if mean <= 0:
        return math.inf if any(values) else 0.0
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return math.sqrt(variance) / mean


SPREAD_OF_NORMAL: Final = 1.4826
"""Standard deviation over median absolute deviation, for a normal distribution."""


def robust_spread(values: Sequence[float], middle: float) -> float:
    """Return the standard deviation of a normal distribution with the same median absolute deviation from `middle`.

    `middle` is the median of at least one value.
    """
    return SPREAD_OF_NORMAL * median(abs(value - middle) for value in values)
