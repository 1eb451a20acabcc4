"""What hardships do to a run. Each is a function of (seed, run number), from a generator of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from collie.campaign.hardships import EVERY_MECHANISM, Hardships, Outliers
from collie.errors import UsageError
from collie.simulator.mechanism import Mechanism
from collie.simulator.noise import RunNoise

DRIFT_SECONDS: Final = 36_000.0
"""Time in which throughput falls by the whole drift."""

RUN_SECONDS: Final = 40.0
"""Testbed time of one run for the drift, a mean over searches. A resumed campaign does not repeat its earlier runs, so
only the run's number tells the time."""

_BLOCK_RUNS: Final = 32
_FLAKY, _OUTLIERS, _DRIFT = 2, 3, 4  # generators. `noise` has those without a number and 1
_ORDER: Final = {mechanism: row for row, mechanism in enumerate(Mechanism)}


def show_rates(flaky: Mapping[str, float]) -> dict[Mechanism, float]:
    """Return the share of runs in which each flaky mechanism shows.

    Raises:
        UsageError: there is no such mechanism.
    """
    for name in flaky:
        if name != EVERY_MECHANISM and name not in _ORDER:
            known = ", ".join((EVERY_MECHANISM, *Mechanism))
            raise UsageError(f"--flaky {name}: there is no mechanism {name!r}; one of {known}")
    rest = flaky.get(EVERY_MECHANISM, 1.0)
    rates = {mechanism: flaky.get(mechanism, rest) for mechanism in Mechanism}
    return {mechanism: rate for mechanism, rate in rates.items() if rate < 1.0}


def absent(rates: Mapping[Mechanism, float], seed: int, run: int) -> frozenset[Mechanism]:
    """Return the mechanisms that do not show in a run."""
    if not rates:
        return frozenset()
    block, position = divmod(run, _BLOCK_RUNS)
    drawn = _draws(seed, block, _FLAKY, len(Mechanism))
    return frozenset(name for name, rate in rates.items() if drawn[_ORDER[name]][position] >= rate)


def outlier_pause(outliers: Outliers | None, seed: int, run: int) -> tuple[float, float]:
    """Return the share of the time for which hosts a and b send pause in addition: about that of `outliers`, or 0."""
    if outliers is None:
        return 0.0, 0.0
    block, position = divmod(run, _BLOCK_RUNS)
    happens, host, strength = (row[position] for row in _draws(seed, block, _OUTLIERS, 3))
    pause = outliers.pause * (0.9 + 0.2 * strength) if happens < outliers.share else 0.0
    return (pause, 0.0) if host < 0.5 else (0.0, pause)


def lost_share(drift: float, seed: int, seconds: float) -> float:
    """Return the share of the throughput that is lost at a time: 0 at first, and at most 1.5 times the drift.

    It rises evenly to the drift within `DRIFT_SECONDS` and stays there. A slow swing, of a period of 2 to 5 h, adds up
    to half of the drift.
    """
    ramp = min(1.0, seconds / DRIFT_SECONDS)
    return drift * (ramp + 0.5 * math.sin(math.pi * seconds / _swing_seconds(seed)) ** 2)


def troubled(noise: RunNoise, hardships: Hardships, seed: int, run: int) -> RunNoise:
    """Return the random part of a run with outliers and drift."""
    lost = lost_share(hardships.drift, seed, run * RUN_SECONDS)
    extra = outlier_pause(hardships.outliers, seed, run)
    return replace(
        noise,
        throughput=[factor * (1.0 - lost) for factor in noise.throughput],
        pause=[factor * (1.0 + lost) for factor in noise.pause],
        spurious_pause=[own + more for own, more in zip(noise.spurious_pause, extra, strict=True)],
    )


@lru_cache(maxsize=16)
def _draws(seed: int, block: int, generator: int, rows: int) -> list[list[float]]:
    # By row, so that a new mechanism leaves the draws of the others.
    drawn: list[list[float]] = np.random.default_rng([seed, block, generator]).random((rows, _BLOCK_RUNS)).tolist()
    return drawn


@lru_cache(maxsize=16)
def _swing_seconds(seed: int) -> float:
    return 3600.0 * (2.0 + 3.0 * float(np.random.default_rng([seed, 0, _DRIFT]).random()))
