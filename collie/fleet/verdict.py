"""The judgement of a fleet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A compared quantity within a probe."""

    probe: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.probe})"


@dataclass(frozen=True, slots=True)
class MetricDeviation:
    """A metric of a host against its peers.

    Attributes:
        value: median over the host's runs.
        median: median of the peers.
        low, high: the healthy range.
        score: lasting deviation over the bar, negative below the peers.
    """

    metric: Metric
    component: str
    unit: str
    value: float
    median: float
    low: float
    high: float
    score: float

    @property
    def is_odd(self) -> bool:
        """Whether chance does not explain the deviation."""
        return abs(self.score) >= 1.0


@dataclass(frozen=True, slots=True)
class HostAssessment:
    """The judgement of one host.

    Attributes:
        signs: the deviations in all compared metrics, the largest first.
        decisive: the comparison that decided, else the one with the largest deviation.
        component: the faulty component. None unless the host is odd.
    """

    host: str
    signs: tuple[MetricDeviation, ...]
    decisive: MetricDeviation
    component: str | None

    @property
    def is_odd(self) -> bool:
        """Whether some metric is odd."""
        return self.component is not None

    @property
    def score(self) -> float:
        """Magnitude of the decisive deviation, in bars."""
        return abs(self.decisive.score)

    @property
    def odd_signs(self) -> tuple[MetricDeviation, ...]:
        """The metrics in which the host is odd, the decisive one first."""
        return tuple(sorted((sign for sign in self.signs if sign.is_odd), key=lambda sign: sign is not self.decisive))


@dataclass(frozen=True, slots=True)
class FleetVerdict:
    """The judgement of all hosts.

    Attributes:
        standings: the oddest host first.
        unjudged: hosts with too few readings.
        metrics: number of compared metrics.
    """

    standings: tuple[HostAssessment, ...]
    unjudged: tuple[str, ...]
    metrics: int
    false_alarm: float

    @property
    def odd(self) -> tuple[HostAssessment, ...]:
        """The odd hosts."""
        return tuple(standing for standing in self.standings if standing.is_odd)
