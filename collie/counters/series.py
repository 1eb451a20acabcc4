"""Readings over time, and the rates between them.

A missing reading is None and stays None: never 0. A gauge is averaged, never differenced. A difference knows the
counter's width and so survives one wrap; a counter that went backwards otherwise (driver reload, reset) has no rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from collie.counters.catalog import Catalog, Counter

_LARGEST_PLAUSIBLE_STEP = 0.5
"""A 64-bit counter cannot advance by half its range between two samples; one that seems to has been reset."""


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
        The advance, through at most one wrap; None when a reading is missing or the counter was reset.
    """
    if before is None or after is None:
        return None
    advance = after - before
    if advance < 0:
        advance += 1 << counter.width
        if advance > _LARGEST_PLAUSIBLE_STEP * (1 << counter.width):
            return None
    return advance * counter.scale


def rates(catalog: Catalog, snapshots: Sequence[Snapshot]) -> dict[str, float | None]:
    """Return each counter of a catalog over a window: advance per second, or the mean of a gauge.

    Args:
        catalog: the counters to look for.
        snapshots: at least two, in order of time.

    Returns:
        By counter name; None where any reading in the window was missing or the counter was reset.
    """
    return {counter.name: _rate(counter, snapshots) for counter in catalog.counters}


def _rate(counter: Counter, snapshots: Sequence[Snapshot]) -> float | None:
    readings = [snapshot.values.get(counter.name) for snapshot in snapshots]
    if counter.gauge:
        known = [reading for reading in readings if reading is not None]
        return counter.scale * sum(known) / len(known) if known and len(known) == len(readings) else None
    elapsed = snapshots[-1].seconds - snapshots[0].seconds if len(snapshots) > 1 else 0.0
    if elapsed <= 0:
        return None
    total = 0.0
    # Step by step, not first to last: a 32-bit counter at 200 M/s wraps every 21 s.
    for before, after in pairwise(readings):
        advance = difference(counter, before, after)
        if advance is None:
            return None
        total += advance
    return total / elapsed


def is_stable(values: Sequence[float], tolerance: float) -> bool:
    """Whether a window shows one level: at least four samples whose spread stays within a share of their mean.

    Args:
        values: a rate per sample.
        tolerance: largest coefficient of variation (standard deviation / mean).
    """
    if len(values) < 4:
        return False
    mean = sum(values) / len(values)
    if mean <= 0:
        return all(value == 0 for value in values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return math.sqrt(variance) / mean <= tolerance
