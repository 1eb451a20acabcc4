"""Readings over time, and the rates between them.

1. A missing reading is None and stays None: never 0.
2. A gauge is averaged, never differenced.
3. A difference knows the counter's width and so survives one wrap. A counter that went backwards otherwise has been
   reset (driver reload, firmware reset) and has no rate; `resets` names it. One that saturates has none at its end.
4. What a driver refreshes once a second moves in steps of a second. Its rate is taken from step to step, not over the
   samples between which they happened to fall; over less than two refreshes it has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from collie.counters.catalog import Catalog, Counter

_LARGEST_PLAUSIBLE_STEP = 0.5
"""A counter cannot advance by half its range between two samples; one that seems to has been reset."""
_MIN_REFRESHES = 2.0
_LATE_REFRESHES = 1.5
"""A counter in motion changes at each refresh. When none came for longer, it stood still there."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Readings of one host at one moment.

    Attributes:
        seconds: the host's own monotonic clock, at the middle of the reading.
        values: by counter name; None for a counter that could not be read.
    """

    seconds: float
    values: Mapping[str, int | float | None]


def difference(counter: Counter, before: float | None, after: float | None) -> float | None:
    """Return how far a counter advanced, in its unit.

    Args:
        counter: knows width and scale; must not be a gauge.
        before: the earlier reading.
        after: the later reading.

    Returns:
        The advance, through at most one wrap; None when a reading is missing, the counter was reset or is at its end.
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
    """Return the counters that went backwards without a wrap, in the catalog's order."""
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
    """Return each counter of a catalog over a window: advance per second, or the mean of a gauge.

    Args:
        catalog: the counters to look for.
        snapshots: at least two, in order of time.

    Returns:
        By counter name; None where any reading in the window was missing, the counter was reset, or the window is too
        short for how seldom it is refreshed.
    """
    return {counter.name: _rate(counter, snapshots) for counter in catalog.counters}


def rates_at(catalog: Catalog, snapshots: Sequence[Snapshot], index: int) -> dict[str, float | None]:
    """Return each counter of a catalog at one snapshot: its rate since the one before.

    That of a counter which its driver refreshes seldom is over as much of the time before as tells one, so that it is
    late by that, but neither zero nor a multiple.

    Args:
        catalog: the counters to look for.
        snapshots: in order of time.
        index: of the snapshot; at least 1.
    """
    return {
        counter.name: _rate(counter, snapshots[_since(counter, snapshots, index) : index + 1])
        for counter in catalog.counters
    }


def _since(counter: Counter, snapshots: Sequence[Snapshot], index: int) -> int:
    """Return the snapshot since which a rate is to be taken: the last one that is long enough ago, or the first."""
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

    What it advanced at its first step was counted before it, over a time that nobody saw the beginning of; so the rate
    is that of the later steps, over the time from the first to the last. A step was somewhere between two samples: in
    their middle, as far as anybody knows.
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
    if end - begin < refresh / 2:  # a single step: all that is known is that it lies in the window
        return sum(advances) / (seconds[-1] - seconds[0])
    counted = advances if begins_still else advances[first + 1 :]
    return sum(counted) / (end - begin)


def is_stable(values: Sequence[float], tolerance: float) -> bool:
    """Whether a window shows one level: at least four samples whose spread stays within a share of their mean.

    Args:
        values: a rate per sample.
        tolerance: largest coefficient of variation (standard deviation / mean).
    """
    return len(values) >= 4 and variation(values) <= tolerance


def is_level(values: Sequence[float], tolerance: float, typical: float) -> bool:
    """Whether values that swing have one level, whose mean is known as well as that of a stable window.

    Args:
        values: a rate per sample, of a window that is longer than usual.
        tolerance: largest coefficient of variation of a stable window; by no more do the means of both halves differ.
        typical: samples of a stable window.
    """
    half = len(values) // 2
    if half < 4 or variation(values) > tolerance * math.sqrt(len(values) / typical):
        return False
    early, late = sum(values[:half]) / half, sum(values[-half:]) / half
    return abs(late - early) <= tolerance * (early + late) / 2


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation (standard deviation / mean): 0 of nothing but zeros, infinite of mean 0."""
    mean = sum(values) / len(values)
    if mean <= 0:
        return math.inf if any(values) else 0.0
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return math.sqrt(variance) / mean
