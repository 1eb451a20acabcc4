"""What chance adds to a run: everything is a function of (seed, run number)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

FAILURE_RATIO: Final = 0.01
"""Runs whose traffic cannot be set up."""
FAILURES: Final = (
    ("qp timeout", "a queue pair did not reach ready-to-send in time"),
    ("connection refused", "the peer did not answer the exchange of queue pair numbers"),
    ("memory registration", "a memory region could not be pinned"),
)
UNSTABLE_RATIO: Final = 0.01
"""Runs whose window does not show one level: somebody else used the host."""
THROUGHPUT_SPREAD: Final = 0.01
"""Standard deviation of a run's throughput, relative: what repeated perftest runs show."""
COUNTER_SPREAD: Final = 0.03
"""Standard deviation of a counter, relative."""
SAMPLE_SPREAD: Final = 0.01
"""Standard deviation of one sample around its run, relative."""
STRAY_PAUSE: Final = 2e-5
"""Scale of the pause that a healthy NIC sends now and then: a fiftieth of what counts as an anomaly."""

START_PAUSE: Final = 0.05
"""Scale of the pause while connections are set up (paper, section 5.2), before the window."""


@dataclass(frozen=True, slots=True)
class Chance:
    """What chance does to one run.

    Attributes:
        failure: cause and detail of a failed set-up, or None.
        stable: whether the window shows one level.
        throughput: factor on delivered throughput, per host.
        pause: factor on pause, per host.
        stray: pause that comes from nothing, per host.
        counters: factor per host and counter.
        samples: factor per host and sample.
        start_pause: pause ratio of the first start-up sample, per host.
    """

    failure: tuple[str, str] | None
    stable: bool
    throughput: list[float]
    pause: list[float]
    stray: list[float]
    counters: list[list[float]]
    samples: list[list[float]]
    start_pause: list[float]


@lru_cache
def _scales(counters: int, samples: int) -> NDArray[np.float64]:
    """Standard deviation of each of a host's factors: throughput, pause, counters, samples; for both hosts."""
    host = [THROUGHPUT_SPREAD, COUNTER_SPREAD, *[COUNTER_SPREAD] * counters, *[SAMPLE_SPREAD] * samples]
    return np.array(host + host)


def chance(seed: int, run: int, noise: float, counters: int, samples: int) -> Chance:
    """Draw what chance does to a run.

    Args:
        seed: of the testbed.
        run: number of the run.
        noise: factor on everything; above 0.
        counters: how many a host has.
        samples: how many a host's series has.
    """
    rng = np.random.default_rng([seed, run])
    fails, cause, disturbed, strength = rng.random(4).tolist()
    stray = [STRAY_PAUSE * noise * abs(draw) for draw in rng.standard_normal(2).tolist()]
    start = [START_PAUSE * noise * abs(draw) for draw in rng.standard_normal(2).tolist()]
    scales = _scales(counters, samples)
    factors = np.exp(noise * scales * rng.standard_normal(scales.size)).tolist()
    hosts = factors[: len(factors) // 2], factors[len(factors) // 2 :]
    throughput = [host[0] for host in hosts]
    spread = [host[2 + counters :] for host in hosts]
    if disturbed < UNSTABLE_RATIO * noise:
        # Another program takes part of the time, in bouts; half of such runs also show the pause that it causes.
        throughput = [factor * (1.0 - 0.3 * strength) for factor in throughput]
        spread = [[factor * (0.5 if factor > 1.0 else 1.0) for factor in host] for host in spread]
        stray = [ratio + (0.01 * strength if strength > 0.5 else 0.0) for ratio in stray]
    return Chance(
        failure=FAILURES[int(cause * len(FAILURES))] if fails < FAILURE_RATIO * noise else None,
        stable=disturbed >= UNSTABLE_RATIO * noise,
        throughput=throughput,
        pause=[host[1] for host in hosts],
        stray=stray,
        counters=[host[2 : 2 + counters] for host in hosts],
        samples=spread,
        start_pause=start,
    )
