"""The model of noise that verdicts, confirmation and explanation share (docs/explanation/trust.md)."""

from __future__ import annotations

from dataclasses import dataclass

from collie.limits import Ratio

_LOWER_RATES = {0.8: 0.06, 0.6: 0.05, 0.4: 0.04}
"""Show rates of anomalies that depend on more than the workload, with their prior chances."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The chances that one run misleads.

    Attributes:
        stray_rate: share of the runs of healthy traffic that look anomalous, weakly or strongly.
        miss_rate: share of the runs that look healthy although an anomaly is there that always shows.
    """

    stray_rate: Ratio = 0.01
    miss_rate: Ratio = 0.01


@dataclass(frozen=True, slots=True)
class ShowRate:
    """What repeated runs tell of an anomaly's show rate: the share of the runs of one workload that show it.

    Attributes:
        mean: expected show rate.
        always: chance that it always shows, up to the miss rate.
    """

    mean: float
    always: float


def show_rate(noise: Noise, shows: int, healthy: int) -> ShowRate:
    """Return the show rate after further runs of workloads that had shown the anomaly once."""
    chances = {1.0 - noise.miss_rate: 1.0 - sum(_LOWER_RATES.values()), **_LOWER_RATES}
    likelihoods = {rate: chance * rate**shows * (1.0 - rate) ** healthy for rate, chance in chances.items()}
    total = sum(likelihoods.values())
    mean = sum(rate * likelihood for rate, likelihood in likelihoods.items()) / total
    return ShowRate(mean, likelihoods[1.0 - noise.miss_rate] / total)
