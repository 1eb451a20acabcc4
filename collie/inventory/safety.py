"""What a site allows Collie to do to its network. `campaign.safety` enforces it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SafetyLimits:
    """Limits of one site or one campaign; None is no limit.

    Attributes:
        pause_per_second: seconds for which a host may send pause within any second.
        pause_per_campaign: seconds for which all hosts together may send pause over all runs.
        rate_bps: payload bits/s that a host may receive, and that it may send.
    """

    pause_per_second: float | None = None
    pause_per_campaign: float | None = None
    rate_bps: float | None = None

    @property
    def unlimited(self) -> bool:
        """Whether nothing is limited."""
        return self == SafetyLimits()


REAL_HOSTS = SafetyLimits(pause_per_second=0.2, pause_per_campaign=120.0)
"""Where a hosts file says nothing. A switch's PFC watchdog calls 200 ms of unbroken pause a storm and takes the port
out of lossless service; two minutes of pause let a campaign confirm and explain a few anomalies."""
