"""The random part of a run, a function of (seed, run number)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

FAILURE_RATIO: Final = 0.01
FAILURES: Final = (
    ("qp timeout", "a queue pair did not reach ready-to-send in time"),
    ("connection refused", "the peer did not answer the exchange of queue pair numbers"),
    ("memory registration", "a memory region could not be pinned"),
)
UNSTABLE_RATIO: Final = 0.01
"""Share of runs that another program on the host disturbs."""
THROUGHPUT_SPREAD: Final = 0.01
"""Relative standard deviation, as in repeated perftest runs."""
COUNTER_SPREAD: Final = 0.03
SAMPLE_SPREAD: Final = 0.01
LATENCY_SPREADS: Final = (0.03, 0.08, 0.2)
"""Relative standard deviation of the median, of 99 % and of 99.9 %: few messages decide a tail."""
VICTIM_SPREAD: Final = 0.03
"""Relative standard deviation of a victim's throughput, which takes what others leave."""
SPURIOUS_PAUSE: Final = 2e-5
"""Scale of the occasional pause of a healthy NIC: a fiftieth of the anomaly threshold."""

START_PAUSE: Final = 0.05
"""Scale of the pause during connection set-up, before the window (paper, section 5.2)."""

_HOSTS: Final = 2
_BLOCK_RUNS: Final = 32


@dataclass(frozen=True, slots=True)
class RunNoise:
    """The random draws of one run. Lists have one entry per host, and `counters` one per host and counter.

    Attributes:
        failure: cause and detail of a failed set-up.
        throughput, pause, counters: factors on the readings.
        origin: seed, run and factor on the spread, for later draws.
    """

    failure: tuple[str, str] | None
    stable: bool
    throughput: list[float]
    pause: list[float]
    spurious_pause: list[float]
    counters: list[list[float]]
    start_pause: list[float]
    sample_count: int
    origin: tuple[int, int, float]

    @property
    def latency(self) -> tuple[float, float, float]:
        """Factors on the median, on 99 % and on 99.9 % of an offered load. They come from a generator of their own."""
        return self._tails(2)

    @property
    def victim_latency(self) -> tuple[float, float, float]:
        """The same factors for a victim."""
        return self._tails(4)

    def _tails(self, generator: int) -> tuple[float, float, float]:
        seed, run, noise = self.origin
        draws = np.random.default_rng([seed, run, generator]).standard_normal(len(LATENCY_SPREADS))
        median, p99, p999 = np.exp(noise * np.multiply(LATENCY_SPREADS, draws)).tolist()
        return median, p99, p999

    @property
    def victim(self) -> float:
        """Factor on the throughput of a victim, from a generator of its own."""
        seed, run, noise = self.origin
        return float(np.exp(noise * VICTIM_SPREAD * np.random.default_rng([seed, run, 3]).standard_normal()))

    @property
    def samples(self) -> list[list[float]]:
        """Factors by host and sample. They come from a separate generator, because few runs need them."""
        seed, run, noise = self.origin
        draws = np.random.default_rng([seed, run, 1]).standard_normal((_HOSTS, self.sample_count))
        spread: list[list[float]] = np.exp(noise * SAMPLE_SPREAD * draws).tolist()
        if self.stable:
            return spread
        return [[factor * (0.5 if factor > 1.0 else 1.0) for factor in host] for host in spread]


def draw_noise(seed: int, run: int, noise: float, counters: int, samples: int) -> RunNoise:
    """Draw the random part of a run. `noise` is a factor on all spreads and shares. With 0, every run is alike."""
    block, position = divmod(run, _BLOCK_RUNS)
    return _block(seed, block, noise, counters, samples)[position]


@lru_cache(maxsize=16)
def _block(seed: int, block: int, noise: float, counters: int, samples: int) -> tuple[RunNoise, ...]:
    rng = np.random.default_rng([seed, block])
    runs = range(block * _BLOCK_RUNS, (block + 1) * _BLOCK_RUNS)
    fails, cause, unsettled, strength = rng.random((4, _BLOCK_RUNS, 1))
    throughput, pause, spurious_pause, start = rng.standard_normal((4, _BLOCK_RUNS, _HOSTS))
    # In unstable runs, another program takes CPU time in bursts. In half of these runs, it also causes pause.
    unstable = unsettled < UNSTABLE_RATIO * noise
    taken = np.where(unstable, strength, 0.0)
    columns = (
        np.where(fails < FAILURE_RATIO * noise, cause * len(FAILURES), -1.0)[:, 0],
        ~unstable[:, 0],
        np.exp(noise * THROUGHPUT_SPREAD * throughput) * (1.0 - 0.3 * taken),
        np.exp(noise * COUNTER_SPREAD * pause),
        SPURIOUS_PAUSE * noise * abs(spurious_pause) + np.where(taken > 0.5, 0.01 * taken, 0.0),
        np.exp(noise * COUNTER_SPREAD * rng.standard_normal((_BLOCK_RUNS, _HOSTS, counters))),
        START_PAUSE * noise * abs(start),
    )
    rows = zip(runs, *(column.tolist() for column in columns), strict=True)
    return tuple(
        RunNoise(
            failure=FAILURES[int(cause)] if cause >= 0 else None,
            stable=stable,
            throughput=throughput,
            pause=pause,
            spurious_pause=spurious_pause,
            counters=factors,
            start_pause=start,
            sample_count=samples,
            origin=(seed, run, noise),
        )
        for run, cause, stable, throughput, pause, spurious_pause, factors, start in rows
    )
